package deployment

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// whileRefused runs the controller on what a snapshot shows, before a server that asks refuses about each write. ReplicaSets are seldom
// changed but in their size here.
func whileRefused(t *testing.T, s snapshot, refuses func(clienttest.Write) error, test func(*clienttest.Server)) {
	t.Helper()
	managertest.InVirtualTime(t, now, func(t *testing.T, server *clienttest.Server) {
		objects := []plan.Object{s.Deployment}
		for _, rs := range s.ReplicaSets {
			objects = append(objects, rs)
			objects = append(objects, plan.Objects(s.Pods[rs.UID])...)
		}
		for _, o := range objects {
			if _, err := server.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		entry := New(Options{})
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &appsv1.Deployment{}},
			managertest.Cache{Example: &appsv1.ReplicaSet{}}, managertest.Cache{Example: &corev1.Pod{}})
		c.Access.Events, c.Enabled = &record.FakeRecorder{}, func(string) bool { return true }
		server.BeforeWrite(refuses)
		managertest.Run(t, c, entry, func() { test(server) })
	})
}

func get[T plan.Object](t *testing.T, server *clienttest.Server, o T, name string) T {
	t.Helper()
	kind, err := client.KindOf(o)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := client.BuiltIn(kind)
	if err := server.Get(t.Context(), m, plan.Key{Namespace: "shop", Name: name}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// A webhook refuses to raise the new ReplicaSet: the status says so when the deadline is over, and the rollout goes on when it may.
func TestMEND1RefusedSizes(t *testing.T) {
	s := snapshotWith(web(3, moves("1", "0"), func(d *appsv1.Deployment) { d.Generation, d.Spec.ProgressDeadlineSeconds = 2, pointer(5) }),
		rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 0})
	fresh := s.ReplicaSets[1].Name
	refused, tries := true, 0
	refuses := func(w clienttest.Write) error {
		if refused && w.Key.Name == fresh {
			tries++
			return apierrors.NewForbidden(appsv1.Resource("replicasets"), fresh, errors.New("a webhook"))
		}
		return nil
	}
	whileRefused(t, s, refuses, func(server *clienttest.Server) { // ten minutes later
		d := get(t, server, &appsv1.Deployment{}, "web")
		if d.Status.ObservedGeneration != 2 || d.Status.Replicas != 3 || reasonOf(d.Status.Conditions) != timedOut {
			t.Errorf("the status is %+v", d.Status)
		}
		if tries < 10 {
			t.Errorf("it was tried %d times", tries)
		}
		refused = false
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := *get(t, server, &appsv1.ReplicaSet{}, fresh).Spec.Replicas; n != 1 {
			t.Errorf("it has the size %d", n)
		}
	})
}

// Each report comes with a refusal to change the new ReplicaSet, from the first one on: if it has its revision, the Deployment gets that
// nevertheless, and if it has not, the rollout has begun all the same. Either way its deadline passes.
func TestMEND1RefusedSizesFromTheFirstReport(t *testing.T) {
	for name, c := range map[string]struct {
		edit     func(*appsv1.ReplicaSet)
		revision string
	}{
		"it has its revision": {nil, "2"},
		"it lacks it":         {bare(revisionAnnotation), "1"},
		"it has an old one":   {annotated(revisionAnnotation, "0"), "1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshotWith(web(3, moves("1", "0"),
				func(d *appsv1.Deployment) { d.Generation, d.Spec.ProgressDeadlineSeconds = 2, pointer(5) },
				knows(finished, now.Add(-time.Hour), "1", 3, 3, 3, 3)),
				rs{image: "v1", size: 2, ready: 2}, rs{image: "v2", size: 1, ready: 1, edit: c.edit})
			fresh := s.ReplicaSets[1].Name
			refuses := func(w clienttest.Write) error {
				if w.Key.Name == fresh {
					return apierrors.NewForbidden(appsv1.Resource("replicasets"), fresh, errors.New("a webhook"))
				}
				return nil
			}
			whileRefused(t, s, refuses, func(server *clienttest.Server) {
				d := get(t, server, &appsv1.Deployment{}, "web")
				if reasonOf(d.Status.Conditions) != timedOut || d.Annotations[revisionAnnotation] != c.revision {
					t.Errorf("revision %q, %+v", d.Annotations[revisionAnnotation], d.Status)
				}
			})
		})
	}
}

// No ReplicaSet can be created for longer than the deadline: that is tried ever more rarely, also after the deadline is over.
func TestARefusedReplicaSetBacksOff(t *testing.T) {
	s := snapshotWith(web(3, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = pointer(5) }))
	tries := 0
	refuses := func(w clienttest.Write) error {
		if w.Verb == "create" {
			tries++
			return apierrors.NewForbidden(appsv1.Resource("replicasets"), w.Key.Name, errors.New("a webhook"))
		}
		return nil
	}
	whileRefused(t, s, refuses, func(server *clienttest.Server) {
		time.Sleep(10 * time.Minute) // and as long before
		synctest.Wait()
		if reason := reasonOf(get(t, server, &appsv1.Deployment{}, "web").Status.Conditions); reason != notCreated || tries < 25 ||
			tries > 40 {
			t.Errorf("the reason is %s; it was tried %d times in 20 minutes", reason, tries)
		}
	})
}

// To lower an old ReplicaSet fails once, and nothing else happens: it is tried again at once.
func TestMEND2AFailureIsTriedAgain(t *testing.T) {
	s := snapshotWith(web(3, moves("1", "0")), rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 1, ready: 1})
	old, failed := s.ReplicaSets[0].Name, false
	refuses := func(w clienttest.Write) error {
		if w.Key.Name == old && !failed {
			failed = true
			return apierrors.NewInternalError(errors.New("once"))
		}
		return nil
	}
	whileRefused(t, s, refuses, func(server *clienttest.Server) {
		if n := *get(t, server, &appsv1.ReplicaSet{}, old).Spec.Replicas; n != 2 || !failed {
			t.Errorf("it has the size %d", n)
		}
	})
}
