package podgc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/engine"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// name is that of the queue in metrics (CI-33, PGC-22).
	name = "orphaned_pods_nodes"
	// liveReads is how many nodes one look reads live at most, and liveAtOnce how many at the same time.
	liveReads, liveAtOnce = 100, 8
	// readTimeout bounds one live read, so that a server that hangs cannot hold up the rule for ever.
	readTimeout = 30 * time.Second
)

// Init builds the pod garbage collector.
func Init(c manager.Context) (manager.Runner, error) {
	pods, err1 := informers.EndingPods(c.Informers)
	nodes, err2 := informers.Nodes(c.Informers)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	config := c.Config.PodGC
	g := &collector{
		pods: pods, nodes: nodes, api: c.Access.API, metrics: newCollectors(),
		policy: policy{
			threshold: config.TerminatedThreshold, perNamespace: config.TerminatedThresholdPerNamespace,
			maxAge: config.TerminatedMaxAge, brake: config.OrphanBrake,
		},
	}
	rules := []plan.Key{{Name: terminated}, {Name: outOfService}, {Name: orphaned}, {Name: unscheduled}}
	runner := engine.New(c.Shared, c.Access, engine.Controller[snapshot]{
		Name:    name,
		Workers: len(rules), // none waits for another
		Watches: []engine.Watch{ // nothing is done before both are filled (PGC-28); else time is what wakes a rule
			{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Informer: pods.Informer(), Wakes: nobody},
			{Kind: corev1.SchemeGroupVersion.WithKind("Node"), Informer: nodes.Informer(), Wakes: g.comingOrGoing, Delay: time.Second},
		},
		Seeds:   rules,
		Cycle:   cycle, // PGC-3
		Observe: g.observe,
		Plan:    planPods,
		Measure: g.measure,
	})
	g.runner, g.pulse = runner, runner.Pulse
	return g, nil
}

// collector is the controller with what it looks at and what it remembers.
type collector struct {
	runner  manager.Runner
	pulse   func() engine.Pulse // of the runner
	pods    informers.EndingPodCache
	nodes   informers.NodeCache
	api     engine.API
	policy  policy
	metrics collectors

	memory memory    // of the rule orphaned, which the engine never works on twice at once
	braked brakeKind // as the last look found it
	back   names     // of nodes that have come since the last look
}

// names are collected by event handlers for the next look.
type names struct {
	mu  sync.Mutex
	all []string
}

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, name)
}

func (n *names) take() (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, n.all = n.all, nil
	return all
}

// Run works until ctx ends. It begins with an empty memory: what it remembers from an earlier term as leader says
// nothing about the nodes of today.
func (g *collector) Run(ctx context.Context) error {
	g.memory, g.braked = memory{}, released
	g.back.take()
	g.metrics.brake.Set(0)
	return g.runner.Run(ctx)
}

// Pulse tells how the collector does.
func (g *collector) Pulse() engine.Pulse { return g.pulse() }

// Metrics lists the controller's own metrics, for whoever serves them.
func (g *collector) Metrics() []metrics.Registerable { return g.metrics.all() }

func nobody(plan.Object, plan.Object) []plan.Key { return nil }

// comingOrGoing lets the quarantine of a node begin when it has gone, and end when it is back, and not up to a cycle later: a
// node that is there for a moment only, even between two looks, has to begin its quarantine anew.
func (g *collector) comingOrGoing(before, after plan.Object) []plan.Key {
	if before != nil && after != nil {
		return nil
	}
	if before == nil {
		g.back.add(after.GetName())
	}
	return []plan.Key{{Name: orphaned}}
}

// observe finds the pods that a rule may have to do with.
func (g *collector) observe(ctx context.Context, key plan.Key) (snapshot, bool, error) {
	s := snapshot{rule: key.Name, policy: g.policy}
	switch key.Name {
	case terminated:
		if n := g.pods.FinishedCount(); g.policy.idle(n) {
			s.kept = n
		} else {
			s.pods = g.pods.Finished()
		}
	case unscheduled:
		s.pods = g.pods.Terminating()
	case outOfService:
		s.pods = g.pods.Terminating()
		s.nodes = map[string]*corev1.Node{}
		for _, p := range s.pods {
			if node := g.nodes.Get(p.Spec.NodeName); node != nil { // nil is the ordinary case of other rules (PGC-26)
				s.nodes[node.Name] = node
			}
		}
	case orphaned:
		g.observeOrphans(ctx, time.Now(), &s)
	}
	return s, true, nil
}

// observeOrphans finds the pods on nodes that are gone: missing for the time of the quarantine, not held back by the
// brake, and not there when read live (PGC-9, PGC-10).
func (g *collector) observeOrphans(ctx context.Context, now time.Time, s *snapshot) {
	for _, name := range g.back.take() {
		g.memory.release(name)
	}
	used := g.pods.NodesInUse()
	if g.memory.began.IsZero() {
		g.memory.begin(now, slices.DeleteFunc(slices.Clone(used), func(name string) bool { return !proven(g.pods.OnNode(name)) }))
	}
	s.census = g.memory.count(now, g.nodes.Names(), used)
	if s.census.missing > 0 { // else nothing waits for the brake
		s.brake = s.census.checkShare(s.policy.brake)
	}
	if s.brake.kind == released && len(s.census.due) > 0 {
		s.brake = g.prove(ctx, s)
	}
	g.tellBrake(ctx, s)
	if s.brake.kind != released {
		return // the names stay due
	}
	var due []string
	var pods [][]*corev1.Pod
	due, pods, s.unread = g.batchOf(s.census.due)
	s.gone = map[string]bool{}
	for i, gone := range g.readLive(ctx, due) {
		if gone {
			s.gone[due[i]] = true
			s.pods = append(s.pods, pods[i]...)
		}
		if !gone { // the others stay due until no pod is left that could be removed
			g.memory.release(due[i])
		}
	}
}

// proven reports whether one of the pods was once run: its node was there then.
func proven(pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.Status.Phase != "" && p.Status.Phase != corev1.PodPending || len(p.Status.PodIPs) > 0
	})
}

// batchOf returns the first of the nodes that are due, and their pods, as much as one look may take on, and how many
// nodes are left. It is done before the nodes are read live, so that no pod is among them that was bound to a new node
// of that name. Nodes whose pods need nothing are released unread.
func (g *collector) batchOf(names []string) (due []string, pods [][]*corev1.Pod, left int) {
	n := 0
	for i, name := range names {
		on := slices.DeleteFunc(g.pods.OnNode(name), leaving)
		if len(due) == liveReads || n > 0 && n+len(on) > batch {
			return due, pods, len(names) - i
		}
		if len(on) == 0 {
			g.memory.release(name)
			continue
		}
		n += len(on)
		due, pods = append(due, name), append(pods, on)
	}
	return due, pods, 0
}

// prove reports whether the cache shows the nodes that there are. It is asked only when orphans are due, as it lists the
// metadata of all nodes, and not at all when there is no brake.
func (g *collector) prove(ctx context.Context, s *snapshot) brake {
	if s.policy.brake <= 0 || s.census.small() {
		return brake{}
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	kind, err := engine.KindOf(&corev1.Node{})
	if err != nil {
		return brake{notProved, err.Error()}
	}
	found, err := g.api.List(ctx, kind, "", "")
	switch {
	case apierrors.IsForbidden(err): // a role of somebody's own, without it: each node is still read live
		klog.FromContext(ctx).V(1).Info("The cache of nodes cannot be compared with the server, as the role does not allow to list nodes")
		return brake{}
	case err != nil:
		return brake{notProved, fmt.Sprintf("the nodes cannot be listed: %v", err)}
	}
	live := make([]string, len(found))
	for i := range found {
		live[i] = found[i].Name
	}
	return checkNames(live, g.nodes.Names())
}

// tellBrake says so when the brake goes on or off.
func (g *collector) tellBrake(ctx context.Context, s *snapshot) {
	before := g.braked
	g.braked = s.brake.kind
	g.metrics.brake.Set(0)
	if g.braked != released {
		g.metrics.brake.Set(1)
	}
	if before == g.braked {
		return
	}
	logger := klog.FromContext(ctx)
	if g.braked == released {
		logger.Info("Orphaned pods are deleted again", "known", s.census.known, "vanished", s.census.vanished)
		return
	}
	logger.Info("Orphaned pods are not deleted for now", "why", s.brake.why, "nodesDue", len(s.census.due))
}

// readLive asks the server for nodes, and reports which of them it does not know (PGC-10). A node that could not be read
// is not gone.
func (g *collector) readLive(ctx context.Context, names []string) []bool {
	gone := make([]bool, len(names))
	kind, err := engine.KindOf(&corev1.Node{})
	if err != nil {
		return gone
	}
	slots := make(chan struct{}, liveAtOnce)
	var all sync.WaitGroup
	for i := range names {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			_, err := g.api.Get(ctx, kind, "", names[i])
			gone[i] = apierrors.IsNotFound(err)
			if err != nil && !gone[i] {
				klog.FromContext(ctx).Info("A node cannot be read, its pods stay", "node", names[i], "err", err.Error())
			}
		})
	}
	all.Wait()
	return gone
}

// measure counts and logs what became of the pods (PGC-20, PGC-21, PGC-25).
func (g *collector) measure(s snapshot, did plan.Outcome) {
	logger := klog.LoggerWithName(klog.Background(), name)
	tried, failed := 0, 0
	var first error
	for _, r := range did.Results {
		if r.Verb == plan.Changed && r.Err == nil {
			continue // its deletion follows, and counts
		}
		if errors.Is(r.Err, engine.ErrNotLeading) || errors.Is(r.Err, context.Canceled) {
			continue // not tried
		}
		tried++
		namespace := r.Object.GetNamespace()
		g.metrics.deletions.WithLabelValues(namespace, s.rule).Inc()
		pod := klog.KObj(r.Object)
		switch {
		case r.Err == nil:
			logger.V(2).Info("Forced deletion of Pod succeeded", "reason", s.rule, "pod", pod)
		case stale(r.Err):
			logger.V(2).Info("Pod has changed, is looked at again", "reason", s.rule, "pod", pod)
		default:
			failed++
			if first == nil {
				first = r.Err
			}
			g.metrics.errors.WithLabelValues(namespace, s.rule).Inc()
			logger.V(2).Info("Forced deletion of Pod failed", "reason", s.rule, "pod", pod, "err", r.Err.Error())
		}
	}
	if tried == 0 {
		return
	}
	values := []any{"reason", s.rule, "count", tried, "failed", failed}
	if first != nil {
		values = append(values, "err", first.Error())
	}
	logger.Info("Garbage collecting pods", slices.Clip(values)...)
}

// stale reports whether a write was refused because the pod is not what the cache showed: it is met again, as it is by
// then, in the next cycle.
func stale(err error) bool {
	return errors.Is(err, plan.ErrStale) || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}
