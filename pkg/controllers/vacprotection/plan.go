package vacprotection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// protection is the finalizer of VolumeAttributesClasses (ST-40).
const protection plan.Protection = "kubernetes.io/vac-protection"

const (
	// cacheTimeout is for how long after its deletion a class waits for caches that show a later state. In a cluster
	// where no claim or volume changes, the API server shows once a minute that none has; to wait for that would be too
	// long for a class, which holds no data (ST-44).
	cacheTimeout = 5 * time.Second
	// lookAgain is how often the caches are asked meanwhile.
	lookAgain = 250 * time.Millisecond
)

// snapshot is a class and, if it is being deleted, who refers to it. Observe fills it, and planFinalizer
// reads it. The object belongs to a shared cache.
type snapshot struct {
	Class           *storagev1.VolumeAttributesClass
	Claims, Volumes users // that refer to a class that is being deleted
	Proved          bool  // the caches of both show a state that is later than the deletion
}

// users are objects of a kind that refer to a class: how many, and one of them by name for people.
type users struct {
	Count int
	First plan.Key // by name
}

// planFinalizer gives a class its finalizer, and takes it off one that is being deleted when nobody refers to it
// (ST-43). The change is an update of the version that was observed.
func planFinalizer(now time.Time, s snapshot) plan.Plan {
	var why string
	switch c := s.Class; {
	case !protection.Due(c):
		return plan.Plan{Why: "there is nothing to do"}
	case c.DeletionTimestamp == nil:
		why = "the class lacks the finalizer that protects it while somebody uses it"
	case s.Claims.Count+s.Volumes.Count > 0:
		return plan.Plan{Why: "the class is being deleted, and stays because of " + s.whoUses()}
	case !s.Proved && now.Before(c.DeletionTimestamp.Add(cacheTimeout)):
		return plan.Plan{Why: "the class is being deleted, and waits until the caches of claims and volumes show a " +
			"state that is later", Requeue: lookAgain}
	default:
		why = "the class is being deleted and nobody uses it: take its finalizer off"
	}
	return plan.Plan{Why: why, Steps: []plan.Step{protection.Toggle(s.Class, why)}}
}

// whoUses names who refers to the class (ST-88).
func (s snapshot) whoUses() string {
	var parts []string
	if n := s.Claims.Count; n > 0 {
		parts = append(parts, fmt.Sprintf("the claim %s%s", s.Claims.First, others(n)))
	}
	if n := s.Volumes.Count; n > 0 {
		parts = append(parts, fmt.Sprintf("the volume %s%s", s.Volumes.First.Name, others(n)))
	}
	return strings.Join(parts, ", and ")
}

// others says how many users there are besides the one that is named.
func others(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" and %d others", n-1)
}

// classesOfClaim returns the classes that a claim refers to, as it should be and as it is (ST-42).
func classesOfClaim(c *corev1.PersistentVolumeClaim) []string {
	names := []string{ptr.Deref(c.Spec.VolumeAttributesClassName, ""),
		ptr.Deref(c.Status.CurrentVolumeAttributesClassName, "")}
	if m := c.Status.ModifyVolumeStatus; m != nil {
		names = append(names, m.TargetVolumeAttributesClassName)
	}
	return distinct(names)
}

// classesOfVolume returns the class that a volume refers to (ST-42).
func classesOfVolume(v *corev1.PersistentVolume) []string {
	return distinct([]string{ptr.Deref(v.Spec.VolumeAttributesClassName, "")})
}

// distinct returns the names that are not empty, each once.
func distinct(names []string) []string {
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}
