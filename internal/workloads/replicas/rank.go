package replicas

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// ranking is what decides, besides the pods themselves, in which order they are deleted.
type ranking struct {
	now      time.Time
	near     map[string]int // related pods by node (RS-32)
	minReady int32          // for how many seconds a pod must have been ready to be available
	costs    bool           // the deletion cost counts
}

// order returns the pods in the order in which they are deleted (RS-31). A pod that is ready but not available comes
// before one that is, too: a rolling update that lowers a ReplicaSet because some of its pods are not available relies
// on it.
//
// Taken pair by pair, the facts may contradict one another. Pods that have been ready about equally long go by uid if
// they became ready at different moments, but by restarts and creation if at the same. Say A and C are ready since
// 10:00:00, C has restarted, B is ready since 10:00:01, and in the order of uids they are A, B, C. Then A comes before
// B, B before C, and C before A. So here they all take places in the order of their uids, and then those of the same
// moment swap theirs among themselves: C, B, A. Pairs that are not part of such a circle go exactly by the facts.
func (k ranking) order(pods []*corev1.Pod) []*corev1.Pod {
	ranks := make([]rank, len(pods))
	for i, p := range pods {
		ranks[i] = k.rankOf(p)
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		return cmp.Or(a.compare(b), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	for begin, end := 0, 0; begin < len(ranks); begin = end {
		for end = begin + 1; end < len(ranks) && ranks[begin].compare(ranks[end]) == 0; end++ {
		}
		swapPeers(ranks[begin:end])
	}
	order := make([]*corev1.Pod, len(ranks))
	for i := range ranks {
		order[i] = ranks[i].pod
	}
	return order
}

// rank is what decides which of two pods comes first, read off a pod once.
type rank struct {
	pod       *corev1.Pod
	assigned  bool
	phase     int // Pending, Unknown, Running
	ready     bool
	available bool
	// cost is what users say that it costs to delete the pod.
	cost     int32
	near     int // related pods on the same node
	readyAge int
	since    moment // since when it is ready
	// restarts are the highest restart counts of containers, and of sidecars.
	restarts [2]int32
	age      int
}

// rankOf finds out all that decides about a pod, once, before pods are compared with one another.
func (k ranking) rankOf(p *corev1.Pod) rank {
	r := rank{
		pod:       p,
		assigned:  p.Spec.NodeName != "",
		ready:     podutil.Ready(p),
		available: podutil.Available(p, k.minReady, k.now),
		restarts:  podutil.Restarts(p),
		age:       ageOf(p.CreationTimestamp, k.now),
	}
	switch p.Status.Phase {
	case corev1.PodUnknown:
		r.phase = 1
	case corev1.PodRunning:
		r.phase = 2
	}
	if k.costs {
		r.cost = deletionCost(p.Annotations[corev1.PodDeletionCost])
	}
	if r.assigned {
		r.near = k.near[p.Spec.NodeName]
	}
	if r.ready {
		since := podutil.ReadyCondition(p).LastTransitionTime
		r.readyAge, r.since = ageOf(since, k.now), momentOf(since)
	}
	return r
}

// compare is negative if a comes before b by the criteria 1 to 6, without the uids.
func (a rank) compare(b rank) int {
	return cmp.Or(
		podutil.FalseFirst(a.assigned, b.assigned),
		cmp.Compare(a.phase, b.phase),
		podutil.FalseFirst(a.ready, b.ready),
		podutil.FalseFirst(a.available, b.available),
		cmp.Compare(a.cost, b.cost),
		cmp.Compare(b.near, a.near),
		cmp.Compare(a.readyAge, b.readyAge),
	)
}

// comparePeers is the same for the criteria 7 and 8, and for what they leave open (RS-34).
func (a rank) comparePeers(b rank) int {
	return cmp.Or(
		cmp.Compare(b.restarts[0], a.restarts[0]),
		cmp.Compare(b.restarts[1], a.restarts[1]),
		cmp.Compare(a.age, b.age),
		cmp.Compare(a.pod.UID, b.pod.UID),
	)
}

// swapPeers orders those of equal pods that are ready since the same moment, or not at all, within their places.
func swapPeers(equals []rank) {
	places := map[moment][]int{}
	for i, r := range equals {
		places[r.since] = append(places[r.since], i)
	}
	for _, at := range places {
		peers := make([]rank, len(at))
		for i, place := range at {
			peers[i] = equals[place]
		}
		slices.SortFunc(peers, rank.comparePeers)
		for i, place := range at {
			equals[place] = peers[i]
		}
	}
}

// ageOf reports how long ago something was, in powers of two of nanoseconds: 3s and 4s are alike, 4s and 5s are not,
// since 2^32 ns lie between them. What is right now, or in the future, is -1; newer than that is what does not say
// (RS-33).
func ageOf(t metav1.Time, now time.Time) int {
	if t.IsZero() {
		return -2
	}
	return bits.Len64(uint64(max(0, now.Sub(t.Time)))) - 1
}

// moment is a time that can be compared with ==; zero if none is known.
type moment struct {
	known bool
	sec   int64
	nsec  int
}

// momentOf is a time that can be compared, and which may be missing.
func momentOf(t metav1.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	return moment{true, t.Unix(), t.Nanosecond()}
}

// deletionCost reads what users say a pod is worth. What is no plain decimal int32 counts as 0 (RS-31.4).
func deletionCost(annotation string) int32 {
	if strings.HasPrefix(annotation, "+") || strings.HasPrefix(annotation, "0") {
		return 0
	}
	cost, err := strconv.ParseInt(annotation, 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

// deletionAgeRatios returns, for each Ready pod that was ranked and deleted, how many times as old it was as the
// youngest Ready pod of the set (RS-35). There are none while that one has no age.
func deletionAgeRatios(now time.Time, s view, did plan.Outcome) (ratios []float64) {
	deleted := func(r plan.Result) bool { return r.Verb == plan.Deleted && r.Err == nil }
	if s.invalid != nil || !slices.ContainsFunc(did.Results, deleted) {
		return nil
	}
	if replicas(s.Set) == 0 && len(s.mine) <= burst {
		return nil // all had to go: nothing was ranked (RS-30)
	}
	age := func(p *corev1.Pod) time.Duration { return now.Sub(p.CreationTimestamp.Time) }
	youngest := time.Duration(math.MaxInt64)
	for _, p := range s.mine {
		if podutil.Ready(p) {
			youngest = min(youngest, age(p))
		}
	}
	for _, r := range did.Results {
		if p, ok := r.Object.(*corev1.Pod); ok && deleted(r) && podutil.Ready(p) && youngest > 0 {
			ratios = append(ratios, float64(age(p))/float64(youngest))
		}
	}
	return ratios
}
