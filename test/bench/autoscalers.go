package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/metricsapi"
)

// autoscalerSizes are those of a cluster with autoscalers. Each has a ReplicationController, which no controller looks after.
type autoscalerSizes struct{ autoscalers, namespaces, replicas, periods int }

// autoscalerPeriod is how often each autoscaler looks at its metrics, by default.
const autoscalerPeriod = 15 * time.Second

// lateAfter is when a period is no longer kept: what more usage asks for must be there after one, and what reading and writing takes.
const lateAfter = autoscalerPeriod * 6 / 5

// autoscalers measures many HorizontalPodAutoscalers: what their periods cost, and whether they are kept.
func autoscalers(ctx context.Context, b *bench) error {
	sizes := autoscalerSizes{autoscalers: 2000, namespaces: 20, replicas: 2, periods: 4}
	if b.quick {
		sizes = autoscalerSizes{autoscalers: 200, namespaces: 4, replicas: 2, periods: 2}
	}
	own := []string{"--controllers=horizontalpodautoscaling,-replicationcontroller"}
	return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return p.withAutoscalers(ctx, sizes, func(a *autoscaled) error {
				err := b.withManager(ctx, p, t, append(raisedLimits(), own...),
					func(s *session) error { return a.measure(ctx, b, t, s, "limits raised") })
				if err != nil {
					return err
				}
				return b.withManager(ctx, p, t, own, func(s *session) error { return a.measure(ctx, b, t, s, "default flags") })
			})
		})
	})
}

// autoscaled is a cluster with autoscalers.
type autoscaled struct {
	autoscalerSizes
	want atomic.Int32 // how many replicas the usage asks for
	errs collect

	mu     sync.Mutex
	scaled map[string]int // the replicas of each target, by namespace and name
	last   map[string]time.Time
}

// withAutoscalers makes autoscalers and what they look at.
func (p *plane) withAutoscalers(ctx context.Context, sizes autoscalerSizes, do func(*autoscaled) error) (err error) {
	a := &autoscaled{autoscalerSizes: sizes, scaled: map[string]int{}, last: map[string]time.Time{}}
	a.want.Store(int32(sizes.replicas))
	metrics, err := metricsapi.Start(ctx, p.config, metricsapi.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, metrics.Close()) }()
	metrics.Usage("", metricsapi.EachContainer(corev1.ResourceCPU, func(time.Time) (resource.Quantity, bool) {
		return *resource.NewMilliQuantity(wantedUsage*int64(a.want.Load())/int64(a.replicas), resource.DecimalSI), true
	}))
	w, err := p.client.CoreV1().ReplicationControllers("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		a.errs.add(each(following, w, func(_ watch.EventType, target *corev1.ReplicationController) { a.see(target, time.Now()) }))
	})
	defer wg.Wait()
	defer stop()
	if err := a.populate(ctx, p); err != nil {
		return err
	}
	return do(a)
}

func (a *autoscaled) populate(ctx context.Context, p *plane) error {
	clients, err := p.clients(kubeletConnections)
	if err != nil {
		return err
	}
	namespaces := make([]string, a.namespaces)
	for i := range namespaces {
		if namespaces[i], err = p.newNamespace(ctx); err != nil {
			return err
		}
	}
	return forEach(ctx, len(clients), a.autoscalers, func(ctx context.Context, worker, i int) error {
		client, ns, name := clients[worker], namespaces[i%len(namespaces)], fmt.Sprint("web-", i)
		template := loosePod(ns, "", name)
		template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		made, err := client.CoreV1().ReplicationControllers(ns).Create(ctx, newTarget(name, a.replicas, template), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		made.Status.Replicas, made.Status.ReadyReplicas = int32(a.replicas), int32(a.replicas)
		if _, err := client.CoreV1().ReplicationControllers(ns).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
		for n := range a.replicas {
			pod := template.DeepCopy()
			pod.Name = fmt.Sprint(name, "-", n)
			if _, err := makeReadyPod(ctx, client, pod, uint32(i*a.replicas+n)); err != nil {
				return err
			}
		}
		_, err = client.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(ctx, newAutoscaler(name), metav1.CreateOptions{})
		return err
	})
}

// newTarget is a ReplicationController, for pods like one.
func newTarget(name string, replicas int, template *corev1.Pod) *corev1.ReplicationController {
	target := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: name}}
	target.Spec.Replicas, target.Spec.Selector = ptr.To(int32(replicas)), map[string]string{appLabel: name}
	target.Spec.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec}
	return target
}

// wantedUsage is what the autoscalers want each pod to use, in thousandths of a CPU: half of what it requests.
const wantedUsage = 50

func newAutoscaler(name string) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "ReplicationController", Name: name}
	h.Spec.MinReplicas, h.Spec.MaxReplicas = ptr.To[int32](1), 10
	target := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)}
	h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: target}}}
	return h
}

// see is told of each change of a target.
func (a *autoscaled) see(target *corev1.ReplicationController, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, replicas := target.Namespace+"/"+target.Name, int(ptr.Deref(target.Spec.Replicas, 0))
	if a.scaled[key] != replicas {
		a.scaled[key], a.last[key] = replicas, now
	}
}

// done returns when the targets were told to have as many replicas as the usage asks for, of those that were.
func (a *autoscaled) done() (at []time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, replicas := range a.scaled {
		if replicas == int(a.want.Load()) {
			at = append(at, a.last[key])
		}
	}
	return at
}

// more lets the pods use more, so that one more replica of each is asked for, and returns how long it took until each target was told
// of it. There are never more pods, so the usage stays.
func (a *autoscaled) more(ctx context.Context, s *session) (took []time.Duration, err error) {
	began := time.Now()
	a.want.Add(1)
	err = until(ctx, "all targets have one more replica", 50*time.Millisecond, func() (bool, error) {
		return len(a.done()) == a.autoscalers, errors.Join(a.errs.first(), s.manager.running())
	})
	for _, at := range a.done() {
		took = append(took, at.Sub(began))
	}
	return took, err
}

// measure counts what periods without a change cost, and then times the scaling of all.
func (a *autoscaled) measure(ctx context.Context, b *bench, t turn, s *session, limits string) error {
	if _, err := a.more(ctx, s); err != nil {
		return err
	}
	if err := sleep(ctx, 2*autoscalerPeriod); err != nil { // what that brought about is over
		return err
	}
	s.proxy.Reset()
	before, err := s.manager.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	stop := s.plane.profiles.take(ctx, s.name, s.serving)
	err = sleep(ctx, time.Duration(a.periods)*autoscalerPeriod)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	after, err := s.manager.cpu()
	if err != nil {
		return err
	}
	idle, all := s.proxy.Requests(), 0
	rows := make([]tally, 0, len(idle.Rows))
	for _, r := range idle.Rows {
		if r.Resource != "leases" {
			all += r.Count
			rows = append(rows,
				tally{Resource: r.Resource + "." + r.Group + "/" + r.Subresource, Verb: r.Verb, Code: r.Code, Count: r.Count})
		}
	}
	s.proxy.Reset()
	took, err := a.more(ctx, s)
	if err != nil {
		return err
	}
	if err := sleep(ctx, autoscalerPeriod); err != nil { // the statuses may say it later
		return err
	}
	writes := countWrites(s.proxy.Requests())
	least, late := 2*float64(a.autoscalers), lateAfter.Seconds() // a scale and a status for each
	b.keep(t, sample{
		Scenario: fmt.Sprintf("%d autoscalers in %d namespaces, %s", a.autoscalers, a.namespaces, limits), Began: began, Flags: s.flags,
		Writes: rows,
		Figures: []figure{
			{Name: "requests in a period of 15 s", Value: float64(all) / float64(a.periods)},
			millis("CPU of the manager in a period", (after-before)/time.Duration(a.periods)),
			seconds("from more usage until a target is scaled, median", percentile(took, 50)),
			{Name: "until the last one is scaled", Value: slices.Max(took).Seconds(), Unit: "s", Most: &late},
			{Name: "writes until then and in the next period", Value: float64(writes.writes), Floor: &least},
			exactly("refused with 409", writes.conflicts, 0),
		},
	})
	return nil
}
