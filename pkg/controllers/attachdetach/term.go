package attachdetach

import (
	"maps"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// term is what the controller knows beside its volumes and nodes.
type term struct {
	CachesCompared bool // the cache shows what leaders before this one have written
	Absences       absences
	Nodes          cowmap.Map[string, nodeTerm]
	Holders        cowmap.Map[string, string] // the node that has reserved a volume, by the name of the volume
	Held           int                        // nodes with volumes that the brake holds
}

// nodeTerm is what the term has of a node.
type nodeTerm struct {
	Held      bool            // the brake holds volumes of it
	Explained map[string]bool // the VolumeAttachments that have a record, by name

	// Reserved are exclusive status-only volumes. No VolumeAttachment shows which node has one before the status of
	// that node does, and workers of two nodes must not both choose it. A node has a volume reserved from right before
	// its status lists it until the node neither needs nor lists it.
	Reserved map[string]bool
}

func (k *views) newTerm() *reconcile.Term[term] {
	return reconcile.NewTerm(reconcile.TermOptions[term]{
		Begin: func() term { return term{Absences: k.pods.firstAbsences(time.Now())} },
		Next: func(t term, before, after plan.Object) term {
			was, is := typed[*storagev1.CSIDriver](before, after)
			t.Absences = t.Absences.seeing(time.Now(), present(is, was)[0].Name, is)
			return t
		},
		End: func(t term) {
			if t.Held > 0 {
				k.brake.Release(whatIsHeld, brake.NothingLeft)
			}
		},
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
		n, _ := t.Nodes.Get(s.Name)
		if n.Reserved = maps.Clone(n.Reserved); n.Reserved == nil {
			n.Reserved = map[string]bool{}
		}
		for _, volume := range d.Reserves {
			n.Reserved[volume] = true
			t.Holders = t.Holders.With(volume, s.Name)
		}
		t.Nodes = t.Nodes.With(s.Name, n)
		return t
	})
	return err
}

// unsure is for how long a node keeps what it has reserved after a write of its status has failed: it may have been
// carried out nevertheless, and the cache does not show it yet.
const unsure = time.Minute

// released ends the reservations of a node for what it neither needs nor lists.
func (t term) released(now time.Time, s nodeSnapshot, n nodeTerm) (term, nodeTerm) {
	kept := map[string]bool{}
	if s.Node != nil && managed(s.Node) {
		for _, v := range s.Volumes {
			kept[v.Name] = kept[v.Name] || v.StatusOnly && (v.Pod != "" && v.OtherNode == "" || lists(s.Node, v))
		}
		if now.Sub(s.Memory.Failed) <= unsure {
			kept = n.Reserved
		}
	}
	left := map[string]bool{}
	for volume := range n.Reserved {
		if kept[volume] {
			left[volume] = true
		} else {
			t.Holders = t.Holders.Without(volume)
		}
	}
	n.Reserved = left
	return t, n
}

// applied is the term after a reconcile of a node.
func (k *nodeController) applied(t term, now time.Time, s nodeSnapshot, d nodeDecision) term {
	n, _ := t.Nodes.Get(s.Name)
	if len(n.Reserved) > 0 {
		t, n = t.released(now, s, n)
	}
	t.Held, n.Held = k.hold(t.Held, now, s, d, n.Held), d.Held
	n.Explained = map[string]bool{}
	for name := range d.Verdicts {
		n.Explained[name] = true
	}
	if t.Nodes = t.Nodes.Without(s.Name); n.Held || len(n.Explained)+len(n.Reserved) > 0 {
		t.Nodes = t.Nodes.With(s.Name, n)
	}
	return t
}

// whatIsHeld is what the brake holds, in words.
const whatIsHeld = "volumes of nodes that are not ready or gone"

// hold has the brake know whether volumes of a node are held, which they were or not. It returns of how many nodes they
// are.
func (k *nodeController) hold(nodes int, now time.Time, s nodeSnapshot, d nodeDecision, was bool) int {
	switch {
	case d.Held:
		k.brake.Hold(now, whatIsHeld, s.Held)
		if !was {
			nodes++
		}
	case was:
		if nodes--; nodes > 0 {
			break
		}
		cause := brake.ByProof
		switch {
		case len(s.Volumes) == 0:
			cause = brake.NothingLeft
		case len(d.Deleted) > 0 && s.Held != "":
			cause = brake.ByTime
		}
		k.brake.Release(whatIsHeld, cause)
	}
	return nodes
}
