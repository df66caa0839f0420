package persistentvolumebinder

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// share is of how many volumes of a group the claims were replaced.
type share struct {
	Of       string // the group, in words; empty for all volumes
	Replaced int
	Bound    int // to claims that have ever existed
}

func (s share) String() string {
	return fmt.Sprintf("%d of %d volumes of claims%s", s.Replaced, s.Bound, s.Of)
}

// counter counts how many volumes are for claims in whose place there are others: of all, in each namespace, and of each class, because one tenant's
// backup may have been restored, or one driver's. It is asked seldom, and then for many volumes at once: so it counts once a second, and adds each
// volume that it is asked about until then.
type counter struct {
	mu     sync.Mutex
	at     time.Time
	groups map[string]*group
}

// group are volumes that are counted together.
type group struct {
	replaced map[types.UID]bool
	bound    int
}

// groupsOf are those of a volume, in words. That of all comes first.
func groupsOf(v *corev1.PersistentVolume) []string {
	return []string{"", fmt.Sprintf(" in the namespace %s", v.Spec.ClaimRef.Namespace), fmt.Sprintf(" of the class %q", classOfVolume(v))}
}

// countedFor is how long the numbers serve.
const countedFor = time.Second

// outOfTheOrdinary reports whether the brake trips, as too many volumes of a group of the asked one are for claims in whose place there are others. It
// returns the numbers of that group, or of all.
func (k *caches) outOfTheOrdinary(asked *corev1.PersistentVolume, now time.Time) (one share, trips bool) {
	shares := k.count.of(k, asked, now)
	for _, one := range shares {
		if k.brake.Trips(one.Replaced, one.Bound) {
			return one, true
		}
	}
	return shares[0], false
}

// of returns how many volumes, the asked one among them, are for claims in whose place there are others, in each of its groups.
func (n *counter) of(k *caches, asked *corev1.PersistentVolume, now time.Time) (all []share) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at.IsZero() || now.Sub(n.at) >= countedFor {
		n.count(k)
		n.at = now
	}
	for _, name := range groupsOf(asked) {
		g := n.group(name)
		g.replaced[asked.UID] = true
		g.bound = max(g.bound, len(g.replaced))
		all = append(all, share{name, len(g.replaced), g.bound})
	}
	return all
}

// group returns that of a name. The lock is held.
func (n *counter) group(name string) *group {
	g := n.groups[name]
	if g == nil {
		g = &group{replaced: map[types.UID]bool{}}
		n.groups[name] = g
	}
	return g
}

// count counts anew. The lock is held.
func (n *counter) count(k *caches) {
	n.groups = map[string]*group{}
	for v := range k.volumes.All() {
		ref := v.Spec.ClaimRef
		if ref == nil || ref.UID == "" || v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed {
			continue
		}
		c := k.claims.Get(ref.Namespace, ref.Name)
		for _, name := range groupsOf(v) {
			g := n.group(name)
			if g.bound++; c != nil && c.UID != ref.UID {
				g.replaced[v.UID] = true
			}
		}
	}
}
