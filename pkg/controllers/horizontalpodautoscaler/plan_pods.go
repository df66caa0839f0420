package horizontalpodautoscaler

import (
	"fmt"
	"math"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// groups are the pods of a target, by what their metrics are good for (HPA-28). Pods that are ignored are in
// none. groupPods makes them for one metric.
type groups struct {
	// ready counts the pods whose metrics count.
	ready   int
	unready []string // names
	// missing are the names of pods without metrics.
	missing []string
	values  map[string]int64 // of the ready pods
}

// groupPods sorts the pods. The metrics of pods that are ignored or unready do not count (HPA-30).
func groupPods(now time.Time, s snapshot, metrics map[string]sample, cpu bool) groups {
	g := groups{values: make(map[string]int64, len(metrics))}
	for _, p := range s.Pods {
		m, known := metrics[p.Name]
		switch {
		case ignored(p):
		case p.Status.Phase == corev1.PodPending:
			g.unready = append(g.unready, p.Name)
		case !known:
			g.missing = append(g.missing, p.Name)
		case cpu && initializing(now, s.Settings, p, m):
			g.unready = append(g.unready, p.Name)
		default:
			g.ready++
			g.values[p.Name] = m.Value
		}
	}
	return g
}

// ignored reports whether a pod does not count at all: it has ended, or is about to (HPA-28, HPA-69).
func ignored(p *corev1.Pod) bool { return p.DeletionTimestamp != nil || podutil.Finished(p) }

// initializing reports whether what a pod uses of the CPU may be due to its start (HPA-29).
func initializing(now time.Time, o settings, p *corev1.Pod, m sample) bool {
	c := podutil.ReadyCondition(p)
	if c == nil || p.Status.StartTime == nil {
		return true
	}
	started := p.Status.StartTime.Time
	if now.Before(started.Add(o.CPUInitialization)) {
		return c.Status == corev1.ConditionFalse || m.Time.Before(c.LastTransitionTime.Add(m.Window))
	}
	return c.Status == corev1.ConditionFalse && c.LastTransitionTime.Time.Before(started.Add(o.ReadinessDelay))
}

// usageRatio is how the values of a set of pods compare to their target.
type usageRatio func(values map[string]int64) (ratio float64, err error)

// replicasFor returns how many replicas the values ask for (HPA-33..35). fill is the value of a pod without metrics
// that must not lead to a scale-down.
func (t tolerance) replicasFor(current int32, g groups, ratioOf usageRatio, fill func(pod string) int64) (int32,
	error) {
	ratio, err := ratioOf(g.values)
	if err != nil {
		return 0, err
	}
	fillUnready := len(g.unready) > 0 && ratio > 1
	if !fillUnready && len(g.missing) == 0 {
		if t.within(ratio) {
			return current, nil
		}
		return ceil(ratio * float64(g.ready)), nil
	}
	for _, name := range g.missing {
		switch {
		case ratio < 1:
			g.values[name] = fill(name)
		case ratio > 1:
			g.values[name] = 0
		}
	}
	if fillUnready {
		for _, name := range g.unready {
			g.values[name] = 0
		}
	}
	filled, err := ratioOf(g.values)
	if err != nil {
		return 0, err
	}
	if t.within(filled) || ratio < 1 && filled > 1 || ratio > 1 && filled < 1 {
		return current, nil
	}
	n := ceil(filled * float64(len(g.values)))
	if filled < 1 && n > current || filled > 1 && n < current {
		return current, nil
	}
	return n, nil
}

// tolerance is by how much a ratio may miss 1.
type tolerance struct{ Down, Up float64 }

// within reports whether a ratio is near enough to 1 for nothing to change.
func (t tolerance) within(ratio float64) bool { return 1-t.Down <= ratio && ratio <= 1+t.Up }

// ceil rounds up, to what a number of replicas can be.
func ceil(n float64) int32 {
	switch n = math.Ceil(n); {
	case !(n > 0): // nor a number
		return 0
	case n >= math.MaxInt32:
		return math.MaxInt32
	}
	return int32(n)
}

// requestsOf returns how much of a resource each pod that counts asks for, in thousandths (HPA-31). Of several pods
// that fail the first one by name is reported, so that the status says the same in each period: the pods have no order.
func requestsOf(s snapshot, name corev1.ResourceName, container string) (all map[string]int64, err error) {
	all = make(map[string]int64, len(s.Pods))
	first := ""
	for _, p := range s.Pods {
		if ignored(p) {
			continue
		}
		n, failed := requestOf(s.Settings, p, name, container)
		if failed != nil && (err == nil || p.Name < first) {
			first, err = p.Name, failed
		}
		all[p.Name] = n
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// requestOf returns how much of a resource one pod asks for, or one of its containers. Of init containers
// those count that go on running.
func requestOf(o settings, p *corev1.Pod, name corev1.ResourceName, container string) (sum int64, err error) {
	if r := p.Spec.Resources; o.PodLevelRequests && container == "" && r != nil && len(r.Requests) > 0 {
		q, ok := r.Requests[name]
		if !ok {
			return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", name, p.Name)
		}
		return milli(q), nil
	}
	found := false
	add := func(c *corev1.Container) error {
		if container != "" && c.Name != container {
			return nil
		}
		q, ok := c.Resources.Requests[name]
		if !ok {
			return fmt.Errorf("missing request for %s in container %s of Pod %s", name, c.Name, p.Name)
		}
		sum, found = saturated(sum, milli(q)), true
		return nil
	}
	for i := range p.Spec.Containers {
		if err := add(&p.Spec.Containers[i]); err != nil {
			return 0, err
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue
		}
		if err := add(c); err != nil {
			return 0, err
		}
	}
	if container != "" && !found {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, p.Name)
	}
	return sum, nil
}

// total is an exact sum, in two parts: many large values are more than an int64 can be (MEND-12).
type total struct{ high, low int64 }

// add adds a value, which may be negative.
func (t *total) add(v int64) {
	t.high += v >> 32
	t.low += v & math.MaxUint32
}

// value is the sum.
func (t *total) value() *big.Int {
	v := big.NewInt(t.high)
	return v.Lsh(v, 32).Add(v, big.NewInt(t.low))
}

// average returns the mean of values, of which there is at least one.
func average(values map[string]int64) int64 {
	var sum total
	for _, v := range values {
		sum.add(v)
	}
	mean := sum.value()
	return mean.Quo(mean, big.NewInt(int64(max(len(values), 1)))).Int64()
}

// utilization returns what percentage of their requests the pods use that have both, without what follows the point
// (HPA-32).
func utilization(values, requests map[string]int64) (percent int32, ok bool) {
	var used, requested total
	for name, v := range values {
		if request, ok := requests[name]; ok {
			used.add(v)
			requested.add(request)
		}
	}
	divisor := requested.value()
	if divisor.Sign() <= 0 {
		return 0, false
	}
	p := used.value()
	p.Mul(p, big.NewInt(100)).Quo(p, divisor)
	switch {
	case p.Cmp(big.NewInt(math.MaxInt32)) > 0:
		return math.MaxInt32, true
	case p.Cmp(big.NewInt(math.MinInt32)) < 0:
		return math.MinInt32, true
	}
	return int32(p.Int64()), true
}

// countReady returns how many pods are running and ready (HPA-37).
func countReady(pods []*corev1.Pod) (n int) {
	for _, p := range pods {
		if p.Status.Phase == corev1.PodRunning && podutil.Ready(p) {
			n++
		}
	}
	return n
}
