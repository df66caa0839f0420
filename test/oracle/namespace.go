package oracle

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// admits is how long after the deletion of a namespace objects may still come into it (NS-4).
const admits = 5 * time.Second

// NamespacesEndEmpty is S17: a namespace is released no sooner than five seconds after the beginning of its deletion (NS-4), when there is
// nothing in it (NS-36), and after a round that has listed each kind since the last object went (NS-28). Nothing is stored in it
// afterwards: a request that was admitted before the deletion may wait for less than these five seconds. Of the objects that went, only
// those count for the round that an earlier list could show; others may come and go during the round. A release by others is not judged,
// and of kinds that are not recorded, or that the controller has never listed in the namespace, nothing is known. Without requests for
// lists, rounds are not judged.
func NamespacesEndEmpty() Oracle {
	return Oracle{"S17", "a namespace is released late enough, empty, and after a complete round", func(j *judge) hooks {
		n := &namespaceJudge{judge: j, named: map[string]*tenancy{}, lists: map[string]map[string][]time.Time{}}
		for _, q := range j.requests {
			if q.Verb == "list" && q.Namespace != "" && q.Succeeded() && q.manager && isOf(q.Request, namespaceAccount) {
				if n.lists[q.Namespace] == nil {
					n.lists[q.Namespace] = map[string][]time.Time{}
				}
				n.lists[q.Namespace][q.Resource] = append(n.lists[q.Namespace][q.Resource], q.Received)
			}
		}
		return hooks{before: n.before, after: n.after}
	}}
}

const namespaceAccount = "namespace-controller"

type namespaceJudge struct {
	*judge
	named map[string]*tenancy
	lists map[string]map[string][]time.Time // when the controller has listed a resource, by namespace and resource, in order
}

// tenancy is what is known of the namespaces of one name.
type tenancy struct {
	released bool      // by the manager
	deleting time.Time // since when the one that exists is being deleted
	objects  map[types.UID]*tenant
	went     []*tenant // since the present one was made
}

// tenant is an object in a namespace.
type tenant struct {
	id, resource string
	born, gone   time.Time
}

func (n *namespaceJudge) of(name string) *tenancy {
	t := n.named[name]
	if t == nil {
		t = &tenancy{objects: map[types.UID]*tenant{}}
		n.named[name] = t
	}
	return t
}

func (n *namespaceJudge) before(r *revision) {
	before, known := r.old.(*corev1.Namespace)
	if !known || r.Injected || !slices.Contains(before.Spec.Finalizers, corev1.FinalizerKubernetes) || r.by != nil && !r.by.manager {
		return
	}
	if r.Type == Deleted || !slices.Contains(r.Object.(*corev1.Namespace).Spec.Finalizers, corev1.FinalizerKubernetes) {
		n.released(r)
	}
}

func (n *namespaceJudge) released(r *revision) {
	t := n.of(r.Object.GetName())
	t.released = true
	n.judges(false)
	if !r.When.IsZero() && n.now.Before(t.deleting.Add(admits-n.o.Slack)) {
		n.report(r, nil, "released %v after its deletion", n.now.Sub(t.deleting))
	}
	var left []string
	for _, o := range t.objects {
		left = append(left, o.id)
	}
	if slices.Sort(left); len(left) > 0 {
		n.report(r, left, "released though there are %s", strings.Join(left, ", "))
	}
	last := map[string]time.Time{}
	for resource, times := range n.lists[r.Object.GetName()] {
		if at, listed := latest(times, n.now); listed {
			last[resource] = at
		}
	}
	for _, o := range t.went {
		before, shown := latest(n.lists[r.Object.GetName()][o.resource], o.gone)
		if !shown || before.Before(o.born) {
			continue
		}
		for _, resource := range slices.Sorted(maps.Keys(last)) {
			if recordedKind(resource) && last[resource].Before(o.gone.Add(-n.o.Slack)) {
				n.report(r, []string{o.id}, "released though %s were listed %v before the release, and %s went %v before it",
					resource, n.now.Sub(last[resource]), o.id, n.now.Sub(o.gone))
				return
			}
		}
	}
}

// latest is the last of some times that is before another.
func latest(times []time.Time, before time.Time) (at time.Time, found bool) {
	i, _ := slices.BinarySearchFunc(times, before, time.Time.Compare)
	if i == 0 {
		return time.Time{}, false
	}
	return times[i-1], true
}

// recordedKind reports whether a resource is of a kind that oracles read. Others may vanish.
func recordedKind(resource string) bool {
	for _, known := range resources {
		if known == resource {
			return true
		}
	}
	return false
}

func (n *namespaceJudge) after(r *revision) {
	if ns, ok := r.Object.(*corev1.Namespace); ok {
		t := n.of(ns.Name)
		if r.Type == Added {
			t.went, t.deleting, t.released = nil, time.Time{}, false
		}
		t.deleting = since(t.deleting, ns, n.now)
		if r.Injected && r.Type == Added && ns.DeletionTimestamp != nil { // it was deleted before the recording began
			t.deleting = ns.DeletionTimestamp.Time
		}
		return
	}
	if r.Object.GetNamespace() == "" {
		return
	}
	t := n.of(r.Object.GetNamespace())
	o := t.objects[r.uid]
	if o == nil {
		o = &tenant{id: r.kind + "/" + r.key, resource: resources[r.kind], born: n.now}
		if t.released && r.Type == Added {
			n.judges(false)
			n.report(r, []string{Namespace + "//" + r.Object.GetNamespace()}, "stored in a namespace that was released")
		}
	}
	if t.objects[r.uid] = o; r.Type == Deleted {
		o.gone = n.now
		t.went = append(t.went, o)
		delete(t.objects, r.uid)
	}
}
