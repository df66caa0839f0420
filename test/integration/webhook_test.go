package integration

import (
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

// An admission webhook that refuses all pods for a while, then does not answer, then allows them: the reason is in the
// status (RS-27, DEP-66), the retries get rarer, and nothing is given up.
func TestAWebhookThatRefusesPods(t *testing.T) {
	b := share(t)
	hook := &webhook{}
	hook.install(b)

	hook.mood.Store(refusing)
	began := time.Now()
	b.create(deployment("web", 3))
	c := b.waitCondition("web", appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")
	if want := `denied the request: not today`; !strings.Contains(c.Message, want) {
		t.Errorf("the message is %q, want %q in it", c.Message, want)
	}
	hook.mood.Store(silent)
	b.wait("the message tells of the silence", func() error {
		rs := b.sets()[0]
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && strings.Contains(c.Message, "deadline exceeded") {
				return nil
			}
		}
		return fmt.Errorf("%+v", rs.Status.Conditions)
	})
	if n := len(b.pods()); n != 0 {
		t.Errorf("%d pods", n)
	}
	if n, most := int(hook.asked.Load()), mostTries(time.Since(began)); n > most {
		t.Errorf("%d pods were to be created, want at most %d: pauses double", n, most)
	}
	hook.mood.Store(allowing)
	cluster.Eventually(t, 2*patience, "web is rolled out", func() error { return suite.Complete(b.get("web")) })
	b.wait("the failure is over", func() error {
		if len(b.sets()[0].Status.Conditions) > 0 {
			return errors.New("the ReplicaSet still says that it failed")
		}
		return nil
	})
}

// The moods of a webhook.
const (
	allowing int32 = iota
	refusing
	silent
)

// webhook decides about the pods of a namespace.
type webhook struct {
	mood  atomic.Int32
	asked atomic.Int32
}

// install has the API server ask the webhook about each new pod of the test's namespace.
func (h *webhook) install(b *bench) {
	b.Helper()
	server := httptest.NewTLSServer(h)
	b.Cleanup(server.Close)
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: b.ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "pods.example.com", AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To[int32](1),
			SideEffects:       ptr.To(admissionregistrationv1.SideEffectClassNone),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: b.ns}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	if _, err := b.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(b.Context(), config, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	h.mood.Store(refusing)
	b.wait("the API server asks the webhook", func() error {
		_, err := b.Client.CoreV1().Pods(b.ns).Create(b.Context(), pod("probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "not today") {
			return fmt.Errorf("a pod was answered by %v", err)
		}
		return nil
	})
	h.asked.Store(0)
}

// ServeHTTP answers an AdmissionReview.
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked.Add(1)
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint("no review: ", err), http.StatusBadRequest)
		return
	}
	mood := h.mood.Load()
	if mood == silent {
		<-r.Context().Done()
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: mood == allowing, Result: &metav1.Status{Message: "not today"}}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
