package nodelifecycle

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// outage is whether an API server can be reached.
type outage struct {
	atomic.Bool
	reads atomic.Int32 // live, of objects by name
}

var errOutage = errors.New("the API server cannot be reached")

// during is a client of an API server with an outage.
type during struct {
	client.Client
	*outage
}

func (d during) Get(ctx context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	d.reads.Add(1)
	if d.Load() {
		return errOutage
	}
	return d.Client.Get(ctx, m, key, into)
}

// setOutage begins or ends an outage of the API server: nobody reads, writes or watches, kubelets neither.
func (b *bench) setOutage(down bool) {
	b.down.Store(down)
	for _, kind := range []client.Mapping{nodeKind, leaseKind, podKind} {
		if down {
			b.FreezeWatches(kind.GroupVersionKind)
		} else {
			b.ResumeWatches(kind.GroupVersionKind)
		}
	}
	b.BeforeWrite(func(clienttest.Write) error {
		if b.down.Load() {
			return errOutage
		}
		return nil
	})
}

// diary says how the zones do, whenever that has changed.
type diary struct {
	*bench
	facts *facts
	began time.Time
	last  map[string]string
	strings.Builder
}

// glance is how often a diary looks at the zones.
const glance = 5 * time.Second

// tally is how many nodes of a zone there are, and how they do.
type tally struct{ ready, unknown, evicted, pods int }

func (d *diary) note(text string) { fmt.Fprintf(d, "%s (%s)\n", d.clock(), text) }

func (d *diary) clock() string {
	s := int(time.Since(d.began).Round(time.Second).Seconds())
	return fmt.Sprintf("%3d:%02d", s/60, s%60)
}

// goOn looks at the zones every few seconds for some time, and checks the facts.
func (d *diary) goOn(all time.Duration) {
	d.Helper()
	for end := time.Now().Add(all); time.Now().Before(end); time.Sleep(glance) {
		synctest.Wait()
		nodes, pods := d.all()
		d.facts.look(nodes, pods)
		zones := tallies(nodes, pods)
		for _, zone := range slices.Sorted(maps.Keys(zones)) {
			z := zones[zone]
			text := fmt.Sprintf("zone %s: %d ready, %d Unknown, %d with NoExecute; %d pods are ready", zone, z.ready, z.unknown, z.evicted,
				z.pods)
			if text != d.last[zone] {
				d.last[zone] = text
				fmt.Fprintf(d, "%s %s\n", d.clock(), text)
			}
		}
	}
}

// all are the nodes and pods that there are.
func (b *bench) all() ([]corev1.Node, []corev1.Pod) {
	b.Helper()
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := errors.Join(b.List(b.Context(), nodeKind, "", metav1.ListOptions{}, &nodes),
		b.List(b.Context(), podKind, "", metav1.ListOptions{}, &pods)); err != nil {
		b.Fatal(err)
	}
	return nodes.Items, pods.Items
}

func tallies(nodes []corev1.Node, pods []corev1.Pod) map[string]tally {
	zones, of := map[string]tally{}, map[string]string{}
	for _, n := range nodes {
		of[n.Name] = n.Labels[corev1.LabelTopologyZone]
		z := zones[of[n.Name]]
		switch ready(&n).Status {
		case corev1.ConditionTrue:
			z.ready++
		case corev1.ConditionUnknown:
			z.unknown++
		}
		if has(n.Spec.Taints, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute) {
			z.evicted++
		}
		zones[of[n.Name]] = z
	}
	for _, p := range pods {
		if z := zones[of[p.Spec.NodeName]]; p.Status.Conditions[0].Status == corev1.ConditionTrue {
			z.pods++
			zones[of[p.Spec.NodeName]] = z
		}
	}
	return zones
}

// names are those of the nodes of a zone with the numbers from to to.
func names(zone string, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, name(zone, i))
	}
	return all
}

var perZone = flag.Int("nodes", 60, "how many nodes each of the five zones of TestOutages has: there are diaries for 60 and 1000")

// outages are scripts for five zones of n nodes, in parts. Each part has a leader of its own, which begins when the one before has ended.
func outages(n int) map[string][]func(*diary) {
	return map[string][]func(*diary){
		"NL-33 some nodes of a zone": {func(d *diary) {
			d.kill(names("a", 0, 3)...)
			d.goOn(2 * time.Minute)
			d.revive(names("a", 0, 3)...)
			d.goOn(time.Minute)
		}},
		"NL-44 most nodes of a zone": {func(d *diary) {
			d.kill(names("a", 0, n*6/10)...)
			d.goOn(5 * time.Minute)
			d.note("the leader ends, another one begins")
		}, func(d *diary) {
			d.goOn(5 * time.Minute)
			d.revive(names("a", 0, n/2)...)
			d.goOn(2 * time.Minute)
		}},
		"NL-43 a whole zone": {func(d *diary) {
			d.kill(names("a", 0, n)...)
			d.goOn(2 * time.Minute)
			d.revive(names("a", 0, n)...)
			d.goOn(time.Minute)
		}},
		"NL-46 all zones, one after the other": {func(d *diary) {
			d.kill(names("a", 0, n)...)
			d.goOn(2 * time.Minute)
			for _, zone := range []string{"b", "c", "d", "e"} {
				d.kill(names(zone, 0, n)...)
			}
			d.goOn(2 * time.Minute)
			for _, zone := range []string{"b", "c", "d", "e"} {
				d.revive(names(zone, 0, n)...)
			}
			d.goOn(2 * time.Minute)
		}},
		"NL-82 the API server for ten minutes": {func(d *diary) {
			d.kill(name("a", 0))
			d.note("nobody reaches the API server")
			d.setOutage(true)
			d.goOn(10 * time.Minute)
			d.note("it is back")
			d.facts.hears()
			d.setOutage(false)
			d.goOn(2 * time.Minute)
		}},
		"NL-81 a new leader while a zone is down": {func(d *diary) {
			d.kill(names("a", 0, n)...)
			d.goOn(90 * time.Second)
			d.note("the leader ends, another one begins")
		}, func(d *diary) {
			d.goOn(90 * time.Second)
			d.revive(names("a", 0, n)...)
			d.goOn(time.Minute)
		}},
		"NL-14 a new leader while a zone is silent": {func(d *diary) {
			d.kill(names("a", 0, n)...)
			d.goOn(30 * time.Second)
			d.note("the leader ends, another one begins")
		}, func(d *diary) {
			d.goOn(90 * time.Second)
		}},
	}
}

// atOnce runs a leader, whose term begins at once.
func atOnce(t *testing.T, run func(context.Context) error, term func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx) }()
	term()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Each outage leads to a diary in testdata, which a person can read, and all that happens in it is compared with facts of the contract.
// There are 300 nodes, and with -nodes=1000, which "make nightly" runs, 5000.
func TestOutages(t *testing.T) {
	n := *perZone
	for title, parts := range outages(n) {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			d := &diary{last: map[string]string{}}
			var terms []func(*bench)
			for _, part := range parts {
				terms = append(terms, func(b *bench) {
					if d.bench == nil {
						d.bench, d.facts, d.began = b, newFacts(b), time.Now()
					}
					d.facts.hears()
					part(d)
				})
			}
			runBy(t, atOnce, Options{}, map[string]int{"a": n, "b": n, "c": n, "d": n, "e": n}, terms...)
			d.facts.judged(t)
			plantest.Golden(t, filepath.Join("testdata", fmt.Sprintf("outages-of-%d", 5*n), strings.ReplaceAll(title, " ", "-")+".txt"),
				d.String())
		})
	}
}

// 200 nodes of 30 pods are lost at once, and each write takes ten milliseconds: five seconds after they are Unknown, no pod of them is
// ready.
func TestManyNodesDie(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 1000}, func(b *bench) {
		for _, name := range names("a", 0, 200) {
			for j := 2; j < 30; j++ {
				b.pod(name, j)
			}
		}
		var mu sync.Mutex
		var first, last time.Time // when a pod was marked
		b.BeforeWrite(func(w clienttest.Write) error {
			time.Sleep(10 * time.Millisecond)
			if w.Kind == podKind.Kind {
				mu.Lock()
				defer mu.Unlock()
				if last = time.Now(); first.IsZero() {
					first = last
				}
			}
			return nil
		})
		b.kill(names("a", 0, 200)...)
		time.Sleep(70 * time.Second)
		if n := b.unready(); n != 200*30 {
			t.Errorf("%d pods are marked", n)
		}
		marked := 0
		for _, w := range b.Writes() {
			if w.Kind == podKind.Kind {
				marked++
			}
		}
		if took := last.Sub(first); took > 5*time.Second || marked != 200*30 {
			t.Errorf("all pods are marked %v after the first, by %d writes", took, marked)
		} else {
			t.Logf("all pods are marked %v after the first", took)
		}
	})
}
