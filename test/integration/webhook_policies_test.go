package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// policy is a mutating webhook of the test's namespace, as somebody has written it who has not thought of controllers.
type policy struct {
	patience int32 // of the API server, in seconds; zero for 30

	decide  atomic.Pointer[decision] // nil: all is allowed as it is
	asked   atomic.Int32             // while there is one
	noticed atomic.Bool              // the API server asks
}

// decision is what a policy makes of an object: nil for whatever it has nothing to say about.
type decision func(*admissionv1.AdmissionRequest, *metav1.PartialObjectMetadata, *http.Request) *admissionv1.AdmissionResponse

// install has the API server ask the policy about what is done to a resource.
func (p *policy) install(b *bench, group, resource string, operations ...admissionregistrationv1.OperationType) {
	b.Helper()
	server := httptest.NewTLSServer(p)
	b.Cleanup(server.Close)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: b.ns},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "policy.example.com", AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To(cmp.Or(p.patience, 30)),
			SideEffects:       ptr.To(admissionregistrationv1.SideEffectClassNone),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: b.ns}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{
				{Operations: operations,
					Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"},
						Resources: []string{resource}}},
				{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					// by which it is noticed
					Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"serviceaccounts"}}},
			},
		}},
	}
	webhooks := b.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := webhooks.Create(b.Context(), config, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		p.allowAll()
		if err := webhooks.Delete(context.Background(), b.ns, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
		b.wait("the API server does not ask the webhook any longer", func() error { return p.isAsked(b, false) })
	})
	b.wait("the API server asks the webhook", func() error { return p.isAsked(b, true) })
}

// isAsked returns an error unless the API server asks the policy, or does not.
func (p *policy) isAsked(b *bench, want bool) error {
	p.noticed.Store(false)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
	_, err := b.Client.CoreV1().ServiceAccounts(b.ns).Create(context.Background(), account,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if asked := p.noticed.Load(); err == nil && asked != want {
		err = fmt.Errorf("asked: %v", asked)
	}
	return err
}

// have has the policy decide in that way from now on.
func (p *policy) have(d decision) {
	p.asked.Store(0)
	p.decide.Store(&d)
}

func (p *policy) allowAll() { p.decide.Store(nil) }

// ServeHTTP answers an AdmissionReview.
func (p *policy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	o := &metav1.PartialObjectMetadata{}
	err := json.NewDecoder(r.Body).Decode(&review)
	if err == nil && review.Request != nil {
		raw := review.Request.Object.Raw
		if review.Request.Operation == admissionv1.Delete {
			raw = review.Request.OldObject.Raw
		}
		err = json.Unmarshal(raw, o)
	}
	if err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint("no review: ", err), http.StatusBadRequest)
		return
	}
	p.noticed.Store(true)
	if decide := p.decide.Load(); decide != nil && review.Request.Resource.Resource != "serviceaccounts" {
		p.asked.Add(1)
		review.Response = (*decide)(review.Request, o, r)
	}
	if review.Response == nil {
		review.Response = &admissionv1.AdmissionResponse{Allowed: true}
	}
	review.Response.UID = review.Request.UID
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// mutated allows an object with a JSON patch.
func mutated(format string, args ...any) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch),
		Patch: fmt.Appendf(nil, format, args...)}
}

// mostUndone is how often something is written in that time that comes to nothing: twice, and then after 1s, 2s, 4s and so on.
func mostUndone(d time.Duration) (n int) {
	for wait := time.Second; d > 0; wait = min(2*wait, time.Minute) {
		d, n = d-wait, n+1
	}
	return n + 3
}

// A webhook that takes the labels off new pods: the Deployment says so, few pods are made, and when the webhook is gone the rollout ends.
func TestAWebhookThatTakesTheLabelsOfPods(t *testing.T) {
	b := share(t)
	p := &policy{}
	p.install(b, "", "pods", admissionregistrationv1.Create)
	p.have(func(*admissionv1.AdmissionRequest, *metav1.PartialObjectMetadata, *http.Request) *admissionv1.AdmissionResponse {
		return mutated(`[{"op":"remove","path":"/metadata/labels/app"}]`)
	})
	began := time.Now()
	b.create(deployment("web", 2))
	c := b.waitCondition("web", appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")
	if want := "without the labels of the selector"; !strings.Contains(c.Message, want) {
		t.Errorf("the message is %q, want %q in it", c.Message, want)
	}
	time.Sleep(10 * time.Second) // in which pods are counted
	if n, most := len(b.pods()), mostUndone(time.Since(began)); n == 0 || n > most {
		t.Errorf("%d pods were made, want at most %d", n, most)
	}
	p.allowAll()
	cluster.Eventually(t, 2*patience, "web is rolled out", func() error { return suite.Complete(b.get("web")) })
}

// A webhook that puts off pods for a day: the ReplicaSet and the Deployment say so, and when the webhook is gone the rollout ends.
func TestAWebhookThatPutsOffPods(t *testing.T) {
	b := share(t)
	p := &policy{}
	p.install(b, "", "pods", admissionregistrationv1.Create)
	p.have(func(*admissionv1.AdmissionRequest, *metav1.PartialObjectMetadata, *http.Request) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: http.StatusTooManyRequests,
			Reason:  metav1.StatusReasonTooManyRequests,
			Message: "come back tomorrow", Details: &metav1.StatusDetails{RetryAfterSeconds: 86400}}}
	})
	b.create(deployment("web", 2))
	c := b.waitCondition("web", appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")
	if want := "come back tomorrow"; !strings.Contains(c.Message, want) {
		t.Errorf("the message is %q, want %q in it", c.Message, want)
	}
	p.allowAll()
	cluster.Eventually(t, 2*patience, "web is rolled out", func() error { return suite.Complete(b.get("web")) })
}

// A webhook that stamps each ReplicaSet with an annotation that its Deployment has, too: rollouts end, the ReplicaSet is written ever
// more rarely, and an event tells of it.
func TestAWebhookThatStampsReplicaSets(t *testing.T) {
	b := share(t)
	p := &policy{}
	p.install(b, "apps", "replicasets", admissionregistrationv1.Update)
	var stamps atomic.Int32
	p.have(func(_ *admissionv1.AdmissionRequest, o *metav1.PartialObjectMetadata, _ *http.Request) *admissionv1.AdmissionResponse {
		if o.Annotations == nil {
			return nil
		}
		return mutated(`[{"op":"add","path":"/metadata/annotations/example.com~1stamp","value":"%d"}]`, stamps.Add(1))
	})
	d := deployment("web", 2)
	d.Annotations = map[string]string{"example.com/stamp": "none"}
	b.create(d)
	b.waitComplete("web")
	b.setImage("web", "web:2")
	b.waitComplete("web")
	began := time.Now()
	p.asked.Store(0)
	time.Sleep(10 * time.Second)                                                   // in which writes are counted
	if n, most := int(p.asked.Load()), 2*mostUndone(time.Since(began)); n > most { // of two ReplicaSets
		t.Errorf("ReplicaSets were written %d times at rest, want at most %d", n, most)
	}
	b.wait("an event tells of it", func() error {
		for _, e := range events(t.Context(), t, b.Client, b.ns, "web") {
			if strings.Contains(fmt.Sprint(e), "ChangeUndone") {
				return nil
			}
		}
		return errors.New("none does")
	})
}

// A webhook of one tenant that hangs keeps no other one waiting, for creations and for deletions.
func TestAWebhookThatHangsIsFeltByItsNamespaceOnly(t *testing.T) {
	b := alone(t)
	b.Manager(t, "--controllers=deployment,replicaset,job,garbagecollector")
	slow, hangs := &bench{t, b.Cluster, b.Cluster.Namespace(t)}, &policy{}
	hangs.install(slow, "", "pods", admissionregistrationv1.Create)
	hangs.have(func(_ *admissionv1.AdmissionRequest, _ *metav1.PartialObjectMetadata, r *http.Request) *admissionv1.AdmissionResponse {
		<-r.Context().Done()
		return nil
	})
	b.create(deployment("before", 1))
	b.waitComplete("before")
	for i := range 20 {
		slow.create(deployment(fmt.Sprint("web-", i), 3))
	}
	b.wait("the webhook hangs", func() error {
		if hangs.asked.Load() < 5 {
			return fmt.Errorf("it was asked %d times", hangs.asked.Load())
		}
		return nil
	})
	began := time.Now()
	b.create(deployment("web", 8))
	b.waitComplete("web")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the other tenant's Deployment was rolled out after %v", took)
	}
	hangs.allowAll()
	cluster.Eventually(t, 2*patience, "all are rolled out", func() error {
		for i := range 20 {
			if err := suite.Complete(slow.get(fmt.Sprint("web-", i))); err != nil {
				return err
			}
		}
		return nil
	})
}
