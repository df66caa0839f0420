package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/cluster/countproxy"
)

// Every write counts: what a piece of work must write at the least (each pod created and deleted, each ReplicaSet
// created and scaled, one final status per object, each once) may be exceeded by a tenth, as may what of it is no status;
// nothing may be refused, and nothing written that changes nothing. On a machine that takes longer than a report may be held
// back, each object may be reported once more for each such time.
func TestWriteBudget(t *testing.T) {
	const many = 250
	c := cluster.Start(t)
	proxy, kubeconfig := c.CountingProxy(t, c.AdminKubeconfig)
	m := c.Manager(t, onlyWorkloads, "--kubeconfig="+kubeconfig, "--use-service-account-credentials=false")
	b := &bench{t, c, c.Namespace(t)}

	each := func(do func(name string) error) {
		t.Helper()
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := w; i < many; i += 4 {
					if err := do(fmt.Sprintf("web-%d", i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	b.budget(proxy, m, "create 250 Deployments of 2 replicas", floor{work: 750, statuses: 500}, func() {
		b.follow(many, func() {
			each(func(name string) error {
				_, err := c.Client.AppsV1().Deployments(b.ns).Create(t.Context(), deployment(name, 2), metav1.CreateOptions{})
				return err
			})
		})
	})
	b.budget(proxy, m, "update the image of 250 Deployments of 2 replicas", floor{work: 2000, statuses: 750}, func() {
		b.follow(many, func() {
			each(func(name string) error {
				_, err := c.Client.AppsV1().Deployments(b.ns).Patch(t.Context(), name, types.StrategicMergePatchType,
					[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`), metav1.PatchOptions{})
				return err
			})
		})
	})

	b.ns = c.Namespace(t)
	b.create(deployment("big", 500))
	b.waitComplete("big")
	stop := b.watchInvariants(625, 375)
	b.budget(proxy, m, "update the image of one Deployment of 500 replicas", floor{work: 1006, statuses: 3}, func() {
		b.setImage("big", "web:2")
		b.waitComplete("big")
	})
	stop()
}

// floor is the fewest writes that do a piece of work.
type floor struct{ work, statuses int }

// longestDebounce is for how long a report may wait at the most (docs/decisions/0003).
const longestDebounce = 15 * time.Second

// budget does the work and waits until the manager has been quiet for a while, then judges the writes.
func (b *bench) budget(proxy *countproxy.Proxy, m *cluster.Manager, what string, least floor, work func()) {
	b.Helper()
	proxy.Reset()
	began, busy := time.Now(), m.CPU(b.T)
	work()
	took := time.Since(began)
	b.quiet(proxy)
	busy = m.CPU(b.T) - busy
	s := proxy.Writes()
	total := least.work + least.statuses
	b.Logf("%s: %d writes, floor %d (x%.3f), %d refused, %d without effect, in %v with %v of CPU\n%v",
		what, s.Total, total, float64(s.Total)/float64(total), s.Refused, s.NoOps, took.Round(time.Millisecond), busy, s)
	if s.Refused != 0 || s.NoOps != 0 {
		b.Errorf("%s: %d refused, %d without effect", what, s.Refused, s.NoOps)
	}
	if n, most := s.Total-statuses(s), least.work*11/10; n > most {
		b.Errorf("%s: %d writes that are not of a status, at most %d", what, n, most)
	}
	if most := total*11/10 + least.statuses*int(took/longestDebounce); s.Total > most {
		b.Errorf("%s: %d writes, at most %d", what, s.Total, most)
	}
}

func statuses(s countproxy.Summary) (n int) {
	for _, row := range s.Rows {
		if row.Subresource == "status" {
			n += row.Count
		}
	}
	return n
}

// quiet waits until nothing has been written for three seconds.
func (b *bench) quiet(proxy *countproxy.Proxy) {
	last, since := -1, time.Now()
	b.wait("the manager is quiet", func() error {
		if n := proxy.Writes().Total; n != last {
			last, since = n, time.Now()
		}
		if rest := time.Since(since); rest < 3*time.Second {
			return fmt.Errorf("quiet for %v", rest)
		}
		return nil
	})
}

// follow waits until n Deployments of the namespace are rolled out, after work has been begun on them, and says how long
// each took from the version at which it was changed. It watches: asking again and again would take its share of the
// machine.
func (b *bench) follow(n int, work func()) (latencies []time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	list, err := b.Client.AppsV1().Deployments(b.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	w, err := b.Client.AppsV1().Deployments(b.ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	began := map[string]time.Time{}
	for e := range w.ResultChan() {
		d, ok := e.Object.(*appsv1.Deployment)
		if !ok {
			b.Fatalf("watch: %+v", e.Object)
		}
		if _, ok := began[d.Name]; !ok {
			began[d.Name] = time.Now()
		}
		if complete(d) == nil {
			latencies = append(latencies, time.Since(began[d.Name]))
			if len(latencies) == n {
				break
			}
		}
	}
	<-done
	if len(latencies) < n {
		b.Fatalf("%d of %d are rolled out", len(latencies), n)
	}
	slices.Sort(latencies)
	b.Logf("from change to rolled out: median %v, 99%% %v, last %v", latencies[n/2], latencies[n*99/100], latencies[n-1])
	return latencies
}
