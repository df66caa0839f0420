package oracle

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// QuotasHold is S25: no object is created above the hard limit that admission enforces, which is that of the status (RQ-57). Admission
// counts on what the status says is used; so when too many are created, somebody has lowered that too far. The oracle counts and sums for
// itself: pods that have not ended and are not beyond their time (RQ-24), with what their containers ask for (RQ-25, RQ-26), the storage of
// claims (RQ-29), and the other objects that exist, in the scopes of the quota (RQ-27). A sum is the least that is charged: what else a pod
// may cost, as overhead, is left out. Excused for the lag of a manager are a limit that was just lowered, a quota that was just made, and a
// pod that has just come into a scope: a request may have been admitted before. Quotas with other scopes than those of time and quality are
// not judged.
func QuotasHold() Oracle {
	return Oracle{"S25", "nothing is admitted above the limit of a quota", func(j *judge) hooks {
		c := census{kinds: map[string]map[types.UID]Object{}, quotas: map[string]*limits{}}
		return hooks{after: func(r *revision) {
			if q, ok := r.Object.(*corev1.ResourceQuota); ok {
				c.applyQuota(r, q, j.now)
				return
			}
			if _, counted := countedAs[r.kind]; !counted {
				return
			}
			c.apply(r, j.now)
			if r.Type == Added {
				j.admitted(r, &c)
			}
		}}
	}}
}

// countedAs are the names under which objects are counted.
var countedAs = map[string][]corev1.ResourceName{
	Pod: {"pods", "count/pods"}, ConfigMap: {"configmaps", "count/configmaps"}, Service: {"services", "count/services"},
	PersistentVolumeClaim: {"persistentvolumeclaims", "count/persistentvolumeclaims"}, Job: {"count/jobs.batch"},
	ReplicaSet: {"count/replicasets.apps"}, Deployment: {"count/deployments.apps"},
	EndpointSlice: {"count/endpointslices.discovery.k8s.io"},
	Endpoints:     {"count/endpoints"},
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

func (c *census) apply(r *revision, now time.Time) {
	in := r.kind + "/" + r.Object.GetNamespace()
	if c.kinds[in] == nil {
		c.kinds[in] = map[types.UID]Object{}
	}
	if c.kinds[in][r.uid] = r.Object; r.Type == Deleted {
		delete(c.kinds[in], r.uid)
	}
	p, ok := r.Object.(*corev1.Pod)
	old, known := r.old.(*corev1.Pod)
	if !ok || !known || limited(old) == limited(p) {
		return
	}
	for _, q := range c.quotas {
		for name := range q.tightened {
			if q.Namespace == p.Namespace && len(q.Spec.Scopes) > 0 {
				q.tightened[name] = now // it has come into a scope, perhaps
			}
		}
	}
}

// admitted judges the creation of an object.
func (j *judge) admitted(r *revision, c *census) {
	for _, q := range c.quotas {
		if q.Namespace != r.Object.GetNamespace() || q.Spec.ScopeSelector != nil || !inScopes(q.Spec.Scopes, r.Object) {
			continue
		}
		for name, hard := range q.Status.Hard {
			if cost := charge(r.Object, name, j.now); cost.IsZero() {
				continue
			}
			sum := resource.Quantity{}
			for _, o := range c.kinds[r.kind+"/"+q.Namespace] {
				if inScopes(q.Spec.Scopes, o) {
					sum.Add(charge(o, name, j.now))
				}
			}
			excused := !q.tightened[name].Before(j.now.Add(-j.o.Lag))
			if j.judges(excused); sum.Cmp(hard) > 0 && !excused {
				used := q.Status.Used[name]
				j.report(r, nil, "with it, quota %s has %s of %s %s; its status says that %s are used", q.Name, sum.String(), hard.String(),
					name, used.String())
			}
		}
	}
}

// charge is the least that an object costs of a name.
func charge(o Object, name corev1.ResourceName, now time.Time) resource.Quantity {
	p, isPod := o.(*corev1.Pod)
	switch {
	case slices.Contains(countedAs[kindOf(o)], name):
		if isPod && name == corev1.ResourcePods && !charged(p, now) {
			return resource.Quantity{}
		}
		return *resource.NewQuantity(1, resource.DecimalSI)
	case isPod && charged(p, now):
		return asked(p, name)
	case name == corev1.ResourceRequestsStorage:
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
			return claim.Spec.Resources.Requests[corev1.ResourceStorage]
		}
	}
	return resource.Quantity{}
}

// asked is what the containers of a pod ask for under a name, or the largest of those that run before them.
func asked(p *corev1.Pod, name corev1.ResourceName) (sum resource.Quantity) {
	of := func(c corev1.Container) resource.Quantity {
		if what, limit := strings.CutPrefix(string(name), "limits."); limit {
			return c.Resources.Limits[corev1.ResourceName(what)]
		}
		return c.Resources.Requests[corev1.ResourceName(strings.TrimPrefix(string(name), "requests."))]
	}
	for _, c := range p.Spec.Containers {
		sum.Add(of(c))
	}
	for _, c := range p.Spec.InitContainers {
		if q := of(c); q.Cmp(sum) > 0 {
			sum = q
		}
	}
	return sum
}

// limited reports whether a pod may run only for some time.
func limited(p *corev1.Pod) bool { return p.Spec.ActiveDeadlineSeconds != nil }

// inScopes reports whether an object is in all of these scopes. Of those that are not judged, nothing is.
func inScopes(scopes []corev1.ResourceQuotaScope, o Object) bool {
	p, ok := o.(*corev1.Pod)
	for _, scope := range scopes {
		in := false
		switch {
		case !ok:
		case scope == corev1.ResourceQuotaScopeTerminating:
			in = limited(p)
		case scope == corev1.ResourceQuotaScopeNotTerminating:
			in = !limited(p)
		case scope == corev1.ResourceQuotaScopeBestEffort:
			in = bestEffort(p)
		case scope == corev1.ResourceQuotaScopeNotBestEffort:
			in = !bestEffort(p)
		}
		if !in {
			return false
		}
	}
	return true
}

// bestEffort reports whether a pod asks for neither processors nor memory.
func bestEffort(p *corev1.Pod) bool {
	asks := func(c corev1.Container) bool {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if q := list[name]; !q.IsZero() {
					return true
				}
			}
		}
		return false
	}
	return p.Spec.Resources == nil && !slices.ContainsFunc(p.Spec.Containers, asks) && !slices.ContainsFunc(p.Spec.InitContainers, asks)
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
