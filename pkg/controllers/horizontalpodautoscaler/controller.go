package horizontalpodautoscaler

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/scale"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the horizontal-pod-autoscaler controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.setDefaults()
	return manager.Controller{
		Name:    "horizontal-pod-autoscaler-controller",
		Alias:   "horizontalpodautoscaling",
		Account: "horizontal-pod-autoscaler",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the caches and says how the controller works. Its clients have as many requests as all those
// of the original together.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	clients, err := c.Clients.Faster(bucketsOfOriginal, bucketsOfOriginal)
	if err != nil {
		return nil, err
	}
	access := c.Access
	access.Client = clients.Client()
	schedule := schedule{Period: o.SyncPeriod}
	k, err := newCaches(c.Informers, schedule)
	if err != nil {
		return nil, err
	}
	k.mapper = c.Clients.Mapper()
	k.settings = o.settings(c.Enabled)
	own := newCollectors()
	c.RegisterMetrics(own.all()...)
	return reconcile.New(c.Shared, access.OnStale(own.countStale), reconcile.Controller[snapshot, decision, memory]{
		Name:      "horizontalpodautoscaler", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{k.autoscalers.Kind().Kind},
		Watches:   k.watches(own),
		Period:    o.SyncPeriod,
		Source: func(ctx context.Context, _ func(plan.Key)) {
			own.begin(k.autoscalers.All())
			<-ctx.Done()
			own.end()
		},
		Observe:  k.observe,
		Plan:     planScale,
		Remember: reconcile.RememberOutcome(remember),
		Report:   reportStatus,
		Applied:  own.applied,
		Owner:    func(s snapshot) plan.Object { return s.Autoscaler },
		Subject:  func(s snapshot) types.UID { return s.Autoscaler.UID },
	}), nil
}

// bucketsOfOriginal is how many limits of requests the original has, one for each API that it uses; ours share one of
// that size (HPA-66).
const bucketsOfOriginal = 5

// newCaches asks for the caches. Of pods it reads what readiness, their start and their requests depend on.
func newCaches(f *informers.Factory, r schedule) (*caches, error) {
	autoscalers, err1 := informers.Objects[*autoscalingv2.HorizontalPodAutoscaler](f)
	pods, err2 := informers.PodsByLabels(f, informers.PodFields{
		Paths: []string{
			"spec.resources.requests", "spec.containers.name", "spec.containers.resources.requests",
			"spec.initContainers.name", "spec.initContainers.restartPolicy", "spec.initContainers.resources.requests",
			"status.phase", "status.startTime", "status.conditions",
		},
		Containers: true, // those without requests matter (HPA-31)
		Condition:  informers.ReadyCondition,
	})
	workloads, err3 := scale.NewCaches(f, "spec.replicas", "spec.selector", "status.replicas")
	k := &caches{autoscalers: autoscalers, pods: pods, workloads: workloads, schedule: r}
	k.answers, k.namespaces = newAnswers(r), newNamespaces(k)
	return k, errors.Join(err1, err2, err3)
}

// watches: an autoscaler that is new, or whose spec has changed, is evaluated at once. Otherwise the clock is what
// enqueues autoscalers (HPA-8), and changes of pods and targets enqueue nothing (HPA-9).
func (k *caches) watches(own *collectors) []reconcile.Watch {
	atOnce := func(before, after plan.Object) []plan.Key {
		if after == nil || !respecified(before, after) {
			return nil
		}
		k.namespaces.changed(after.GetNamespace())
		return informers.Itself(before, after)
	}
	later := func(before, after plan.Object) []plan.Key {
		if after == nil {
			k.namespaces.forget(before)
		}
		return own.itself(before, after)
	}
	wait := func(key plan.Key) time.Duration { return k.schedule.wait(time.Now(), key.Namespace) }
	return append([]reconcile.Watch{
		k.autoscalers.Watch(atOnce),
		k.autoscalers.Watch(later, informers.WithResync, informers.WithDelay(wait)),
		k.pods.Watch(informers.None),
	}, k.workloads.Watches(informers.None)...)
}

// respecified reports whether an autoscaler is another one than before, or has another spec. API servers before 1.37
// do not count that in its generation, so specs are compared.
func respecified(before, after plan.Object) bool {
	was, _ := before.(*autoscalingv2.HorizontalPodAutoscaler)
	is, _ := after.(*autoscalingv2.HorizontalPodAutoscaler)
	return was == nil || is == nil || was.UID != is.UID || !equality.Semantic.DeepEqual(was.Spec, is.Spec)
}

// schedule says when the autoscalers of a namespace are evaluated: all at the same time, once in a period, so that
// they can share what is read of the metrics. Namespaces have different times, so that the requests are spread over
// the period.
type schedule struct{ Period time.Duration }

// early is how much too early an evaluation may be and still be that of the next period: timers do not follow when
// the clock is set back a little. Otherwise, it would take the answers of the period before, and be repeated at once.
func (r schedule) early() time.Duration { return min(50*time.Millisecond, r.Period/10) }

// slot returns the number of the period in which a namespace is at a time.
func (r schedule) slot(now time.Time, namespace string) int64 {
	return (now.Add(r.early()).UnixNano() - r.phase(namespace)) / int64(r.Period)
}

// wait returns how long it takes until the next evaluation. It is more than zero and little more than a period at most.
func (r schedule) wait(now time.Time, namespace string) time.Duration {
	left := r.Period - time.Duration((now.UnixNano()-r.phase(namespace))%int64(r.Period))
	if left <= r.early() {
		left += r.Period
	}
	return left
}

// phase is how much of a period it takes until it is the turn of a namespace. It follows from the name.
func (r schedule) phase(namespace string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(namespace))
	return int64(h.Sum64() % uint64(r.Period))
}
