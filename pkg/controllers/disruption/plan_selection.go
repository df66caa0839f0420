package disruption

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// mostLater is how many pods of a selection may have changed before all of it is copied.
const mostLater = 256

// selection is what a budget counts of the pods that it selects. It is never changed: a change of a few pods makes a
// new one, which shares most of the old one, so that it costs what has changed and not what is selected.
type selection struct {
	Budget string                          // uid and generation of the budget whose selector it was
	Pods   cowmap.Map[string, selectedPod] // by name
	Counts counts
}

// selectedPod is what counts of a pod.
type selectedPod struct {
	Ready bool // and not being deleted (DIS-22)
	Owner types.UID
}

// counts are what the pods of a selection add up to.
type counts struct {
	Pods      int // whatever their phase (DIS-10)
	Ready     int // of them, those that are not being deleted either
	Unmanaged int // pods that no owner controls (DIS-14)
	Owners    map[types.UID]owner
}

// owner is a controlling owner of pods.
type owner struct {
	Ref  metav1.OwnerReference
	Pods int // that it controls
}

// newSelection counts all pods. Of several pods of a name the first counts: one that changes while the cache is read
// may be found twice.
func newSelection(budget string, pods []*corev1.Pod) *selection {
	s := &selection{Budget: budget, Counts: counts{Owners: map[types.UID]owner{}}}
	all := make(map[string]selectedPod, len(pods))
	for _, p := range pods {
		if _, counted := all[p.Name]; counted {
			continue
		}
		all[p.Name] = lookAt(p)
		s.Counts.add(p)
	}
	s.Pods = cowmap.Of(all)
	return s
}

// with returns the selection after changes of some pods, by their names; nil stands for one that is not selected, or
// gone.
func (s *selection) with(changed map[string]*corev1.Pod) *selection {
	after := &selection{Budget: s.Budget, Pods: s.Pods.Clone(), Counts: s.Counts}
	cloned := false // the owners are still those of s
	for name, p := range changed {
		before, known := s.Pods.Get(name)
		switch {
		case p != nil && known && before.Owner == controllerOf(p): // nothing but its readiness may have changed
			after.Counts.Ready += lookAt(p).ready() - before.ready()
			after.Pods.Set(name, lookAt(p))
			continue
		case p == nil && !known:
			continue
		}
		if !cloned {
			after.Counts.Owners, cloned = maps.Clone(s.Counts.Owners), true
		}
		if known {
			after.Counts.remove(before)
			after.Pods.Delete(name)
		}
		if p != nil {
			after.Counts.add(p)
			after.Pods.Set(name, lookAt(p))
		}
	}
	if len(after.Pods.Later) > mostLater {
		after.Pods = cowmap.Of(maps.Collect(after.Pods.All()))
	}
	return after
}

// ready is how much the pod adds to the number of those that are ready.
func (p selectedPod) ready() int {
	if p.Ready {
		return 1
	}
	return 0
}

// lookAt returns what counts of a pod.
func lookAt(p *corev1.Pod) selectedPod {
	return selectedPod{Ready: healthy(p), Owner: controllerOf(p)}
}

// healthy reports whether a pod is ready and not being deleted. Its phase does not matter (DIS-22).
func healthy(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && podutil.Ready(p) }

// controllerOf returns the uid of the controlling owner, empty if there is none.
func controllerOf(o metav1.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.UID
	}
	return ""
}

// add counts a pod that is selected from now on.
func (c *counts) add(p *corev1.Pod) {
	c.Pods++
	c.Ready += lookAt(p).ready()
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil || ref.UID == "" {
		c.Unmanaged++
		return
	}
	o, known := c.Owners[ref.UID]
	if !known {
		o.Ref = *ref
	}
	o.Pods++
	c.Owners[ref.UID] = o
}

// remove takes a pod out of the counts, as it was when it was counted.
func (c *counts) remove(p selectedPod) {
	c.Pods--
	c.Ready -= p.ready()
	o, managed := c.Owners[p.Owner]
	if !managed {
		c.Unmanaged--
		return
	}
	if o.Pods--; o.Pods == 0 {
		delete(c.Owners, p.Owner)
		return
	}
	c.Owners[p.Owner] = o
}
