package attachdetach

import (
	"maps"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// term is what the controller knows beside its volumes and nodes.
type term struct {
	CachesCompared bool // the cache shows what leaders before this one have written
	Absences       absences
	// Reserved are exclusive status-only volumes, by the name of the node. No VolumeAttachment shows which node has one
	// before the status of that node does, and workers of two nodes must not both choose it. A node has a volume
	// reserved from right before its status lists it until the node neither needs nor lists it.
	Reserved cowmap.Map[string, map[string]bool]
	Holders  cowmap.Map[string, string] // the node that has reserved a volume, by the name of the volume
	// Written is when the status of a node was last written, by the name of the node.
	Written cowmap.Map[string, time.Time]
}

func (k *views) newTerm() *reconcile.Term[term] {
	return reconcile.NewTerm(reconcile.TermOptions[term]{
		Begin: func() term { return term{Absences: k.pods.firstAbsences(time.Now())} },
		Next: func(t term, before, after plan.Object) term {
			was, is := typed[*storagev1.CSIDriver](before, after)
			t.Absences = t.Absences.seeing(time.Now(), present(is, was)[0].Name, is)
			return t
		},
	})
}

// batch is how long after a change of a pod or a VolumeAttachment their node is looked at: pods of a node come and go
// together, and so do their volumes. What they lead to is written no sooner, if the status was just written.
func (k *nodeController) batch(node plan.Key) time.Duration {
	t, _ := k.term.Get()
	written, _ := t.Written.Get(node.Name)
	return max(batchPeriod, writePause-time.Since(written))
}

// noteWrites notes that the status of a node was written. A node that is gone is forgotten.
func (k *nodeController) noteWrites(s nodeSnapshot, did plan.Outcome) {
	wrote := slices.ContainsFunc(did.Results, func(r plan.Result) bool { return r.Verb == plan.Changed })
	if !wrote && s.Node != nil {
		return
	}
	k.term.Update(func(t term) term {
		t.Written = t.Written.Without(s.Name)
		if wrote {
			t.Written = t.Written.With(s.Name, time.Now())
		}
		return t
	})
}

// cachesCompared reports whether the cache shows what leaders before this one have written.
func (k *views) cachesCompared() bool {
	t, _ := k.term.Get()
	return t.CachesCompared
}

// reserve reserves the volumes that the status of a node is about to list, unless another node has come first.
func (k *nodeController) reserve(s nodeSnapshot, d nodeDecision) error {
	if len(d.Reserves) == 0 {
		return nil
	}
	err := plan.ErrStale // if the term is over
	k.term.Update(func(t term) term {
		for _, volume := range d.Reserves {
			if node, reserved := t.Holders.Get(volume); reserved && node != s.Name {
				return t
			}
		}
		err = nil
		return t.reserving(s.Name, d.Reserves)
	})
	return err
}

// reserving is the term with volumes reserved for a node.
func (t term) reserving(node string, volumes []string) term {
	before, _ := t.Reserved.Get(node)
	reserved := maps.Clone(before)
	if reserved == nil {
		reserved = map[string]bool{}
	}
	for _, volume := range volumes {
		reserved[volume] = true
		t.Holders = t.Holders.With(volume, node)
	}
	t.Reserved = t.Reserved.With(node, reserved)
	return t
}

// unsure is for how long a node keeps what it has reserved after a write of its status has failed: it may have been
// carried out nevertheless, and the cache does not show it yet.
const unsure = time.Minute

// unreserve ends the reservations of a node for what it neither needs nor lists. A node that is gone keeps them as long
// as its machine may use the volumes.
func (k *nodeController) unreserve(s nodeSnapshot, d nodeDecision) {
	k.term.Update(func(t term) term { return t.unreserved(time.Now(), s, d) })
}

// reservedAsListed is the term with the exclusive status-only volumes reserved that pods need on a node and its status
// lists: a leader before this one may have listed them.
func (t term) reservedAsListed(s nodeSnapshot) term {
	if s.Node == nil || !managed(s.Node) {
		return t
	}
	var listed []string
	for _, v := range s.Volumes {
		if _, held := t.Holders.Get(v.Name); v.StatusOnly && v.Exclusive && !held && lists(s.Node, v) {
			listed = append(listed, v.Name)
		}
	}
	if len(listed) == 0 {
		return t
	}
	return t.reserving(s.Name, listed)
}

// untilReported is for how long a Node that was made anew may not have said yet what its machine uses.
func (s nodeSnapshot) untilReported(now time.Time) time.Duration {
	return max(0, goneGrace-now.Sub(s.Node.CreationTimestamp.Time))
}

// unreserved is the term without the reservations of a node that are over.
func (t term) unreserved(now time.Time, s nodeSnapshot, d nodeDecision) term {
	t = t.reservedAsListed(s)
	reserved, found := t.Reserved.Get(s.Name)
	if !found {
		return t
	}
	kept := map[string]bool{}
	switch {
	case s.Node == nil:
		kept = d.Retains
	case !managed(s.Node):
	case now.Sub(s.Memory.Failed) <= unsure, s.untilReported(now) > 0:
		kept = reserved
	default:
		for _, v := range s.Volumes {
			kept[v.Name] = kept[v.Name] || v.StatusOnly && (v.Pod != "" && v.OtherNode == "" || lists(s.Node, v))
		}
	}
	left := map[string]bool{}
	for volume := range reserved {
		if kept[volume] {
			left[volume] = true
		} else {
			t.Holders = t.Holders.Without(volume)
		}
	}
	if t.Reserved = t.Reserved.Without(s.Name); len(left) > 0 {
		t.Reserved = t.Reserved.With(s.Name, left)
	}
	return t
}
