package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// outcome says what came of it all.
func (w *world) outcome(began time.Time, rested bool) Outcome {
	o := Outcome{Took: time.Since(began), Changes: w.server.Version(), Notes: w.notes, Hash: w.record.hash()}
	o.Violations = w.judge(rested)
	if !rested {
		o.Violations = append([]string{fmt.Sprintf("L1 it does not come to rest within %v", restive)}, o.Violations...)
	}
	return o
}

// judge returns the rules that were broken.
func (w *world) judge(settled bool) []string {
	broken := slices.Clone(w.record.broken)
	options := oracle.Options{Settled: settled, TerminatedPodThreshold: w.script.Setting("terminated", 12500)}
	for _, i := range w.faulty {
		options.Outages = append(options.Outages, oracle.Interval{From: i.from, To: i.to})
	}
	for _, v := range oracle.Check(w.record.history(), options, oracle.All()...) {
		if !w.unforeseen(v) {
			broken = append(broken, v.String())
		}
	}
	return broken
}

// unforeseen reports whether a pod was deleted that had become ready so shortly before that the manager cannot have known:
// of pods that are not ready, one may become so while the request to delete it is on its way.
func (w *world) unforeseen(v oracle.Violation) bool {
	if v.Oracle != "S6" || v.Kind != oracle.Pod {
		return false
	}
	var was bool
	var since time.Time
	for _, e := range w.server.Since("pods", 0) {
		p, ok := e.Object.(*corev1.Pod)
		if !ok || p.Namespace+"/"+p.Name != v.Object || e.Version >= uint64(v.Version) {
			continue
		}
		if is := podReady(p); is != was {
			was, since = is, e.Time
		}
	}
	return was && v.When.Sub(since) < w.lag()
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// lag is how much time may pass between a change and what follows from it, without faults: the change arrives, and a
// request and its answer are under way.
func (w *world) lag() time.Duration { return 10*w.latency() + time.Second }
