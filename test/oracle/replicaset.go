package oracle

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// S1: a ReplicaSet whose replicas are constant has at no revision more active pods than that by its own creations; when
// replicas have changed, no more than the most since the generation that its status has observed (RS-25, RS-40; Anvil's
// ReplicaSet; Sieve's reference counts). Adopted pods may exceed it, and so may pods that a lower number leaves behind.
func S1() Oracle {
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
			given := 0
			for _, gain := range s.gained.since(j.lag()) {
				if other := j.podsOf[s.UID][gain.uid]; other != nil && other.counted {
					given++
				}
			}
			j.judges(false)
			if n := s.active - given; n > int(most) {
				j.report(r, j.related(s), "%s of replicas %d now has %d active pods", s.Name, most, n)
			}
		}}
	}}
}

// S2: a ReplicaSet never deletes an active pod while it has no more active pods than replicas (RS-25, RS-40). Pods that the
// environment took a moment ago still count: the manager may not know.
func S2() Oracle {
	return Oracle{"S2", "a ReplicaSet deletes no active pod that it needs", func(j *judge) hooks {
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
			j.judges(false)
			if n := s.active + j.taken(s, j.lag(), func(l loss) bool { return l.count > 0 }); n <= int(least) {
				j.report(r, j.related(s), "deleted while %s has %d active pods of %d replicas", s.Name, n, least)
			}
		}}
	}}
}

// taken counts the pods that the environment took from a ReplicaSet since a time, and that are still missing.
func (w *world) taken(s *set, since time.Time, which func(loss) bool) int {
	seen := map[types.UID]bool{}
	for _, l := range s.lost.since(since) {
		if which(l) {
			seen[l.uid] = true
		}
	}
	return len(seen)
}

// S3: each pod that the manager deletes was, at that revision, the pod with the uid that was meant, and had a controller that
// exists or did (of kinds that are not recorded, nothing is known), unless it is deleted by force (podgc, see S12); and the request carried a precondition that makes sure of
// it (RS-29 and PGC-18 know none: the original fails this; Anvil's rely condition).
func S3() Oracle {
	return Oracle{"S3", "a deletion hits the pod that was meant", func(j *judge) hooks {
		return hooks{before: func(r *revision) {
			if r.kind != Pod || !r.manager || !r.goes() {
				return
			}
			j.judges(r.by == nil)
			forced := r.by != nil && r.by.Grace != nil && *r.by.Grace == 0
			ref, ok := controller(r.Object)
			s := j.sets[ref.UID]
			switch {
			case r.by != nil && r.by.UID == "" && r.by.PreconditionVersion == "":
				j.report(r, j.related(s), "the deletion has neither uid nor resourceVersion as precondition")
			case r.by != nil && r.by.UID != "" && r.by.UID != r.uid:
				j.report(r, j.related(s), "the deletion meant uid %s", r.by.UID)
			case forced:
			case !ok:
				j.report(r, nil, "deleted though no controller owns it")
			case j.owners[ref.UID] == nil && newObject(ref.Kind) != nil:
				j.report(r, nil, "deleted though its controller, %s %s, is none that ever was", ref.Kind, ref.UID)
			}
		}}
	}}
}

// S4: an object has at most one controller. What the manager adopts or creates gets a controller that exists under that
// uid and name, in the same namespace; when adopting, one that is not being deleted (RS-14, RS-22, DEP-8). A controller that
// went away within the lag excuses it. Who adopts has looked at the owner live just before: a cache that was cut off is no
// excuse for it.
func S4() Oracle {
	return Oracle{"S4", "controllers are live and there is one", func(j *judge) hooks {
		return hooks{after: func(r *revision) {
			if r.kind != Pod && r.kind != ReplicaSet || r.Type == Deleted {
				return
			}
			controllers := 0
			for _, ref := range r.Object.GetOwnerReferences() {
				if ref.Controller != nil && *ref.Controller {
					controllers++
				}
			}
			if controllers > 1 {
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

// liveLook is how much time may pass between a live look at an owner and the adoption that it allows.
const liveLook = 30 * time.Second

// unfit says what is wrong with an owner that has just become the controller of an object.
func (j *judge) unfit(r *revision, kind string, uid types.UID, name string) string {
	switch {
	case newObject(kind) == nil:
		return "" // of kinds that are not recorded, nothing is known
	case r.kind == EndpointSlice && (kind == Service || kind == Endpoints):
	case (kind == Deployment) != (r.kind == ReplicaSet), kind == Pod, kind == Service, kind == Endpoints, kind == Node, kind == Lease:
		return fmt.Sprintf("a %s got a %s as its controller", r.kind, kind)
	}
	owner := j.owners[uid]
	adopts, excused := r.old != nil, j.lag()
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
	case adopts && !owner.deleting.IsZero() && owner.deleting.Before(excused):
		return fmt.Sprintf("its new controller %s is being deleted since %v", name, owner.deleting)
	}
	return ""
}
