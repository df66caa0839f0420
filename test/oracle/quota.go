package oracle

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// S25: no object is created above the hard limit that admission enforces, which is that of the status (RQ-57). Admission counts on
// what the status says is used; so when too many are created, somebody has lowered that too far. The oracle counts for itself: pods that
// have not ended and are not beyond their time (RQ-24), and the other objects that exist, of quotas without scopes. Excused for the lag
// of a manager are a limit that was just lowered and a quota that was just made: a request may have been admitted before.
func S25() Oracle {
	return Oracle{"S25", "nothing is admitted above the limit of a quota", func(j *judge) hooks {
		c := census{kinds: map[string]map[types.UID]Object{}, quotas: map[string]*limits{}}
		return hooks{after: func(r *revision) {
			if q, ok := r.Object.(*corev1.ResourceQuota); ok {
				c.applyQuota(r, q, j.now)
				return
			}
			names := countedAs[r.kind]
			if len(names) == 0 {
				return
			}
			c.apply(r)
			if r.Type == Added {
				j.admitted(r, names, &c)
			}
		}}
	}}
}

// countedAs are the names under which objects are counted.
var countedAs = map[string][]corev1.ResourceName{
	Pod: {"pods", "count/pods"}, ConfigMap: {"configmaps", "count/configmaps"}, Service: {"services", "count/services"},
	PersistentVolumeClaim: {"persistentvolumeclaims", "count/persistentvolumeclaims"}, Job: {"count/jobs.batch"},
	ReplicaSet: {"count/replicasets.apps"}, Deployment: {"count/deployments.apps"}, EndpointSlice: {"count/endpointslices.discovery.k8s.io"},
	Endpoints: {"count/endpoints"},
}

// census are the objects that exist, by kind and namespace, and the quotas.
type census struct {
	kinds  map[string]map[types.UID]Object
	quotas map[string]*limits // by key
}

type limits struct {
	*corev1.ResourceQuota
	tightened map[corev1.ResourceName]time.Time // when a limit was last made, or lowered
}

func (c *census) applyQuota(r *revision, q *corev1.ResourceQuota, now time.Time) {
	if r.Type == Deleted {
		delete(c.quotas, r.key)
		return
	}
	next := &limits{q, map[corev1.ResourceName]time.Time{}}
	before := c.quotas[r.key]
	for name, hard := range q.Status.Hard {
		next.tightened[name] = now
		if before == nil || before.UID != q.UID {
			continue
		}
		if old, ok := before.Status.Hard[name]; ok && old.Cmp(hard) <= 0 {
			next.tightened[name] = before.tightened[name]
		}
	}
	c.quotas[r.key] = next
}

func (c *census) apply(r *revision) {
	in := r.kind + "/" + r.Object.GetNamespace()
	if c.kinds[in] == nil {
		c.kinds[in] = map[types.UID]Object{}
	}
	if c.kinds[in][r.uid] = r.Object; r.Type == Deleted {
		delete(c.kinds[in], r.uid)
	}
}

// admitted judges the creation of an object.
func (j *judge) admitted(r *revision, names []corev1.ResourceName, c *census) {
	for _, q := range c.quotas {
		if q.Namespace != r.Object.GetNamespace() || len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue
		}
		for _, name := range names {
			hard, ok := q.Status.Hard[name]
			if !ok {
				continue
			}
			n := c.count(r.kind, q.Namespace, name, j.now)
			over := resource.NewQuantity(int64(n), resource.DecimalSI).Cmp(hard) > 0
			excused := !q.tightened[name].Before(j.now.Add(-j.o.Lag))
			if j.judges(excused && over); over && !excused {
				used := q.Status.Used[name]
				j.report(r, nil, "with it, quota %s has %d of %s %s; its status says that %s are used", q.Name, n, hard.String(), name, used.String())
			}
		}
	}
}

// count returns how many objects are charged to a name.
func (c *census) count(kind, namespace string, name corev1.ResourceName, now time.Time) (n int) {
	for _, o := range c.kinds[kind+"/"+namespace] {
		p, ok := o.(*corev1.Pod)
		if !ok || strings.HasPrefix(string(name), "count/") || charged(p, now) {
			n++
		}
	}
	return n
}

// charged reports whether a pod counts against what it asks for.
func charged(p *corev1.Pod, now time.Time) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	if p.DeletionTimestamp == nil || p.DeletionGracePeriodSeconds == nil {
		return true
	}
	// An instant earlier or later makes no difference to the rule.
	return !now.Add(2 * time.Second).After(p.DeletionTimestamp.Add(time.Duration(*p.DeletionGracePeriodSeconds) * time.Second))
}
