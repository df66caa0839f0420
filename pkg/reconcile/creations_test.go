package reconcile

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// versioned is a cache of which the test says how far it has come.
type versioned struct {
	cache.Store
	version atomic.Pointer[string]
}

func (v *versioned) LastStoreSyncResourceVersion() string { return *v.version.Load() }

func (v *versioned) come(version string) { v.version.Store(&version) }

// A pod that is created and deleted while the watch is interrupted is in no list, and no event tells of it.
func TestKeysOfVanishedCreationsAreEnqueued(t *testing.T) {
	pod := func(version string) freshness.Created {
		return freshness.Created{Kind: podKind, Key: plan.Key{Namespace: "shop", Name: "p" + version}, Version: version}
	}
	for _, c := range []struct {
		name    string
		created freshness.Created
		version string // of the cache, after a while
		has     bool
		ends    bool
		want    int
	}{
		{"it has vanished", pod("7"), "9", false, false, 1},
		{"it is shown", pod("7"), "9", true, false, 0},
		{"the cache is not as far", pod("7"), "6", false, false, 0},
		{"there is no cache of its kind", freshness.Created{Kind: setKind, Key: plan.Key{Name: "s"}, Version: "7"}, "9", false, false, 0},
		{"the term has ended", pod("7"), "9", false, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pods := &versioned{Store: cache.NewStore(cache.MetaNamespaceKeyFunc)}
				pods.come("5")
				var caches freshness.Caches
				freshness.NewTracker().Add(&caches, podKind, pods)
				var enqueued []plan.Key
				k := newCreations(caches, func(key plan.Key) { enqueued = append(enqueued, key) })
				key := plan.Key{Namespace: "shop", Name: "web"}
				k.add(key, []freshness.Created{c.created})
				time.Sleep(5 * vanishedAfter)
				synctest.Wait()
				if len(enqueued) > 0 {
					t.Error("enqueued before the cache has come so far")
				}
				if c.has {
					if err := pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p7"}}); err != nil {
						t.Fatal(err)
					}
				}
				if c.ends {
					k.end()
				}
				pods.come(c.version)
				time.Sleep(5 * vanishedAfter)
				synctest.Wait()
				if len(enqueued) != c.want || c.want > 0 && !slices.Contains(enqueued, key) {
					t.Errorf("enqueued %v", enqueued)
				}
				waits := c.version == "6"
				k.end()
				if (len(k.pending) > 0) != (waits || c.ends) {
					t.Errorf("pending: %v", k.pending)
				}
			})
		})
	}
}
