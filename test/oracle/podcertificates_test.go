package oracle

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodCertificateRequestsStayForATime(t *testing.T) { // S38
	const early = "before its time"
	request := func(s *scene, edits ...func(Object)) Object {
		r := &certificatesv1.PodCertificateRequest{ObjectMeta: named("web-0-x")}
		r.CreationTimestamp = metav1.NewTime(s.Now)
		for _, edit := range edits {
			edit(r)
		}
		return s.User().Create(r)
	}
	run(t, PodCertificateRequestsStayForATime(), []history{
		{name: "CSR-43 after a quarter of an hour", write: func(s *scene) {
			r := request(s)
			s.Wait(15 * time.Minute)
			s.Manager().Delete(r)
		}},
		{name: "CSR-43 a moment before", write: func(s *scene) {
			r := request(s)
			s.Wait(15*time.Minute - time.Second)
			s.Manager().Delete(r)
		}, want: early},
		{name: "CSR-43 it has a finalizer, and is marked", write: func(s *scene) {
			r := request(s, func(o Object) { o.SetFinalizers([]string{"x"}) })
			s.Wait(time.Minute)
			s.Manager().Terminate(r)
		}, want: early},
		{name: "a user deletes it", write: func(s *scene) { s.User().Delete(request(s)) }},
		{name: "with its namespace", write: func(s *scene) {
			ns := s.User().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Finalizers: []string{"kubernetes"}}})
			r := request(s)
			s.User().Terminate(ns)
			s.Manager().Delete(r)
		}},
		{name: "with its owner", write: func(s *scene) {
			pod := s.User().Create(&corev1.Pod{ObjectMeta: named("web-0")})
			s.Manager().Delete(request(s, func(o Object) { ownedBy(o, Pod, pod) }))
		}},
	})
}
