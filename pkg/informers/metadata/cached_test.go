package metadata

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
)

// withCaches is like withMetadata, but widgets and gadgets come from caches; secrets do not.
func withCaches(t *testing.T, test func(t *testing.T, s *server, i *Informers)) {
	t.Helper()
	withMetadata(t, func(t *testing.T, s *server, i *Informers) {
		ctx, cancel := context.WithCancel(t.Context())
		caches := map[schema.GroupVersionResource]cache.SharedIndexInformer{widgets: cached(s, widgets), gadgets: cached(s, gadgets)}
		i.UseCaches(func(resource schema.GroupVersionResource) cache.SharedIndexInformer { return caches[resource] })
		var running sync.WaitGroup
		for _, informer := range caches {
			running.Go(func() { informer.RunWithContext(ctx) })
		}
		test(t, s, i)
		i.Shutdown()
		cancel()
		running.Wait()
	})
}

// cached returns the informer of a resource of the server.
func cached(s *server, resource schema.GroupVersionResource) cache.SharedIndexInformer {
	w := newResourceWatch(s.client(), resource, &listwatch.Rollbacks{})
	lw := cache.ToListWatcherWithWatchListSemantics(listwatch.New(&w.source, w.list, w.open, nil), w.client)
	return cache.NewSharedIndexInformer(lw, &metav1.PartialObjectMetadata{}, time.Hour, nil)
}

// What is cached already is told from the cache: no request is sent for it, and no subscription has it listed anew.
func TestCachesAreNotWatchedTwice(t *testing.T) {
	withCaches(t, func(t *testing.T, s *server, i *Informers) {
		m := newModel(t)
		s.set(widgets, object("shop", "a", "1"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		asked := 0
		s.look(widgets, func(k *servedKind) { asked = k.asked })
		sub := i.Subscribe(m)
		sub.SetResources(t.Context(), resources{widgets, secrets})
		wantTold(t, m, "at first", "+a")
		if !sub.Synced(widgets) {
			t.Error("not synced")
		}
		s.set(widgets, object("shop", "b", "2"))
		s.remove(widgets, "shop", "a")
		wantTold(t, m, "changes", "+b -a")
		time.Sleep(2 * time.Hour)
		wantTold(t, m, "after resyncs", "")
		other := newModel(t)
		two := i.Subscribe(other)
		two.SetResources(t.Context(), resources{widgets})
		wantTold(t, other, "who joins", "+b")
		wantTold(t, m, "who was there", "")
		sub.Close()
		s.set(widgets, object("shop", "c", "3"))
		wantTold(t, m, "closed", "")
		wantTold(t, other, "still open", "+c")
		s.look(widgets, func(k *servedKind) {
			if k.lists > 1 || k.open != 1 || asked == 0 {
				t.Errorf("%d lists, %d watches, %d requests before", k.lists, k.open, asked)
			}
		})
		if states := i.States(); len(states) != 0 { // the caches have states of their own, and nobody wants secrets any more
			t.Errorf("states of %+v", states)
		}
	})
}

// A kind that is not wanted for a while is told from then on by what has changed.
func TestACachedKindVanishesAndComesBack(t *testing.T) {
	withCaches(t, func(t *testing.T, s *server, i *Informers) {
		m := newModel(t)
		sub := i.Subscribe(m)
		for name, uid := range map[string]string{"stays": "1", "goes": "2", "again": "3"} {
			s.set(widgets, object("shop", name, uid))
		}
		sub.SetResources(t.Context(), resources{widgets})
		wantTold(t, m, "at first", "+again +goes +stays")
		sub.SetResources(t.Context(), nil)
		s.remove(widgets, "shop", "goes")
		s.remove(widgets, "shop", "again")
		s.set(widgets, object("shop", "again", "4"))
		wantTold(t, m, "while it is not wanted", "")
		sub.SetResources(t.Context(), resources{widgets})
		wantTold(t, m, "when it is wanted again", "+again -again -goes")
	})
}

// What a cache finds by a list is told as what a watch of one's own finds.
func TestMissedChangesOfCachesAreFound(t *testing.T) {
	withCaches(t, func(t *testing.T, s *server, i *Informers) {
		m := newModel(t)
		for _, name := range []string{"same", "gone", "changed", "anew"} {
			s.set(widgets, object("shop", name, name))
		}
		i.Subscribe(m).SetResources(t.Context(), resources{widgets})
		wantTold(t, m, "at first", "+anew +changed +gone +same")
		s.compact(func() {
			s.remove(widgets, "shop", "gone")
			s.set(widgets, object("shop", "changed", "changed"))
			s.remove(widgets, "shop", "anew")
			s.set(widgets, object("shop", "anew", "another"))
		})
		time.Sleep(2 * time.Minute)
		wantTold(t, m, "after the watch has expired", "+anew +changed -anew -gone")
	})
}

func TestMetadataOf(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1", ResourceVersion: "7",
		Finalizers: []string{"f"}}}
	o := metadataOf(pod)
	if o.Namespace != "shop" || o.Name != "a" || o.UID != "1" || o.ResourceVersion != "7" || &o.Finalizers[0] != &pod.Finalizers[0] {
		t.Errorf("%+v", o)
	}
	if last := missed(o); last.ResourceVersion != "" || identityOf(last) != identityOf(o) {
		t.Errorf("%+v", last)
	}
}
