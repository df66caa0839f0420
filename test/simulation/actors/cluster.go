// Package actors plays what is around the controllers in a cluster: scheduler, kubelets, the controller that watches over
// nodes, the garbage collector and the namespace controller. All of them are one goroutine with an agenda, and what they
// decide depends on a seed and on the names of objects, not on the order of events: so a small difference between two
// runs stays small.
package actors

import (
	"container/heap"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// Cluster is everything around the controllers.
type Cluster struct {
	server *apiserver.Server
	seed   uint64

	agenda agenda
	order  int
	seen   map[string]uint64 // by resource: the version up to which changes were taken note of
	logged int               // and of how many changes of all kinds

	inbox chan func() // what others want to be done

	addresses int             // given to pods
	lost      map[string]bool // nodes whose kubelet does not work
	beating   map[string]bool // nodes whose kubelet renews its Lease
	collect   bool            // the garbage collector has an appointment
	looking   map[string]bool // nodes whose kubelet has an appointment to say which volumes it uses
	attacher  string          // what the external-attachers do, if they do not work
	hang      bool            // kubelets do not unmount

	// LeaveGarbage leaves garbage and namespaces that are being deleted to the managers. It is to be set before Run.
	LeaveGarbage bool
	// Pace is how long the scheduler takes for a pod, and each kubelet, which lets pods run and end at once. Without a pace they
	// take their time. It is to be set before Run.
	Pace time.Duration
	busy map[string]time.Time // by node: when its kubelet will have done all that it has to do
}

// New returns the surroundings of the controllers that work on the server.
func New(server *apiserver.Server, seed uint64) *Cluster {
	return &Cluster{
		server: server, seed: seed, seen: map[string]uint64{}, inbox: make(chan func(), 100),
		lost: map[string]bool{}, beating: map[string]bool{}, looking: map[string]bool{}, busy: map[string]time.Time{},
	}
}

// Run plays until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	for {
		changed := c.server.Changed()
		c.takeNote()
		wait := time.NewTimer(c.work())
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-changed:
		case do := <-c.inbox:
			do()
		case <-wait.C:
		}
		wait.Stop()
	}
}

// task is an entry of the agenda.
type task struct {
	at    time.Time
	order int // of those for the same moment the first one entered comes first
	do    func()
}

type agenda []task

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(task)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// Post lets something be done soon, by the one goroutine that does everything here. It may be called by any.
func (c *Cluster) Post(do func()) { c.inbox <- do }

// After lets something be done later. Like all other methods but Post it is to be called before Run, or from what Run does.
func (c *Cluster) After(d time.Duration, do func()) { c.after(d, do) }

// after enters something into the agenda.
func (c *Cluster) after(d time.Duration, do func()) {
	c.order++
	heap.Push(&c.agenda, task{time.Now().Add(d), c.order, do})
}

// work does what is due and returns how long there is nothing to do.
func (c *Cluster) work() time.Duration {
	for len(c.agenda) > 0 {
		if wait := time.Until(c.agenda[0].at); wait > 0 {
			return wait
		}
		heap.Pop(&c.agenda).(task).do()
	}
	return time.Hour
}

// takeNote goes through what has changed since it did so last.
func (c *Cluster) takeNote() {
	for _, resource := range acted {
		for _, e := range c.server.Since(resource, c.seen[resource]) {
			c.seen[resource] = e.Version
			c.note(resource, e)
		}
	}
	for _, e := range c.server.Log(c.logged) {
		c.logged++
		if !slices.Contains(acted, e.Resource) && !slices.Contains(ignored, e.Resource) {
			c.noteOwnership(e)
		}
	}
}

// acted are the resources whose changes something other than garbage may follow from, in the order in which they are looked at.
var acted = []string{"nodes", "pods", "replicasets", "replicationcontrollers", "deployments", "daemonsets", "jobs", "namespaces",
	"persistentvolumeclaims", "persistentvolumes",
	"volumeattachments"}

// ignored are resources that change often, and neither own anything nor are owned.
var ignored = []string{"events", "leases"}

// delay draws a time for something that happens to an object: the same one in each run.
func (c *Cluster) delay(what, object string, least, most time.Duration) time.Duration {
	if c.Pace > 0 {
		return 0
	}
	return least + time.Duration(c.draw(what, object, uint64(most-least)+1))
}

// chance reports whether something is to happen to an object, with a probability of percent.
func (c *Cluster) chance(what, object string, percent uint64) bool {
	return c.draw(what, object, 100) < percent
}

func (c *Cluster) draw(what, object string, below uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s/%s", c.seed, what, object)
	x := h.Sum64()
	x ^= x >> 33 // fnv alone spreads its last bytes badly
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x % below
}

// Edit changes an object, whoever else changes it meanwhile. It reports whether the object was there.
func Edit[T apiserver.Object](s *apiserver.Server, by, namespace, name, subresource string, edit func(T)) (bool, error) {
	return editAny(s, by, apiserver.ResourceOf[T](s), namespace, name, subresource, func(o apiserver.Object) { edit(o.(T)) })
}

func editAny(s *apiserver.Server, by, resource, namespace, name, subresource string, edit func(apiserver.Object)) (bool, error) {
	for {
		old, err := s.Get(resource, namespace, name)
		if err != nil {
			return false, nil
		}
		o := old.DeepCopyObject().(apiserver.Object)
		edit(o)
		_, err = s.Do(apiserver.Write{By: by, Verb: apiserver.Update, Resource: resource, Object: o, Subresource: subresource})
		switch {
		case apierrors.IsConflict(err):
			continue
		case apierrors.IsNotFound(err):
			return false, nil
		}
		return true, err
	}
}

// remove deletes an object if it is still the same.
func (c *Cluster) remove(by, resource string, o apiserver.Object, opts metav1.DeleteOptions) {
	uid := o.GetUID()
	opts.Preconditions = &metav1.Preconditions{UID: &uid}
	_, _ = c.server.Do(apiserver.Write{By: by, Verb: apiserver.Delete, Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName(),
		Options: opts})
}
