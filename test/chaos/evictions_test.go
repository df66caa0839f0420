package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

type evictionFault struct {
	name, script string
	always       bool // in the gate, too
}

// evictionFaults are the scripts of TestParallelEvictions. D stands for how long the faults last.
var evictionFaults = []evictionFault{
	{"no faults", "", false},
	{"pods frozen", "freeze pods for=D", true},
	{"budgets late", "delay poddisruptionbudgets 500ms for=D", false},
	{"all events late", "delay all 300ms for=D", false},
	{"pods lost until relist", "freeze pods for=D hide=true", false},
	{"internal errors", "refuse each=2 code=500 verb=all for=D", false},
	{"conflicts", "refuse code=409 resource=poddisruptionbudgets n=20 for=D", true},
	{"carried out, not answered", "refuse each=1 code=0 after=true for=D", true},
	{"killed at a write", "crash writes=8 after=true back=0s", false},
	{"killed at the write of a status", "crash writes=3 after=true back=0s resource=poddisruptionbudgets", true},
}

const (
	evictors    = 8 // at the same time
	underBudget = 6 // pods, of which three may be unavailable
)

// TestParallelEvictions evicts pods of a budget from all sides, through the real API server, while their controller is disturbed. At no
// revision may an eviction be allowed that leaves fewer healthy pods than the budget asks for (S24), and the work goes on all the same.
func TestParallelEvictions(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	some := slices.Clone(evictionFaults)
	if !full {
		some = slices.DeleteFunc(some, func(f evictionFault) bool { return !f.always })
	}
	tally := newTally(t, fmt.Sprintf("evictions by %d at a time, faults for %v", evictors, *faultsLast), len(some))
	for _, f := range some {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, c, tally)
			t.Cleanup(func() { r.replayBy(environment(), "-faults="+faultsLast.String()) })
			r.start()
			u := r.user()
			u.Create(suite.Deployment("web", underBudget))
			u.WaitComplete("web")            // before there is a budget, or S24 would excuse what happens while it gets its pods
			most := intstr.FromString("34%") // rounded up: three
			u.Try("create a budget", func() error {
				_, err := r.Client.PolicyV1().PodDisruptionBudgets(r.ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Name: "web"},
					Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most,
						Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
				}, metav1.CreateOptions{})
				return err
			})
			r.disturbs()
			if f.script != "" {
				r.play("at 0s fault " + manager0 + " " + strings.ReplaceAll(f.script, "=D", "="+faultsLast.String()))
			}
			evicted := r.evictAll(*faultsLast)
			r.calm()
			evicted += r.evictAll(time.Second)
			r.wait("all pods are back", recovery, func() error {
				b, err := r.Client.PolicyV1().PodDisruptionBudgets(r.ns).Get(t.Context(), "web", metav1.GetOptions{})
				if err == nil && (b.Status.DisruptionsAllowed != 3 || len(b.Status.DisruptedPods) > 0) {
					err = fmt.Errorf("%+v", b.Status)
				}
				return errors.Join(err, suite.Complete(u.Get("web")))
			})
			h := r.end()
			r.judge(h, oracle.Options{})
			if t.Logf("%d evictions", evicted); evicted == 0 {
				t.Error("no pod was evicted")
			}
		})
	}
}

// evictAll evicts pods for a while, several at a time, as fast as the API server answers. It returns how many were evicted.
func (r *run) evictAll(long time.Duration) int {
	ctx, cancel := context.WithTimeout(r.Context(), long)
	defer cancel()
	whole := r.Context() // an eviction that its client gives up may be allowed and not carried out, and then counts for two minutes
	var evicted atomic.Int32
	var all sync.WaitGroup
	for i := range evictors {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for ctx.Err() == nil {
				list, err := r.Client.CoreV1().Pods(r.ns).List(whole, metav1.ListOptions{ResourceVersion: "0"})
				if err != nil || len(list.Items) == 0 {
					continue
				}
				name := list.Items[random.IntN(len(list.Items))].Name
				if r.Client.PolicyV1().Evictions(r.ns).Evict(whole,
					&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: name}}) == nil {
					evicted.Add(1)
				}
			}
		})
	}
	for ctx.Err() == nil { // managers that are killed are started anew
		r.revive()
		time.Sleep(50 * time.Millisecond)
	}
	all.Wait()
	return int(evicted.Load())
}
