package oracle

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NoPodBeyondReplicas is S1: a ReplicaSet whose replicas are constant has at no revision more active pods than that by its own creations;
// when replicas have changed, no more than the most since the generation that its status has observed (RS-25, RS-40; Anvil's ReplicaSet;
// Sieve's reference counts). Adopted pods may exceed it, and so may pods that a lower number leaves behind.
func NoPodBeyondReplicas() Oracle {
	return Oracle{"S1", "a ReplicaSet creates no pod beyond its replicas", func(j *judge) hooks {
		return hooks{after: func(r *revision) {
			p := j.pods[r.key]
			if r.kind != Pod || !r.manager || r.old != nil || p == nil || !p.counted {
				return
			}
			s := j.sets[p.controller]
			most := int32(0)
			for _, o := range s.open() {
				most = max(most, o.replicas)
			}
			n := s.active - j.given(s, j.lag(r, Pod))
			if j.judges(s.active > int(most) && n <= int(most)); n > int(most) {
				j.report(r, j.related(s), "%s of replicas %d now has %d active pods", s.Name, most, n)
			}
		}}
	}}
}

// NoDeletionOfNeededPods is S2: a ReplicaSet never deletes an active pod while it has no more active pods than replicas (RS-25, RS-40).
// Pods that the environment took a moment ago still count until the manager has replaced them: it may not know. What another controller may
// do, see others, is excused; while such a deletion is under way, the pod still counts.
func NoDeletionOfNeededPods() Oracle {
	return Oracle{"S2", "a ReplicaSet deletes no active pod that it needs", func(j *judge) hooks {
		type deletion struct {
			of   types.UID // the ReplicaSet
			when time.Time
		}
		var byOthers []deletion // of another controller, in order
		return hooks{before: func(r *revision) {
			p := j.pods[r.key]
			if r.kind != Pod || !r.manager || !r.goes() || p == nil || p.UID != r.uid || !p.counted {
				return
			}
			s := j.sets[p.controller]
			least := s.open()[0].replicas
			for _, o := range s.open() {
				least = min(least, o.replicas)
			}
			excused := j.others(p)
			byOthers = slices.DeleteFunc(byOthers, func(d deletion) bool { return d.when.Before(j.now.Add(-underWay)) })
			if j.judges(excused); excused {
				byOthers = append(byOthers, deletion{s.UID, j.now})
				return
			}
			n := s.active + j.taken(s, j.lag(r, Pod))
			for _, d := range byOthers {
				if d.of == s.UID {
					n++
				}
			}
			if n <= int(least) {
				j.report(r, j.related(s), "deleted while %s has %d active pods of %d replicas", s.Name, n, least)
			}
		}}
	}}
}

// underWay is how long after a deletion another controller of the process may not know of it: the answer is on its way, or the request of
// the other one was sent before it came.
const underWay = 500 * time.Millisecond

// DeletionsHitTheirPod is S3: each pod that the manager deletes was, at that revision, the pod with the uid that was meant, and the request
// carried a precondition that makes sure of it (RS-29 and PGC-18 know none: the original fails this; Anvil's rely condition). It had a
// controller that exists or did (of kinds that are not recorded, nothing is known), or had until just before, unless it is deleted by force
// (podgc, see S12), or by a rule for which it need not have one, see others. Of an owner that never was, the garbage collector has
// convinced itself with a live read. All pods of a namespace that ends are meant.
func DeletionsHitTheirPod() Oracle {
	return Oracle{"S3", "a deletion hits the pod that was meant", func(j *judge) hooks {
		return hooks{before: func(r *revision) {
			if r.kind != Pod || !r.manager || !r.deletes() {
				return
			}
			ref, ok := controller(r.Object)
			s, p := j.sets[ref.UID], j.pods[r.key]
			released := !ok && p != nil && j.recent(r, p.released, Pod)
			excused := r.by == nil || released || j.ending[r.Object.GetNamespace()]
			if j.judges(excused); j.ending[r.Object.GetNamespace()] {
				return
			}
			switch {
			case r.by != nil && r.by.UID == "" && r.by.PreconditionVersion == "":
				j.report(r, j.related(s), "the deletion has neither uid nor resourceVersion as precondition")
			case r.by != nil && r.by.UID != "" && r.by.UID != r.uid:
				j.report(r, j.related(s), "the deletion meant uid %s", r.by.UID)
			case r.forced() || released:
			case !ok && (p == nil || !j.others(p)):
				j.report(r, nil, "deleted though no controller owns it")
			case ok && j.owners[identity{ref.Kind, ref.UID}] == nil && newObject(ref.Kind) != nil && !j.missed(r, ref):
				j.report(r, nil, "deleted though its controller, %s %s, is none that ever was", ref.Kind, ref.UID)
			}
		}}
	}}
}

// missed reports whether the manager has lately looked for an owner live, and found none.
func (j *judge) missed(r *revision, ref metav1.OwnerReference) bool {
	return slices.ContainsFunc(j.lookups[lookup{resources[ref.Kind], r.Object.GetNamespace(), ref.Name}], func(q *Request) bool {
		return q.Code == http.StatusNotFound && !q.Received.Before(j.now.Add(-liveLook)) &&
			(r.by == nil || !q.Received.After(r.by.Received))
	})
}

// OneLiveController is S4: an object of one of the kinds that controllers make has at most one controller. What the manager adopts or
// creates gets a controller that exists under that uid and name, in the same namespace; when adopting, one that is not being deleted
// (RS-14, RS-22, DEP-8). A controller that went away within the lag excuses it. Who adopts has looked at the owner live just before: a
// cache that was cut off is no excuse for it.
func OneLiveController() Oracle {
	return Oracle{"S4", "controllers are live and there is one", func(j *judge) hooks {
		return hooks{after: func(r *revision) {
			if r.Type == Deleted || !slices.Contains(dependents, r.kind) {
				return
			}
			controllers := 0
			for _, ref := range r.Object.GetOwnerReferences() {
				if ref.Controller != nil && *ref.Controller {
					controllers++
				}
			}
			if controllers > 1 {
				j.judges(false)
				j.report(r, nil, "%d controllers", controllers)
			}
			ref, ok := controller(r.Object)
			if !r.manager || !ok || r.old != nil && sameController(r.old, r.Object) {
				return
			}
			j.judges(newObject(ref.Kind) == nil)
			if problem := j.unfit(r, ref.Kind, ref.UID, ref.Name); problem != "" {
				j.report(r, []string{ref.Kind + "/" + r.Object.GetNamespace() + "/" + ref.Name}, "%s", problem)
			}
		}}
	}}
}

// dependents are the kinds of objects that controllers make, and that so have one themselves.
var dependents = []string{Pod, ReplicaSet, Job, PersistentVolumeClaim, ControllerRevision, EndpointSlice}

// liveLook is how much time may pass between a live look at an owner and the adoption that it allows.
const liveLook = 30 * time.Second

// unfit says what is wrong with an owner that has just become the controller of an object.
func (j *judge) unfit(r *revision, kind string, uid types.UID, name string) string {
	switch {
	case newObject(kind) == nil:
		return "" // of kinds that are not recorded, nothing is known
	case r.kind == EndpointSlice && (kind == Service || kind == Endpoints), r.kind == PersistentVolumeClaim && kind == Pod:
	case (kind == Deployment) != (r.kind == ReplicaSet), kind == Pod, kind == Service, kind == Endpoints, kind == Node, kind == Namespace,
		kind == ConfigMap, kind == Lease:
		return fmt.Sprintf("a %s got a %s as its controller", r.kind, kind)
	}
	owner := j.owners[identity{kind, uid}]
	adopts, excused := r.old != nil, j.lag(r, kind)
	if looked := j.now.Add(-liveLook); adopts && looked.After(excused) {
		excused = looked
	}
	switch {
	case owner == nil:
		return fmt.Sprintf("its new controller %s %s never existed", name, uid)
	case owner.GetNamespace() != r.Object.GetNamespace() || owner.GetName() != name:
		return fmt.Sprintf("its new controller %s is in truth %s", name, keyOf(owner))
	case owner.gone != nil && owner.gone.at.Before(excused):
		return fmt.Sprintf("its new controller %s is gone since version %d", name, owner.gone.Version)
	case r.kind == PersistentVolumeClaim && kind == Pod: // a claim is to go with a pod that goes (STS-25), also if that is on its way
	case adopts && !owner.deleting.IsZero() && owner.deleting.Before(excused):
		return fmt.Sprintf("its new controller %s is being deleted since %v", name, owner.deleting)
	}
	return ""
}
