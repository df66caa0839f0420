package selinuxwarning

import (
	"slices"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// conflicts are those of all volumes.
type conflicts struct {
	ByVolume cowmap.Map[string, []conflict]
}

func newTerm() *reconcile.Term[conflicts] {
	return reconcile.NewTerm(reconcile.TermOptions[conflicts]{})
}

// of returns the conflicts of a volume.
func (c conflicts) of(volume string) []conflict {
	all, _ := c.ByVolume.Get(volume)
	return all
}

// keep notes the conflicts of a volume.
func (k *caches) keep(s snapshot, d decision) error {
	k.conflicts.Update(func(c conflicts) conflicts {
		switch was := c.of(s.Volume); {
		case len(d.Conflicts) == 0:
			c.ByVolume = c.ByVolume.Without(s.Volume)
		case !slices.Equal(was, d.Conflicts):
			c.ByVolume = c.ByVolume.With(s.Volume, d.Conflicts)
		}
		return c
	})
	return nil
}
