package tainteviction

import (
	"time"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// term is what the controller knows beside its pods.
type term struct {
	Began time.Time                     // when this process began to lead
	Held  cowmap.Map[string, time.Time] // what the brake holds, and until when it does if nothing more is held
}

// heldFor is how long pods of a node count as held after one was: then they are gone.
const heldFor = 3 * readAgain

// terms is the term, with the brake that follows it.
type terms struct {
	*reconcile.Term[term]
	brake *brake.Brake
}

func newTerms(c reconcile.Clock, b *brake.Brake) terms {
	t := terms{brake: b}
	t.Term = reconcile.NewTerm(reconcile.TermOptions[term]{
		Begin:  func() term { return term{Began: c.Now()} },
		Expire: t.expire,
		End: func(last term) {
			for what := range last.Held.All() {
				b.Release(what, brake.NothingLeft)
			}
		},
	})
	return t
}

// expire ends what nothing has been held of for a while.
func (t terms) expire(now time.Time, is term) (term, time.Duration) {
	var next time.Duration
	for what, until := range is.Held.All() {
		if left := until.Sub(now); left > 0 {
			next = plan.Sooner(next, left)
			continue
		}
		is = t.without(is, what, brake.NothingLeft)
	}
	return is, next
}

// hold notes that pods are held.
func (t terms) hold(now time.Time, what, why string) {
	t.Update(func(is term) term {
		t.brake.Hold(now, what, why)
		if until, held := is.Held.Get(what); !held || until.Sub(now) < heldFor-readAgain {
			is.Held = is.Held.With(what, now.Add(heldFor))
		}
		return is
	})
}

// release notes that pods are held no longer.
func (t terms) release(what string, cause brake.Cause) {
	t.Update(func(is term) term { return t.without(is, what, cause) })
}

func (t terms) without(is term, what string, cause brake.Cause) term {
	if _, held := is.Held.Get(what); held {
		is.Held = is.Held.Without(what)
		t.brake.Release(what, cause)
	}
	return is
}
