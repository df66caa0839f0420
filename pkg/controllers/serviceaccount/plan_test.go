package serviceaccount

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func namespace(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
}

func account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	leaving := account("default")
	leaving.DeletionTimestamp = &metav1.Time{Time: epoch}
	for _, c := range []struct {
		name string
		snapshot
		creates bool
	}{
		{"SA-1, SA-5 an active namespace gets a ServiceAccount, with a name and nothing else",
			snapshot{Namespace: namespace("shop", "Active")}, true},
		{"SA-3 a namespace that is gone", snapshot{}, false},
		{"SA-3 a namespace that is being deleted", snapshot{Namespace: namespace("shop", "Terminating")}, false},
		{"SA-3 a namespace without phase", snapshot{Namespace: namespace("shop", "")}, false},
		{"SA-3 a phase in other letters", snapshot{Namespace: namespace("shop", "active")}, false},
		{"SA-4 there is one", snapshot{Namespace: namespace("shop", "Active"), Account: account("default")}, false},
		{"SA-4 there is one that is being deleted", snapshot{Namespace: namespace("shop", "Active"), Account: leaving}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planAccount(epoch, c.snapshot)
			if p.Why == "" {
				t.Error("the plan does not say why")
			}
			var want []plan.Step
			if c.creates {
				want = []plan.Step{plan.Create{Object: account("default"), IfAbsent: true,
					Why: "the namespace has no ServiceAccount default"}}
			}
			if diff := cmp.Diff(want, p.Steps); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnqueues(t *testing.T) { // SA-2
	one, other := namespace("shop", "Active"), namespace("shop", "Terminating")
	for _, c := range []struct {
		name string
		keys []plan.Key
		want int
	}{
		{"a new namespace", informers.Existing(nil, one), 1},
		{"a namespace that changes", informers.Existing(one, other), 1},
		{"a namespace that is gone", informers.Existing(one, nil), 0},
		{"a new ServiceAccount", enqueuedByAccount(nil, account("default")), 0},
		{"a ServiceAccount that changes", enqueuedByAccount(account("default"), account("default")), 0},
		{"the ServiceAccount is deleted", enqueuedByAccount(account("default"), nil), 1},
		{"another ServiceAccount is deleted", enqueuedByAccount(account("builder"), nil), 0},
	} {
		if len(c.keys) != c.want || c.want == 1 && c.keys[0] != (plan.Key{Name: "shop"}) {
			t.Errorf("%s enqueues %v", c.name, c.keys)
		}
	}
}

// draw is any snapshot.
func draw(t *rapid.T) (s snapshot) {
	fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
	if rapid.Bool().Draw(t, "namespace") {
		s.Namespace = &corev1.Namespace{}
		fill(s.Namespace)
		s.Namespace.Status.Phase = rapid.SampledFrom([]corev1.NamespacePhase{"Active", "Active", "Terminating", "", "odd"}).Draw(t, "phase")
	}
	if rapid.Bool().Draw(t, "account") {
		s.Account = &corev1.ServiceAccount{}
		fill(s.Account)
	}
	return s
}

// Whatever the objects are, planning does not panic or change them, and one that creates says for which namespace.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		before := snapshot{s.Namespace.DeepCopy(), s.Account.DeepCopy()}
		p := planAccount(epoch, s)
		if diff := cmp.Diff(before, s); diff != "" || p.Why == "" || p.Requeue != 0 {
			t.Errorf("%q, again in %v, changed: %s", p.Why, p.Requeue, diff)
		}
		for _, step := range p.Steps {
			if o := step.(plan.Create).Object; o.GetNamespace() != s.Namespace.Name || o.GetName() != defaultName {
				t.Errorf("creates %s/%s", o.GetNamespace(), o.GetName())
			}
		}
	})
}

// SA-3, SA-4: an account is created in each active namespace that has none, and nowhere else. When the plan was carried out, nothing is
// left to do.
func TestCreatesOnceWhereItLacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		lacks := s.Namespace != nil && s.Namespace.Status.Phase == corev1.NamespaceActive && s.Account == nil
		p := planAccount(epoch, s)
		if p.Empty() == lacks {
			t.Fatalf("it lacks one: %t, and %s", lacks, p.Why)
		}
		if lacks {
			s.Account = p.Steps[0].(plan.Create).Object.(*corev1.ServiceAccount)
			if again := planAccount(epoch, s); !again.Empty() {
				t.Errorf("it is not done: %s", again.Why)
			}
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		plantest.Same(t, planAccount(epoch, s), planAccount(epoch, plantest.Restored(t, s)))
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		plantest.Same(t, planAccount(epoch, s),
			planAccount(epoch, snapshot{plantest.Kept(t, kept, s.Namespace), plantest.Kept(t, kept, s.Account)}))
	})
}

// run runs the controller on a server with these objects.
func run(t *testing.T, objects []plan.Object, before func(clienttest.Write) error, test func(*clienttest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.NewServer()
		for _, o := range objects {
			if _, err := server.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		server.BeforeWrite(before)
		entry := New(Options{})
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &corev1.Namespace{}},
			managertest.Cache{Example: &corev1.ServiceAccount{}})
		managertest.Run(t, c, entry, func() { test(server) })
	})
}

func TestSA8DeletedOnesComeBack(t *testing.T) { // SA-8
	run(t, []plan.Object{namespace("shop", "Active")}, nil, func(s *clienttest.Server) {
		accounts := client.MappingFor[*corev1.ServiceAccount]()
		for range 3 {
			if err := s.Delete(t.Context(), accounts, plan.Key{Namespace: "shop", Name: "default"}, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if err := s.Get(context.Background(), accounts, plan.Key{Namespace: "shop", Name: "default"},
				&metav1.PartialObjectMetadata{}); err != nil {
				t.Error(err)
			}
		}
		if n := s.CountWrites("create"); n != 4 {
			t.Errorf("%d creations", n)
		}
	})
}

func TestRefusals(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "default", fmt.Errorf("namespace shop is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, c := range []struct {
		name    string
		refusal error
		least   int // tries in ten minutes
		most    int
	}{
		// after 2, 4, 8, 16, 32 and then each 60 s
		{"SA-6 it exists", apierrors.NewAlreadyExists(corev1.Resource("serviceaccounts"), "default"), 14, 15},
		{"SA-9 the namespace is being deleted", terminating, 1, 1},
		{"the namespace is gone", apierrors.NewNotFound(corev1.Resource("namespaces"), "shop"), 1, 1},
		{"SA-7 the server is busy", apierrors.NewTooManyRequests("busy", 1), 5, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			tries := 0
			run(t, []plan.Object{namespace("shop", "Active")}, func(clienttest.Write) error { tries++; return c.refusal },
				func(*clienttest.Server) {
					if tries < c.least || tries > c.most {
						t.Errorf("%d tries, want %d to %d", tries, c.least, c.most)
					}
				})
		})
	}
}

// A creation that was not answered finds the account when it is sent again. If that is deleted while the watch is interrupted, no event
// tells of it. (A night found this: the namespace had no account until something else happened.)
func TestOneThatVanishesUnseenComesBack(t *testing.T) { // SA-8
	tries := 0
	vanished := func(clienttest.Write) error {
		if tries++; tries <= 3 {
			return apierrors.NewAlreadyExists(corev1.Resource("serviceaccounts"), "default")
		}
		return nil
	}
	run(t, []plan.Object{namespace("shop", "Active")}, vanished, func(s *clienttest.Server) {
		err := s.Get(t.Context(), client.MappingFor[*corev1.ServiceAccount](), plan.Key{Namespace: "shop", Name: "default"},
			&metav1.PartialObjectMetadata{})
		if err != nil || tries != 4 {
			t.Errorf("after %d tries: %v", tries, err)
		}
	})
}

// BenchmarkPlan plans for a namespace that lacks nothing.
func BenchmarkPlan(b *testing.B) {
	s := snapshot{Namespace: namespace("shop", "Active"), Account: account("default")}
	for b.Loop() {
		if p := planAccount(epoch, s); !p.Empty() {
			b.Fatal(p.Why)
		}
	}
}
