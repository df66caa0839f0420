package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// evictionFaults are the scripts of TestParallelEvictions. D stands for how long the faults last.
var evictionFaults = map[string]string{
	"no faults":                    "",
	"pods frozen":                  "event pods times=1 : freeze D",
	"budgets late":                 "event poddisruptionbudgets for=D : delay 500ms",
	"all events late":              "event * for=D : delay 300ms",
	"pods lost until relist":       "event pods times=3 : drop D",
	"internal errors":              "write,get,list,watch * for=D p=0.5 : answer 500",
	"conflicts":                    "write poddisruptionbudgets for=D p=0.5 : answer 409",
	"carried out, not answered":    "write * for=D p=0.4 : commit cut",
	"killed while events are late": "write * for=D every=8 : kill after\nevent * for=D : delay 300ms",
	"killed at writes of a status": "write poddisruptionbudgets for=D every=5 : kill before",
}

const (
	evictors    = 8 // at the same time
	underBudget = 6 // pods, of which three may be unavailable
)

// TestParallelEvictions evicts pods of a budget from all sides, through the real API server, while their controller is disturbed. At no
// revision may an eviction be allowed that leaves fewer healthy pods than the budget asks for (S24), and the work goes on all the same.
func TestParallelEvictions(t *testing.T) {
	c := cluster.Start(t)
	tally := newTally(t, fmt.Sprintf("evictions by %d at a time, faults for %v", evictors, *faultsLast), len(evictionFaults), "S1", "S24", "L1", "L4")
	for name, script := range evictionFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, c, tally, "", podgcThreshold)
			t.Cleanup(func() { r.replayBy("", "-faults="+faultsLast.String()) })
			parsed, err := proxy.Parse("seed 1\n" + strings.NewReplacer("=D", "="+faultsLast.String(), " D", " "+faultsLast.String()).Replace(script))
			if err != nil {
				t.Fatal(err)
			}
			r.start()
			u := r.user()
			u.Create(suite.Deployment("web", underBudget))
			most := intstr.FromString("34%") // rounded up: three
			u.Try("create a budget", func() error {
				_, err := r.Client.PolicyV1().PodDisruptionBudgets(r.ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Name: "web"},
					Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
				}, metav1.CreateOptions{})
				return err
			})
			u.WaitComplete("web")
			r.disturbed.From = time.Now()
			r.proxy.Run(parsed)
			evicted := r.evictAll(*faultsLast)
			r.proxy.Calm()
			r.disturbed.To = time.Now().Add(*faultsLast)
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
				if r.Client.PolicyV1().Evictions(r.ns).Evict(whole, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: name}}) == nil {
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
