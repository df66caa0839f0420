package csrapproving

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/internal/testing/csrtest"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// run runs the controller in virtual time while a test works.
func run(t *testing.T, allowed func(authorizationv1.SubjectAccessReviewSpec) bool,
	test func(s *clienttest.Server, put func(*csrutil.Request))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.NewServer()
		server.Authorize(allowed)
		entry := New(Options{})
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &csrutil.Request{}})
		managertest.Run(t, c, entry, func() {
			test(server, func(r *csrutil.Request) {
				if _, err := server.Put(r); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			})
		})
	})
}

// One write approves a request, to the subresource, in the name of who may do that (CSR-32, CSR-45). The message says which of the two
// questions was answered with yes (CSR-30, CSR-31).
func TestApprovals(t *testing.T) {
	for _, c := range []struct {
		name, user, may string
		writes          int
	}{
		{"CSR-30 a kubelet that renews its certificate", "system:node:n", "selfnodeclient", 1},
		{"CSR-31 a kubelet that may have any", "system:node:n", "nodeclient", 1},
		{"CSR-31 somebody else who may", "system:bootstrap:abcdef", "nodeclient", 1},
		{"CSR-30 somebody else with the right of kubelets alone", "system:bootstrap:abcdef", "selfnodeclient", 0},
		{"CSR-33 nobody", "system:node:n", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			allowed := func(ask authorizationv1.SubjectAccessReviewSpec) bool {
				return ask.User == c.user && ask.ResourceAttributes.Subresource == c.may
			}
			run(t, allowed, func(s *clienttest.Server, put func(*csrutil.Request)) {
				put(csrtest.Kubelet(by(c.user)))
				time.Sleep(time.Hour)
				synctest.Wait()
				writes := s.Writes()
				if len(writes) != c.writes {
					t.Fatal(s.Log())
				}
				if c.writes == 1 && (writes[0].Verb != "update" || writes[0].Options.Subresource != "approval") {
					t.Error(s.Log())
				}
			})
		})
	}
}

// Who was refused gets the certificate when a role allows it at last; it is asked ever more rarely, and a resync or a change of anything
// does not add to that.
func TestRefusedAndAllowedLater(t *testing.T) { // CSR-33
	var asked, allow atomic.Int32
	allowed := func(authorizationv1.SubjectAccessReviewSpec) bool { asked.Add(1); return allow.Load() > 0 }
	run(t, allowed, func(s *clienttest.Server, put func(*csrutil.Request)) {
		r := csrtest.Kubelet(by("system:bootstrap:abcdef"))
		put(r)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := asked.Load(); n < 11 || n > 13 { // 0, 0.2, 0.6, ..., 409.4 s
			t.Errorf("asked %d times in ten minutes", n)
		}
		allow.Store(1)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s.CountWrites("update") != 1 {
			t.Error(s.Log())
		}
	})
}

// What comes again without a change is no reason to ask again, whatever enqueues it.
func TestResyncsDoNotAsk(t *testing.T) { // CSR-33
	synctest.Test(t, func(t *testing.T) {
		server, asked := clienttest.NewServer(), 0
		server.Authorize(func(authorizationv1.SubjectAccessReviewSpec) bool { asked++; return false })
		c := managertest.Context(t, server, New(Options{}), managertest.Cache{Example: &csrutil.Request{}})
		if _, err := server.Put(csrtest.Kubelet(by("system:bootstrap:abcdef"))); err != nil {
			t.Fatal(err)
		}
		requests, err := informers.Objects[*csrutil.Request](c.Informers)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		k, m := &caches{requests}, (*memory)(nil)
		for range 100 { // in ten seconds
			o, err := k.observe(t.Context(),
				reconcile.Request[memory]{Key: plan.Key{Name: "join"}, Now: time.Now(), Reader: server, Memory: m})
			if err != nil || !o.Exists || o.Memory == nil || !planApproval(time.Now(), o.Snapshot).Empty() {
				t.Fatalf("%+v, %v", o, err)
			}
			m = o.Memory
			time.Sleep(100 * time.Millisecond)
		}
		if asked < 5 || asked > 7 { // 0, 0.2, 0.6, 1.4, 3, 6.2 s
			t.Errorf("asked %d times in ten seconds", asked)
		}
	})
}

// An approval that is refused is tried again.
func TestWritesThatFail(t *testing.T) {
	run(t, nil, func(s *clienttest.Server, put func(*csrutil.Request)) {
		s.BeforeWrite(clienttest.RefuseFirst(3, errors.New("the approver may not approve for this signer")))
		put(csrtest.Kubelet())
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.CountWrites("update") != 1 {
			t.Error(s.Log())
		}
	})
}
