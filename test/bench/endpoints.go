package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

//lint:file-ignore SA1019 Endpoints are deprecated; their controller serves those who still use them

// endpointSizes are the sizes of the scenario.
type endpointSizes struct {
	services int // of one pod
	large    int // pods of one service beside them
	flips    int // changes of readiness, without and with changes of the large service's pods
}

// How many pods change their readiness, in a second.
const (
	flipRate  = 50
	churnRate = 20 // of the large service's
)

// endpoints measures the way from a pod's readiness to its service's Endpoints.
func endpoints(ctx context.Context, b *bench) error {
	sizes := endpointSizes{services: 300, large: 1000, flips: 600}
	if b.quick {
		sizes = endpointSizes{services: 100, large: 200, flips: 200}
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, raisedLimits(), func(s *session) error {
				f, err := newFlipper(ctx, p, sizes)
				if err != nil {
					return err
				}
				defer f.stop()
				return f.measure(ctx, b, t, s)
			})
		})
	})
}

// flipper changes the readiness of pods and sees when it arrives.
type flipper struct {
	sizes   endpointSizes
	clients []kubernetes.Interface
	ns      string
	pods    []*corev1.Pod // of the small services s0, s1, ...
	large   []*corev1.Pod
	arrival *arrival
	errs    collect
	stop    func()
}

// newFlipper makes services and their pods, all ready.
func newFlipper(ctx context.Context, p *plane, sizes endpointSizes) (f *flipper, err error) {
	f = &flipper{sizes: sizes, arrival: newArrival()}
	if f.clients, err = p.clients(kubeletConnections); err != nil {
		return nil, err
	}
	if f.ns, err = p.newNamespace(ctx); err != nil {
		return nil, err
	}
	list, err := p.client.CoreV1().Endpoints(f.ns).List(ctx, metav1.ListOptions{}) // none yet
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := watchFrom(ctx, list.ResourceVersion, p.client.CoreV1().Endpoints(f.ns).Watch)
	if err != nil {
		cancel()
		return nil, err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		f.errs.add(each(ctx, w, func(_ watch.EventType, e *corev1.Endpoints) { f.arrival.see(e, time.Now()) }))
	})
	f.stop = func() { cancel(); wg.Wait() }
	if err := f.populate(ctx); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

func (f *flipper) populate(ctx context.Context) error {
	f.pods = make([]*corev1.Pod, f.sizes.services)
	f.large = make([]*corev1.Pod, f.sizes.large)
	err := forEach(ctx, 16, f.sizes.services+1, func(ctx context.Context, worker, i int) error {
		name := fmt.Sprintf("s%d", i)
		if i == f.sizes.services {
			name = "large"
		}
		return makeService(ctx, f.client(worker), f.ns, name)
	})
	if err != nil {
		return err
	}
	return forEach(ctx, 16, f.sizes.services+f.sizes.large, func(ctx context.Context, worker, i int) (err error) {
		if i < f.sizes.services {
			f.pods[i], err = makeReadyPod(ctx, f.client(worker), loosePod(f.ns, fmt.Sprintf("p%d", i), fmt.Sprintf("s%d", i)), uint32(i))
			return err
		}
		i -= f.sizes.services
		f.large[i], err = makeReadyPod(ctx, f.client(worker), loosePod(f.ns, fmt.Sprintf("large-%d", i), "large"),
			uint32(f.sizes.services+i))
		return err
	})
}

func (f *flipper) client(worker int) kubernetes.Interface { return f.clients[worker%len(f.clients)] }

// measure flips pods of the small services, first alone, then while those of the large one change, too.
func (f *flipper) measure(ctx context.Context, b *bench, t turn, s *session) error {
	if err := until(ctx, "all Endpoints are there", 50*time.Millisecond, func() (bool, error) {
		return f.arrival.addresses() == f.sizes.services+f.sizes.large, errors.Join(f.errs.first(), s.manager.running())
	}); err != nil {
		return err
	}
	name := fmt.Sprintf("readiness of pods, %d services", f.sizes.services)
	if err := f.phase(ctx, b, t, s, name, nil); err != nil {
		return err
	}
	return f.phase(ctx, b, t, s, fmt.Sprintf("%s, while one of %d pods changes", name, f.sizes.large), f.churn)
}

// phase flips and keeps the figures.
func (f *flipper) phase(ctx context.Context, b *bench, t turn, s *session, name string, beside func(context.Context) error) error {
	if err := s.quiet(ctx); err != nil {
		return err
	}
	s.proxy.Reset()
	before, err := s.manager.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	ctx, stopBeside := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if beside != nil {
		wg.Go(func() { f.errs.add(beside(ctx)) })
	}
	wrote, err := f.flipAll(ctx, s)
	stopBeside()
	wg.Wait()
	if err != nil {
		return err
	}
	after, err := s.manager.cpu()
	if err != nil {
		return err
	}
	writes := countWrites(s.proxy.Requests())
	figures := append(latencies("from status to Endpoints", f.arrival.take()), latencies("API server's own time for the status", wrote)...)
	if beside == nil {
		figures = append(figures, millis("CPU of the manager for each change", (after-before)/time.Duration(f.sizes.flips)),
			count("writes", writes.writes))
	} else {
		figures = append(figures, seconds("CPU of the manager", after-before))
	}
	figures = append(figures, exactly("refused with 409", writes.conflicts, 0), exactly("writes without effect", writes.noOps, 0))
	b.keep(t, sample{Scenario: name, Began: began, Flags: s.flags, Figures: figures, Writes: writes.rows})
	return f.errs.first()
}

// flipAll changes one pod after another at the given rate and waits until all changes have arrived. It returns how long the
// API server took for each.
func (f *flipper) flipAll(ctx context.Context, s *session) (wrote []time.Duration, err error) {
	every := time.NewTicker(time.Second / flipRate)
	defer every.Stop()
	var mu sync.Mutex
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range f.sizes.flips {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-every.C:
		}
		n := i % f.sizes.services
		if err := f.settled(ctx, s, fmt.Sprintf("s%d", n)); err != nil {
			return nil, err
		}
		changed := flipped(f.pods[n])
		f.pods[n] = changed
		wg.Go(func() { // a slow answer must not delay the next change
			began := time.Now()
			f.arrival.expect(fmt.Sprintf("s%d", n), isReady(changed), began)
			f.errs.add(f.write(ctx, i, changed))
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			wrote = append(wrote, took)
		})
	}
	wg.Wait()
	return wrote, f.settled(ctx, s, "")
}

// settled waits until a service's changes, or all, have arrived.
func (f *flipper) settled(ctx context.Context, s *session, service string) error {
	return until(ctx, "changes of readiness have arrived", 5*time.Millisecond, func() (bool, error) {
		return f.arrival.arrived(service), errors.Join(f.errs.first(), s.manager.running())
	})
}

// flipped is a ready pod made unready, or the other way round.
func flipped(p *corev1.Pod) *corev1.Pod {
	changed := p.DeepCopy()
	changed.ResourceVersion = "" // nobody else writes the status
	status := corev1.ConditionTrue
	if isReady(p) {
		status = corev1.ConditionFalse
	}
	for i := range changed.Status.Conditions {
		if c := &changed.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.LastTransitionTime = status, metav1.Now()
		}
	}
	return changed
}

func (f *flipper) write(ctx context.Context, worker int, p *corev1.Pod) error {
	_, err := f.client(worker).CoreV1().Pods(f.ns).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	return err
}

// churn flips the large service's pods until the context ends.
func (f *flipper) churn(ctx context.Context) error {
	every := time.NewTicker(time.Second / churnRate)
	defer every.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		n := i % len(f.large)
		f.large[n] = flipped(f.large[n])
		if err := f.write(context.WithoutCancel(ctx), i, f.large[n]); err != nil {
			return err
		}
	}
}

// arrival knows which changes of readiness have not been seen in Endpoints yet. Each small service has one pod.
type arrival struct {
	mu      sync.Mutex
	waiting map[string]expected
	sizes   map[string]int // ready addresses by service
	took    []time.Duration
}

type expected struct {
	ready bool
	since time.Time
}

func newArrival() *arrival {
	return &arrival{waiting: map[string]expected{}, sizes: map[string]int{}}
}

// expect notes that a service's only pod is about to change.
func (a *arrival) expect(service string, ready bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[service] = expected{ready, now}
}

// see is told of each change of Endpoints.
func (a *arrival) see(e *corev1.Endpoints, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ready := 0
	for _, subset := range e.Subsets {
		ready += len(subset.Addresses)
	}
	a.sizes[e.Name] = ready
	if x, ok := a.waiting[e.Name]; ok && x.ready == (ready > 0) {
		a.took = append(a.took, now.Sub(x.since))
		delete(a.waiting, e.Name)
	}
}

// arrived tells whether nothing is expected of a service, or of any if it is empty.
func (a *arrival) arrived(service string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if service == "" {
		return len(a.waiting) == 0
	}
	_, waiting := a.waiting[service]
	return !waiting
}

// addresses is the number of ready ones in all Endpoints.
func (a *arrival) addresses() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, size := range a.sizes {
		n += size
	}
	return n
}

// take returns how long the changes took and forgets them.
func (a *arrival) take() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	took := a.took
	a.took = nil
	return took
}

// makeService makes a service that selects the pods with its name as app.
func makeService(ctx context.Context, client kubernetes.Interface, ns, name string) error {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Selector = map[string]string{appLabel: name}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}
	_, err := client.CoreV1().Services(ns).Create(ctx, s, metav1.CreateOptions{})
	return err
}

// loosePod is a pod without owner.
func loosePod(ns, name, app string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{appLabel: app}}}
	p.Spec.NodeName = "node-0"
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1",
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}
	return p
}

// makeReadyPods makes pods in a namespace that no controller looks after, each with a label of its own choice.
func (p *plane) makeReadyPods(ctx context.Context, ns string, count int, app func(pod int) string) ([]*corev1.Pod, error) {
	clients, err := p.clients(kubeletConnections)
	if err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, count)
	return pods, forEach(ctx, len(clients), count, func(ctx context.Context, worker, i int) (err error) {
		pods[i], err = makeReadyPod(ctx, clients[worker], loosePod(ns, fmt.Sprint("web-", i), app(i)), uint32(i))
		return err
	})
}

// makeReadyPod creates a pod and then sets it running and ready: the API server accepts no status with a new pod.
func makeReadyPod(ctx context.Context, client kubernetes.Interface, p *corev1.Pod, number uint32) (*corev1.Pod, error) {
	made, err := client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	made.Status = readyStatus(made, addressOf(number))
	return client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
}
