package endpointslice

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"
)

// A rolling update of any pace writes at most 1.1 times the slices that have to be written, which are those that hold an endpoint that has
// changed or gone, and those that new endpoints need beside them. There are never more than 1.3 times the fewest slices, or one more.
func TestRollingUpdatesWriteFewSlices(t *testing.T) { // EPS-35..38, EPS-81
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(100, 300).Draw(t, "pods")
		surge, unavailable := rapid.IntRange(0, n/2).Draw(t, "surge"), rapid.IntRange(1, n/2).Draw(t, "unavailable")
		r := newRollout(rapid.Uint64().Draw(t, "seed"), n, 10)
		r.writes, r.fewest = 0, 0
		r.update(n, surge, unavailable, rapid.IntRange(1, n/2).Draw(t, "pace"))
		if r.writes*10 > r.fewest*11 {
			t.Errorf("%d slices were written; the fewest are %d", r.writes, r.fewest)
		}
		if r.tooMany != "" {
			t.Error(r.tooMany)
		}
	})
}

// However a service grows, there are never more than 1.3 times the fewest slices, or one more.
func TestGrowthKeepsSlicesFew(t *testing.T) { // EPS-36, EPS-37
	rapid.Check(t, func(t *rapid.T) {
		r := newRollout(0, rapid.IntRange(0, 20).Draw(t, "pods"), 10)
		usual := rapid.IntRange(1, 15).Draw(t, "usual step")
		for len(r.Pods) < 300 {
			step := usual
			if rapid.IntRange(0, 4).Draw(t, "unusual") == 0 {
				step = rapid.IntRange(1, 30).Draw(t, "step")
			}
			r.create(step, nil)
			r.reconcile()
		}
		if r.tooMany != "" {
			t.Error(r.tooMany)
		}
	})
}

// rollout is a service whose pods come and go, with its slices.
type rollout struct {
	*rand.Rand
	snapshot
	made           int    // pods so far
	writes, fewest int    // slices that were written, and that had to be
	tooMany        string // says when there were too many slices; empty if there never were
}

// newRollout returns a service with so many ready pods, of which a slice holds at most max.
func newRollout(seed uint64, n, max int) *rollout {
	r := &rollout{Rand: rand.New(rand.NewPCG(seed, 0)), snapshot: snapshotOf(web(), nil)}
	r.Max = max
	r.create(n, nil)
	r.reconcile()
	return r
}

func (r *rollout) create(n int, edit podEdit) {
	for range n {
		r.made++
		p := pod(fmt.Sprintf("p%05d", r.made), fmt.Sprintf("10.%d.%d.%d", r.made>>16&255, r.made>>8&255, r.made&255))
		if edit != nil {
			edit(p)
		}
		r.Pods = append(r.Pods, p)
	}
}

// reconcile writes what has to be written, and counts it.
func (r *rollout) reconcile() {
	fewest := r.haveToBeWritten()
	after, n := carryOut(r.snapshot, planSlices(now, r.snapshot))
	r.Slices = after
	r.writes += n.creates + n.updates + n.deletes
	r.fewest += fewest
	if least := (len(r.Pods) + r.Max - 1) / r.Max; len(after) > least+1 && len(after)*10 > least*13 {
		r.tooMany = fmt.Sprintf("%d slices for %d pods", len(after), len(r.Pods))
	}
}

// haveToBeWritten counts the slices that hold an endpoint that has changed or is gone, and those that new endpoints need beside them.
func (r *rollout) haveToBeWritten() (n int) {
	pods := map[string]*corev1.Pod{}
	for _, p := range r.Pods {
		pods[p.Name] = p
	}
	m := membersOf(r.snapshot)
	room := 0
	for _, s := range r.Slices {
		changed, stay := false, 0
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if pods[e.TargetRef.Name] == nil {
				changed = true
				continue
			}
			stay++
			changed = changed || !m.shows(e, m.find(e), discoveryv1.AddressTypeIPv4)
			delete(pods, e.TargetRef.Name)
		}
		if changed {
			n++
			room += r.Max - stay
		}
	}
	if left := len(pods) - room; left > 0 {
		n += (left + r.Max - 1) / r.Max
	}
	return n
}

// change replaces up to n pods for which which is true, chosen at random, by what edit makes of them; without it, they are gone.
func (r *rollout) change(n int, which func(*corev1.Pod) bool, edit podEdit) {
	for _, i := range r.Perm(len(r.Pods)) {
		if p := r.Pods[i]; n > 0 && which(p) {
			n--
			if r.Pods[i] = nil; edit != nil {
				r.Pods[i] = p.DeepCopy()
				edit(r.Pods[i])
			}
		}
	}
	var all []*corev1.Pod
	for _, p := range r.Pods {
		if p != nil {
			all = append(all, p)
		}
	}
	r.Pods = all
}

// update replaces all pods, with so many more and so many fewer ready ones than n at a time. Up to pace pods of each kind change
// between two reconciles.
func (r *rollout) update(n, surge, unavailable, pace int) {
	old := r.made
	isOld := func(p *corev1.Pod) bool { return p.Name <= fmt.Sprintf("p%05d", old) }
	going := func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }
	isReady := func(p *corev1.Pod) bool { return p.Status.Conditions[0].Status == corev1.ConditionTrue }
	starting := func(p *corev1.Pod) bool { return !isOld(p) && !isReady(p) }
	for {
		counted, ready, olds, news := 0, 0, 0, 0
		for _, p := range r.Pods {
			if !going(p) {
				counted++
			}
			if isReady(p) && !going(p) {
				ready++
			}
			if isOld(p) {
				olds++
			} else {
				news++
			}
		}
		if olds == 0 && news == n && ready == n {
			return
		}
		some := func() int { return r.IntN(pace + 1) }
		r.change(some(), going, nil)
		r.change(min(some(), max(0, ready-(n-unavailable))), func(p *corev1.Pod) bool { return isOld(p) && !going(p) }, terminating)
		r.change(some(), starting, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue })
		r.create(max(0, min(some(), n-news, n+surge-counted)), unready)
		r.reconcile()
	}
}
