package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// An admission webhook that refuses all pods for a while, then does not answer, then allows them: the reason is in the
// status (RS-27, DEP-66), the retries get rarer, and nothing is given up.
func TestAWebhookThatRefusesPods(t *testing.T) {
	b := share(t)
	hook := &policy{patience: 1}
	hook.install(b, "", "pods", admissionregistrationv1.Create)
	hook.have(func(*admissionv1.AdmissionRequest, *metav1.PartialObjectMetadata, *http.Request) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "not today"}}
	})
	began := time.Now()
	b.create(deployment("web", 3))
	c := b.waitCondition("web", appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")
	if want := `denied the request: not today`; !strings.Contains(c.Message, want) {
		t.Errorf("the message is %q, want %q in it", c.Message, want)
	}
	asked := hook.asked.Load()
	hook.have(func(_ *admissionv1.AdmissionRequest, _ *metav1.PartialObjectMetadata, r *http.Request) *admissionv1.AdmissionResponse {
		<-r.Context().Done()
		return nil
	})
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
	if n, most := int(asked+hook.asked.Load()), mostTries(time.Since(began)); n > most {
		t.Errorf("%d pods were to be created, want at most %d: pauses double", n, most)
	}
	hook.allowAll()
	cluster.Eventually(t, 2*patience, "web is rolled out", func() error { return suite.Complete(b.get("web")) })
	b.wait("the failure is over", func() error {
		if len(b.sets()[0].Status.Conditions) > 0 {
			return errors.New("the ReplicaSet still says that it failed")
		}
		return nil
	})
}

// A webhook that answers as the API server does of an object that is gone, or is another one: the pods are there, so this is a refusal
// like any other.
func TestAWebhookThatSaysThatAPodIsGone(t *testing.T) {
	for code, reason := range map[int32]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusConflict: metav1.StatusReasonConflict} {
		t.Run(string(reason), func(t *testing.T) {
			b := share(t)
			b.create(deployment("web", 3))
			b.waitComplete("web")
			hook := &policy{}
			hook.install(b, "", "pods", admissionregistrationv1.Delete)
			hook.have(func(_ *admissionv1.AdmissionRequest, o *metav1.PartialObjectMetadata,
				_ *http.Request) *admissionv1.AdmissionResponse {
				return &admissionv1.AdmissionResponse{Result: &metav1.Status{
					Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "it is not there",
					Details: &metav1.StatusDetails{Kind: "pods", Name: o.Name},
				}}
			})
			began := time.Now()
			b.patch("web", `{"spec":{"replicas":1}}`)
			b.waitCondition("web", appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedDelete")
			if n, most := int(hook.asked.Load()), 2*mostTries(time.Since(began)); n > most || len(b.pods()) != 3 {
				t.Errorf("%d deletions were tried, want at most %d; %d pods", n, most, len(b.pods()))
			}
			hook.allowAll()
			cluster.Eventually(t, 2*patience, "web is small", func() error { return suite.Complete(b.get("web")) })
		})
	}
}
