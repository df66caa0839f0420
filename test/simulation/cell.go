package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// The steps of a cell. Besides there is the arrival of an event, by the name of its resource.
const (
	user  = "user"  // users do the next thing
	ready = "ready" // the oldest pod that is not ready becomes ready
	gone  = "gone"  // the oldest pod that is to go is gone
	crash = "crash" // the manager dies, and another one begins
	tick  = "tick"  // a second goes by
)

// seenBy are the resources whose events arrive when told to.
var seenBy = [3]string{"deployments", "replicasets", "pods"}

// cell is a world in which nothing happens unless told to.
type cell struct {
	*world
	ctx     context.Context
	lines   []script.Line
	crashes int
	cancel  context.CancelFunc
	ended   chan struct{}

	mu      sync.Mutex
	allowed map[string]uint64 // the version up to which events arrive
	changed chan struct{}
}

func newCell(ctx context.Context, s Scenario, registry func() []manager.Controller) *cell {
	small := script.Script{Settings: map[string]string{"elect": "0", "workers": "1"}}
	c := &cell{
		world: newWorld(small, registry), ctx: ctx, lines: s.Lines, crashes: s.Crashes,
		allowed: map[string]uint64{}, changed: make(chan struct{}),
	}
	c.only = map[string]bool{"deployment-controller": true, "replicaset-controller": true}
	c.start()
	return c
}

// start lets a manager begin. Its caches begin with what there is.
func (c *cell) start() {
	for _, resource := range seenBy {
		c.allowed[resource] = c.server.Version()
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.cancel, c.ended = cancel, make(chan struct{})
	p := &process{world: c.world, name: "m0"}
	p.lives = 1
	client := &apiserver.Client{Server: c.server, Name: "m0.1", Network: c, Served: c.record.served}
	go func() {
		defer close(c.ended)
		if err := p.run(ctx, client); err != nil {
			c.record.violation("the manager ended: %v", err)
		}
	}()
	time.Sleep(2 * time.Second) // its caches fill by the clock
	synctest.Wait()
}

func (c *cell) end() {
	c.cancel()
	<-c.ended
}

// Send implements apiserver.Network.
func (c *cell) Send(ctx context.Context, _ apiserver.Request) error { return ctx.Err() }

// Receive implements apiserver.Network.
func (c *cell) Receive(context.Context, apiserver.Request, error) error { return nil }

// Webhook implements apiserver.Network.
func (c *cell) Webhook(apiserver.Request) func(context.Context) error { return nil }

// Watching implements apiserver.Network.
func (c *cell) Watching(r apiserver.Request) apiserver.Channel { return &gate{c, r.Resource} }

// gate lets events of a resource through up to the version that is allowed.
type gate struct {
	*cell
	resource string
}

// Due implements apiserver.Channel.
func (g *gate) Due(e *apiserver.Event) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.Version <= g.allowed[g.resource] {
		return e.Time
	}
	return time.Time{}
}

// Changed implements apiserver.Channel.
func (g *gate) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// CaughtUp implements apiserver.Channel.
func (g *gate) CaughtUp() {}

// Cut implements apiserver.Channel.
func (g *gate) Cut() error { return nil }

// choices are the steps that are possible now.
func (c *cell) choices() (steps []string) {
	for _, resource := range seenBy {
		if len(c.server.Since(resource, c.allowed[resource])) > 0 {
			steps = append(steps, resource)
		}
	}
	if c.oldest(starting) != nil {
		steps = append(steps, ready)
	}
	if c.oldest(ending) != nil {
		steps = append(steps, gone)
	}
	if len(c.lines) > 0 {
		steps = append(steps, user)
	}
	if c.crashes > 0 && len(steps) > 0 {
		steps = append(steps, crash)
	}
	return steps
}

// step does one of them, and waits until the manager has done everything that follows from it.
func (c *cell) step(name string) {
	switch name {
	case user:
		if len(c.lines) == 0 {
			return
		}
		c.do(c.lines[0])
		c.lines = c.lines[1:]
	case ready:
		c.editPod(c.oldest(starting), func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.Now().Rfc3339Copy()}}
		})
	case gone:
		p := c.oldest(ending)
		if p == nil {
			return
		}
		_, _ = c.server.Do(apiserver.Write{By: "kubelet", Verb: apiserver.Delete, Resource: "pods", Namespace: p.Namespace, Name: p.Name,
			Options: metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}})
	case crash:
		c.crashes--
		c.end()
		c.start()
	case tick:
		time.Sleep(time.Second)
	default:
		c.deliver(name)
	}
	c.bind()
	synctest.Wait()
}

// deliver lets the next event of a resource arrive.
func (c *cell) deliver(resource string) {
	next := c.server.Since(resource, c.allowed[resource])
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(next) > 0 {
		c.allowed[resource] = next[0].Version
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// bind assigns all pods to a node, so that their end takes a step of its own.
func (c *cell) bind() {
	synctest.Wait()
	for _, p := range apiserver.All[*corev1.Pod](c.server) {
		if p.Spec.NodeName == "" {
			_, _ = actors.Edit(c.server, "scheduler", p.Namespace, p.Name, "", func(p *corev1.Pod) { p.Spec.NodeName = "node-0" })
		}
	}
}

func (c *cell) editPod(p *corev1.Pod, edit func(*corev1.Pod)) {
	if p != nil {
		_, _ = actors.Edit(c.server, "kubelet", p.Namespace, p.Name, "status", edit)
	}
}

func starting(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && len(p.Status.Conditions) == 0 && actors.Character(p) != actors.Bad
}

func ending(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }

// oldest returns the pod that was created first, of those that fit.
func (c *cell) oldest(fits func(*corev1.Pod) bool) (found *corev1.Pod) {
	order := c.order()
	for _, p := range apiserver.All[*corev1.Pod](c.server) {
		if fits(p) && (found == nil || order[p.UID] < order[found.UID]) {
			found = p
		}
	}
	return found
}

// order numbers the pods as they were created.
func (c *cell) order() map[types.UID]int {
	order := map[types.UID]int{}
	for _, e := range c.server.Since("pods", 0) {
		if e.Before == nil {
			order[e.Object.GetUID()] = len(order)
		}
	}
	return order
}

// state is a number that stands for all objects, and all that the caches show, without what makes no difference: uids,
// versions, times, and the names of pods.
func (c *cell) state() uint64 {
	h := fnv.New64a()
	order := c.order()
	fmt.Fprintln(h, len(c.lines), c.crashes)
	for _, resource := range seenBy {
		for _, version := range []uint64{c.server.Version(), c.allowed[resource]} {
			var lines []string
			for _, o := range c.server.Past(resource, version) {
				lines = append(lines, essence(o, order))
			}
			slices.Sort(lines)
			fmt.Fprintln(h, resource, strings.Join(lines, "\n"))
		}
	}
	return h.Sum64()
}

// essence is an object as text, without what makes no difference.
func essence(o apiserver.Object, order map[types.UID]int) string {
	copied := o.DeepCopyObject().(apiserver.Object)
	if p, ok := copied.(*corev1.Pod); ok {
		p.Name = fmt.Sprint(order[p.UID])
		p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Image: p.Spec.Containers[0].Image}}, NodeName: p.Spec.NodeName}
	}
	for _, ref := range copied.GetOwnerReferences() {
		copied.SetLabels(mapsWith(copied.GetLabels(), "owner", ref.Name))
	}
	end := copied.GetDeletionTimestamp() != nil
	copied.SetOwnerReferences(nil)
	copied.SetUID("")
	copied.SetResourceVersion("")
	copied.SetCreationTimestamp(metav1.Time{})
	copied.SetDeletionTimestamp(nil)
	text, _ := json.Marshal(copied)
	var plain any
	_ = json.Unmarshal(text, &plain)
	dropTimes(plain)
	text, _ = json.Marshal(plain)
	return fmt.Sprint(end, string(text))
}

func mapsWith(m map[string]string, key, value string) map[string]string {
	with := map[string]string{key: value}
	for k, v := range m {
		with[k] = v
	}
	return with
}

// dropTimes removes all fields that are times.
func dropTimes(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if strings.HasSuffix(key, "Time") || strings.HasSuffix(key, "Timestamp") {
				delete(v, key)
				continue
			}
			dropTimes(inner)
		}
	case []any:
		for _, inner := range v {
			dropTimes(inner)
		}
	}
}
