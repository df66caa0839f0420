package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// ofOurs are Endpoints with our label.
func ofOurs(name string) *corev1.Endpoints {
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
		Labels: map[string]string{managedByLabel: managedBy}}}
}

// A row is a sentence: of Endpoints like these, those go when the controller is switched off.
func TestEndpointsToDelete(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*metav1.ObjectMeta)
		goes bool
	}{
		{"EP-25 those with our label", func(*metav1.ObjectMeta) {}, true},
		{"whatever other labels and annotations they have", func(o *metav1.ObjectMeta) {
			o.Labels["x"], o.Annotations = "y", map[string]string{"note": "x"}
		}, true},
		{"whoever owns them", func(o *metav1.ObjectMeta) {
			o.OwnerReferences = []metav1.OwnerReference{{Kind: "Service", Name: "a", UID: "a"}}
		}, true},
		{"not those of others", func(o *metav1.ObjectMeta) { o.Labels[managedByLabel] = "me" }, false},
		{"not those that say nothing of it", func(o *metav1.ObjectMeta) { o.Labels = nil }, false},
		{"EP-7 no records of leaders", func(o *metav1.ObjectMeta) { o.Annotations = map[string]string{leaderRecord: "{}"} }, false},
		{"not those that are being deleted", func(o *metav1.ObjectMeta) {
			o.DeletionTimestamp, o.Finalizers = &metav1.Time{Time: now}, []string{"x/y"}
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := metav1.PartialObjectMetadata{ObjectMeta: ofOurs("a").ObjectMeta}
			o.UID, o.ResourceVersion = "u", "7"
			row.edit(&o.ObjectMeta)
			before := o.DeepCopy()
			got := endpointsToDelete([]metav1.PartialObjectMetadata{o})
			var want []plan.Object
			if row.goes {
				one := before.DeepCopy()
				one.SetGroupVersionKind(client.KindFor[*corev1.Endpoints]())
				want = append(want, one)
			}
			if diff := cmp.Diff(want, got) + cmp.Diff(before, &o); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := endpointsToDelete(nil); got != nil {
		t.Error(got)
	}
}

// cleanUp runs the clean-up in virtual time. It returns which Endpoints were deleted when, and which codes the metrics of
// writes were told.
func cleanUp(t *testing.T, s *clienttest.Server) (deleted []string, codes []string) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		s.AfterWrite(func(w clienttest.Write) error {
			mu.Lock()
			defer mu.Unlock()
			deleted = append(deleted, fmt.Sprintf("%s after %s", w.Key, time.Since(began)))
			return nil
		})
		from := contextFor(t, s)
		from.Access.Hooks.Write = func(verb, resource, code string) { codes = append(codes, verb+" "+resource+" "+code) }
		var applying []string // a history has what is deleted before the API server is asked, and after that
		from.Access.Hooks.Applying = func(_ context.Context, d reconcile.Decision) { applying = append(applying, d.Key.Name) }
		from.Access.Hooks.Decided = func(d reconcile.Decision) {
			if len(applying) == 0 || applying[len(applying)-1] != d.Key.Name || d.Record.Why == "" {
				t.Errorf("%s is decided on, after %v: %q", d.Key, applying, d.Record.Why)
			}
		}
		runner, err := (&Options{CleanUp: true}).initCleanup(from)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- runner.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return deleted, codes
}

func serverOf(t *testing.T, objects ...plan.Object) *clienttest.Server {
	t.Helper()
	s := clienttest.NewServer()
	for _, o := range objects {
		if _, err := s.Put(o); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestCleanUpWhenDisabled(t *testing.T) {
	foreign := ofOurs("foreign")
	foreign.Labels = nil
	gone := apierrors.NewNotFound(corev1.Resource("endpoints"), "a")
	changed := func(s *clienttest.Server) error { // by somebody, after it was listed
		o := ofOurs("a")
		o.Annotations = map[string]string{"note": "x"}
		_, err := s.Put(o)
		return err
	}
	for _, row := range []struct {
		name  string
		first func(*clienttest.Server) error // the first deletion of a; not carried out if this returns an error
		want  []string
		codes []string
	}{
		{"one after the other", func(*clienttest.Server) error { return nil },
			[]string{"shop/a after 20ms", "shop/b after 40ms", "shop/c after 60ms"}, []string{"200", "200", "200"}},
		{"what was changed meanwhile is deleted in the next round", changed,
			[]string{"shop/b after 40ms", "shop/c after 60ms", "shop/a after 1.08s"}, []string{"409", "200", "200", "200"}},
		{"a failure does not keep it from the others",
			func(*clienttest.Server) error { return apierrors.NewInternalError(errors.New("no")) },
			[]string{"shop/b after 40ms", "shop/c after 60ms", "shop/a after 1.08s"}, []string{"500", "200", "200", "200"}},
		{"what is gone is no failure", func(s *clienttest.Server) error {
			mapping := client.MappingFor[*corev1.Endpoints]()
			s.BeforeWrite(nil)
			_ = s.Delete(t.Context(), mapping, plan.Key{Namespace: "shop", Name: "a"}, metav1.DeleteOptions{})
			return gone
		}, []string{"shop/a after 20ms", "shop/b after 40ms", "shop/c after 60ms"}, []string{"404", "200", "200"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serverOf(t, ofOurs("a"), ofOurs("b"), ofOurs("c"), foreign, web(), pod("a", "10.0.0.1"))
			var tried atomic.Bool
			s.BeforeWrite(func(w clienttest.Write) error {
				if p := w.DeleteOptions.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
					t.Errorf("%s without precondition", w)
				}
				if w.Key.Name != "a" || tried.Swap(true) {
					return nil
				}
				return row.first(s)
			})
			deleted, codes := cleanUp(t, s)
			for i, code := range row.codes {
				row.codes[i] = "delete endpoints " + code
			}
			if diff := cmp.Diff(row.want, deleted) + cmp.Diff(row.codes, codes); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"foreign"}, s.Names(client.KindFor[*corev1.Endpoints]())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Rounds that fail follow one another more and more slowly, and never more than a minute apart.
func TestCleanUpRetries(t *testing.T) {
	s := serverOf(t, ofOurs("a"))
	var refused atomic.Int64
	s.BeforeWrite(func(clienttest.Write) error { refused.Add(1); return apierrors.NewInternalError(errors.New("no")) })
	if deleted, _ := cleanUp(t, s); len(deleted) > 0 || refused.Load() < 60 || refused.Load() > 70 {
		t.Errorf("deleted %v, %d tries in an hour", deleted, refused.Load())
	}
}

func TestCleanUpOnlyIfAskedFor(t *testing.T) {
	from := contextFor(t, clienttest.NewServer())
	if runner, err := (&Options{}).initCleanup(from); runner != nil || err != nil {
		t.Error(runner, err)
	}
}

func TestCleanUpNeedsTheLease(t *testing.T) {
	s := serverOf(t, ofOurs("a"), ofOurs("b"))
	s.BeforeWrite(func(clienttest.Write) error { return client.ErrNotLeading })
	runner, err := (&Options{CleanUp: true}).initCleanup(contextFor(t, s))
	if err != nil {
		t.Fatal(err)
	}
	if n, complete, err := runner.(*cleanup).deleteAll(t.Context()); n != 0 || complete || !errors.Is(err, client.ErrNotLeading) ||
		len(s.Writes()) > 0 {
		t.Error(n, complete, err, s.Log())
	}
}
