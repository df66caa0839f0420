package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// The garbage collector and the namespace controller work on all kinds.
func TestGarbageOfAnyKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(1)
		cluster := New(server, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); cluster.Run(ctx) }()
		do := func(w apiserver.Write) apiserver.Object {
			t.Helper()
			o, err := server.Do(w)
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		create := func(o apiserver.Object) apiserver.Object {
			return do(apiserver.Write{Verb: apiserver.Create, Object: o})
		}

		create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
		meta := metav1.ObjectMeta{Namespace: "x", Name: "a"}
		owner := create(&batchv1.CronJob{ObjectMeta: meta})
		meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
		create(&batchv1.Job{ObjectMeta: meta})
		create(&appsv1.ControllerRevision{ObjectMeta: meta})
		create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "b"}})

		do(apiserver.Write{Verb: apiserver.Delete, Resource: "cronjobs", Namespace: "x", Name: "a"})
		time.Sleep(10 * time.Second)
		if jobs, revisions := apiserver.All[*batchv1.Job](server),
			apiserver.All[*appsv1.ControllerRevision](server); len(jobs)+len(revisions) > 0 {
			t.Errorf("left are %v and %v", jobs, revisions)
		}
		do(apiserver.Write{Verb: apiserver.Delete, Resource: "namespaces", Name: "x"})
		time.Sleep(time.Minute)
		if n := apiserver.One[*corev1.Namespace](server, "", "x"); n != nil || len(apiserver.All[*corev1.ConfigMap](server)) > 0 {
			t.Errorf("left is %v", n)
		}
		cancel()
		<-ended
	})
}
