package persistentvolumebinder

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
)

// share is of how many volumes of a group the claims were replaced.
type share struct {
	Of       string // the group, in words; empty for all volumes
	Replaced int
	Bound    int // to claims that have ever existed
}

// String says so in words, for events and explanations.
func (s share) String() string {
	return fmt.Sprintf("%d of %d volumes of claims%s", s.Replaced, s.Bound, s.Of)
}

// replaced are the volumes that are for claims in whose place there are others, as the caches show: of all, in each
// namespace, and of each class, because one tenant's backup may have been restored, or one driver's. They follow each
// change, because so many may be looked at within a moment.
type replaced struct {
	volumes cowmap.Map[string, []string] // their groups, by name
	groups  cowmap.Map[string, int]      // how many each group has
}

// groupsOf are those of a volume, in words. That of all comes first.
func groupsOf(v *corev1.PersistentVolume) []string {
	return []string{"", fmt.Sprintf(" in the namespace %s", v.Spec.ClaimRef.Namespace),
		fmt.Sprintf(" of the class %q", classOfVolume(v))}
}

// allReplaced counts all volumes.
func (k *caches) allReplaced() (r replaced) {
	for v := range k.volumes.All() {
		r = k.recount(r, v.Name)
	}
	return r
}

// recount is what is replaced, with a volume as the caches show it now.
func (k *caches) recount(r replaced, volume string) replaced {
	var groups []string
	if v := k.volumes.Get("", volume); v != nil && isBound(v) {
		ref := v.Spec.ClaimRef
		if c := k.claims.Get(ref.Namespace, ref.Name); c != nil && c.UID != ref.UID {
			groups = groupsOf(v)
		}
	}
	before, _ := r.volumes.Get(volume)
	if slices.Equal(before, groups) {
		return r
	}
	r.groups = r.groups.Clone()
	for _, name := range before {
		n, _ := r.groups.Get(name)
		if r.groups.Set(name, n-1); n == 1 {
			r.groups.Delete(name)
		}
	}
	for _, name := range groups {
		n, _ := r.groups.Get(name)
		r.groups.Set(name, n+1)
	}
	if r.volumes = r.volumes.Without(volume); len(groups) > 0 {
		r.volumes = r.volumes.With(volume, groups)
	}
	return r
}

// isBound reports whether a volume is for a claim that has ever existed, and was not released.
func isBound(v *corev1.PersistentVolume) bool {
	released := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
	return v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != "" && !released
}

// countedFor is how long the numbers serve of the volumes that are bound.
const countedFor = time.Second

// countBound returns how many volumes of each group are bound.
func (k *caches) countBound() map[string]int {
	all := map[string]int{}
	for v := range k.volumes.All() {
		if !isBound(v) {
			continue
		}
		for _, name := range groupsOf(v) {
			all[name]++
		}
	}
	return all
}

// outOfTheOrdinary reports whether the brake trips, as too many volumes of a group of the asked one are for claims in
// whose place there are others. It returns the numbers of that group, or of all.
func (k *caches) outOfTheOrdinary(asked *corev1.PersistentVolume, now time.Time) (one share, trips bool) {
	shares := k.shares(asked, now)
	for _, one := range shares {
		if k.brake.Trips(one.Replaced, one.Bound) {
			return one, true
		}
	}
	return shares[0], false
}

// shares are those of the groups of a volume, which counts itself.
func (k *caches) shares(asked *corev1.PersistentVolume, now time.Time) (all []share) {
	t, known := k.volumeTerm.Get()
	if !known {
		t.Replaced = k.allReplaced()
	}
	bound := k.bound.Of(now.Truncate(countedFor), k.countBound)
	_, counted := t.Replaced.volumes.Get(asked.Name)
	for _, name := range groupsOf(asked) {
		n, _ := t.Replaced.groups.Get(name)
		if !counted {
			n++
		}
		all = append(all, share{name, n, max(bound[name], n)})
	}
	return all
}
