package plan

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Claim sorts out which candidates belong to owner, and plans what it takes to make that so (RS-20..22, DEP-7):
//
//	controlled by owner, matching      mine
//	controlled by owner, not matching  released, unless owner is being deleted
//	orphan, matching                   adopted and mine, unless one of the two is being deleted
//	anything else                      not touched, above all what is in another namespace, whatever it says
//
// Adoption and release do not stop one another, so steps holds at most one [Each]. An adopted object appears in mine as
// it will be, so that it counts in the same reconcile (RS-23).
func Claim[T Object](owner Object, kind schema.GroupVersionKind, sel labels.Selector, candidates []T) (mine []T,
	steps []Step) {
	var each Each
	for _, c := range candidates {
		if c.GetNamespace() != owner.GetNamespace() {
			continue
		}
		ref := metav1.GetControllerOfNoCopy(c)
		matches := sel.Matches(labels.Set(c.GetLabels()))
		switch {
		case ref != nil && ref.UID == owner.GetUID():
			if matches {
				mine = append(mine, c)
			} else if owner.GetDeletionTimestamp() == nil {
				each.Sequences = append(each.Sequences, []Step{release(owner.GetUID(), c)})
			}
		case ref == nil && matches && adoptable(owner, c):
			adopted := adopt(owner, kind, c)
			each.Sequences = append(each.Sequences, []Step{
				Change{Old: c, New: adopted, Adopt: true, Why: "adopt: orphan matches the selector"},
			})
			mine = append(mine, adopted)
		}
	}
	if len(each.Sequences) > 0 {
		steps = []Step{each}
	}
	return mine, steps
}

// Adopted returns the objects that steps of [Claim] adopt, as they were observed.
func Adopted(claims []Step) (adopted []Object) {
	for _, step := range claims {
		each, _ := step.(Each)
		for _, sequence := range each.Sequences {
			if change, ok := sequence[0].(Change); ok && change.Adopt {
				adopted = append(adopted, change.Old)
			}
		}
	}
	return adopted
}

// ErrSelectsAll says that a selector is missing or empty.
var ErrSelectsAll = errors.New("left alone, selector: it is empty")

// Selector returns the selector with which an owner claims objects. One that is missing or empty is an error: the
// server refuses it, and whoever got past the server with it shall neither take all objects of the namespace nor lose
// those of the owner.
func Selector(of *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(of)
	switch {
	case err != nil:
		return nil, fmt.Errorf("left alone, selector: %w", err)
	case of == nil || selector.Empty():
		return nil, ErrSelectsAll
	}
	return selector, nil
}

func adoptable(owner, o Object) bool {
	return owner.GetDeletionTimestamp() == nil && o.GetDeletionTimestamp() == nil
}

func adopt[T Object](owner Object, kind schema.GroupVersionKind, orphan T) T {
	adopted := orphan.DeepCopyObject().(T)
	// A patch distinguishes references by uid: one to the owner that does not control gives way to the one that does.
	refs := slices.DeleteFunc(adopted.GetOwnerReferences(),
		func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
	adopted.SetOwnerReferences(append(refs, *metav1.NewControllerRef(owner, kind)))
	return adopted
}

func release(owner types.UID, o Object) Step {
	released := o.DeepCopyObject().(Object)
	var rest []metav1.OwnerReference
	for _, ref := range released.GetOwnerReferences() {
		if ref.UID != owner {
			rest = append(rest, ref)
		}
	}
	released.SetOwnerReferences(rest)
	return Change{Old: o, New: released, Why: "release: labels no longer match the selector"}
}
