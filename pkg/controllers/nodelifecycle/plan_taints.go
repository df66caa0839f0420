package nodelifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owned reports whether a taint with NoSchedule is one of the controller's own (NL-20).
func owned(t corev1.Taint) bool {
	switch t.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure,
		corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure,
		corev1.TaintNodeNetworkUnavailable, corev1.TaintNodeUnschedulable:
		return t.Effect == corev1.TaintEffectNoSchedule
	}
	return false
}

// withTaints returns the node with the taints and labels that go with its conditions, nil if nothing changes, and
// when it is to be looked at again because of its zone.
func withTaints(now time.Time, s snapshot, n *corev1.Node, d *decision) (after *corev1.Node, wait time.Duration,
	why string) {
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return !keeps(n, t) })
	for _, key := range causes(n) {
		taints = with(taints, now, key, corev1.TaintEffectNoSchedule)
	}
	taints, wait, why = noExecute(now, s, n, taints, d)
	labels := betaLabels(n)
	if sameTaints(taints, n.Spec.Taints) && labels == nil {
		return nil, wait, why
	}
	changed := *n // the rest is shared with it
	changed.Spec.Taints = taints
	if labels != nil {
		changed.Labels = maps.Clone(n.Labels)
		maps.Copy(changed.Labels, labels)
	}
	if why == "" {
		why = "its taints or labels follow its conditions"
	}
	return &changed, wait, why
}

// causes are the keys of the NoSchedule taints that the conditions of a node ask for, and its field unschedulable.
func causes(n *corev1.Node) (keys []string) {
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse:
			keys = append(keys, corev1.TaintNodeNotReady)
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown:
			keys = append(keys, corev1.TaintNodeUnreachable)
		case c.Status != corev1.ConditionTrue:
		case c.Type == corev1.NodeMemoryPressure:
			keys = append(keys, corev1.TaintNodeMemoryPressure)
		case c.Type == corev1.NodeDiskPressure:
			keys = append(keys, corev1.TaintNodeDiskPressure)
		case c.Type == corev1.NodePIDPressure:
			keys = append(keys, corev1.TaintNodePIDPressure)
		case c.Type == corev1.NodeNetworkUnavailable:
			keys = append(keys, corev1.TaintNodeNetworkUnavailable)
		}
	}
	if n.Spec.Unschedulable {
		keys = append(keys, corev1.TaintNodeUnschedulable)
	}
	return keys
}

// keeps reports whether a taint stays: a NoSchedule taint of the controller only while it has a cause. A new node
// whose kubelet has not said anything yet keeps the taint that admission has given to it (NL-84).
func keeps(n *corev1.Node, t corev1.Taint) bool {
	switch {
	case !owned(t):
		return true
	case t.Key == corev1.TaintNodeNotReady && ready(n) == nil:
		return true
	}
	return slices.Contains(causes(n), t.Key)
}

// with returns the taints with one more, unless there is one with its key and effect (NL-22).
func with(taints []corev1.Taint, now time.Time, key string, effect corev1.TaintEffect) []corev1.Taint {
	if has(taints, key, effect) {
		return taints
	}
	added := metav1.NewTime(now)
	return append(slices.Clip(taints), corev1.Taint{Key: key, Effect: effect, TimeAdded: &added})
}

// has reports whether there is a taint with that key and effect.
func has(taints []corev1.Taint, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

// without returns the taints without those with NoExecute of that key.
func without(taints []corev1.Taint, key string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints),
		func(t corev1.Taint) bool { return t.Key == key && t.Effect == corev1.TaintEffectNoExecute })
}

// noExecute returns the taints with those with NoExecute as they should be (NL-30..33, NL-46). The first taint of a
// node is given at the rate of its zone; when one takes the place of the other, the node is never without.
func noExecute(now time.Time, s snapshot, n *corev1.Node, taints []corev1.Taint, d *decision) (_ []corev1.Taint,
	wait time.Duration, why string) {
	wanted, other := "", ""
	if r := ready(n); r != nil {
		switch r.Status {
		case corev1.ConditionFalse:
			wanted, other = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
		case corev1.ConditionUnknown:
			wanted, other = corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady
		}
	}
	none := without(without(taints, corev1.TaintNodeNotReady), corev1.TaintNodeUnreachable)
	tainted := len(none) < len(taints)
	switch {
	case wanted == "" && ready(n) == nil && tainted:
		return taints, 0, "" // its kubelet has not said anything
	case wanted == "":
		return none, 0, ""
	case !s.Zone.Known:
		return taints, 0, "the nodes of its zone have not been counted yet"
	case s.Zone.AllDown:
		return none, 0, "all zones are down, so it gets no NoExecute taint"
	case mayBeCutOff(n):
		return none, 0, "it may be cut off, so it gets no NoExecute taint"
	case tainted:
		return swapped(taints, now, wanted, other), 0, ""
	}
	if wait, why = waits(now, s, n, &d.Memory); wait > 0 {
		return taints, wait, why
	}
	d.Tainted = true
	return with(taints, now, wanted, corev1.TaintEffectNoExecute), 0,
		fmt.Sprintf("it gets the taint %s:NoExecute", wanted)
}

// swapped returns the taints with one in place of the other. It keeps the time of the other: the node is down since
// then, whatever its taint is called, and the rate of its zone was used then.
func swapped(taints []corev1.Taint, now time.Time, wanted, other string) []corev1.Taint {
	i := slices.IndexFunc(taints,
		func(t corev1.Taint) bool { return t.Key == other && t.Effect == corev1.TaintEffectNoExecute })
	if i >= 0 && taints[i].TimeAdded != nil {
		now = taints[i].TimeAdded.Time
	}
	return with(without(taints, other), now, wanted, corev1.TaintEffectNoExecute)
}

// waits is how long a node has to wait for its first NoExecute taint: until it has been unhealthy for a while, so
// that the state of its zone is known (by the clock of this process, if that of the node is ahead), until its grace
// period after all zones were down is over (NL-48), and until it is its turn in the zone.
func waits(now time.Time, s snapshot, n *corev1.Node, m *memory) (time.Duration, string) {
	since := ready(n).LastTransitionTime.Time
	if !m.Unready.IsZero() && m.Unready.Before(since) {
		since = m.Unready
	}
	// A node has to be in the line of its zone before its turn can come, so even without a period it is looked at
	// again.
	if left := max(s.Limits.MonitorPeriod, leastWait) - now.Sub(since); left > 0 {
		return left, "it has become unhealthy only now"
	}
	if left := s.Limits.MonitorGracePeriod - now.Sub(m.Recovered); !m.Recovered.IsZero() && left > 0 {
		return left, "all zones were down a moment ago"
	}
	rate := s.Zone.rate(s.Limits)
	if rate <= 0 {
		m.Line = line{}
		return s.Limits.MonitorGracePeriod, "a part of its zone is down, so no node of it gets a NoExecute taint"
	}
	pause := time.Duration(min(float64(time.Second)/float64(rate), float64(longestPause)))
	if left := turn(now, s.Zone, rate, pause, &m.Line).Sub(now); left > 0 {
		if s.Zone.Before > 0 {
			left = max(left, leastWait)
		}
		return left,
			fmt.Sprintf("%d nodes of its zone get a NoExecute taint before it, one every %s", s.Zone.Before, pause)
	}
	return 0, ""
}

// longestPause is the pause between the taints of two nodes at rates that come to more than a Duration can hold.
const longestPause = 100 * 365 * 24 * time.Hour

// turn is when it is the turn of a node in its zone: a pause after the last one; and if others come before it, as
// many pauses after the line has last gone on. Who could have had a taint by then, and has none, keeps nobody
// waiting.
func turn(now time.Time, z zone, rate float32, pause time.Duration, l *line) time.Time {
	if is := (line{z.Last, z.Before, rate, l.Since}); is != *l {
		is.Since = now
		*l = is
	}
	if z.Before == 0 {
		return z.Last.Add(pause)
	}
	return l.Since.Add(time.Duration(z.Before+1) * pause)
}

// leastWait is how long a node waits at least for others. The first of the line knows when its turn is.
const leastWait = time.Second

// betaLabels are the old labels that go with the new ones (NL-25), if they are not there.
func betaLabels(n *corev1.Node) (missing map[string]string) {
	for _, stable := range []string{corev1.LabelOSStable, corev1.LabelArchStable} {
		value, ok := n.Labels[stable]
		if beta := "beta." + stable; ok && n.Labels[beta] != value {
			if missing == nil {
				missing = map[string]string{}
			}
			missing[beta] = value
		}
	}
	return missing
}

// sameTaints compares keys, effects and values; the order says nothing.
func sameTaints(a, b []corev1.Taint) bool {
	text := func(all []corev1.Taint) []string {
		var texts []string
		for _, t := range all {
			texts = append(texts, t.Key+"\x00"+string(t.Effect)+"\x00"+t.Value)
		}
		slices.Sort(texts)
		return texts
	}
	return strings.Join(text(a), "\x01") == strings.Join(text(b), "\x01")
}
