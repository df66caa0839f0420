package suite

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const volumeProtection = "kubernetes.io/pv-protection"

func volumeProtectionEntry() Entry {
	return Entry{
		Controller: "persistentvolume-protection-controller",
		Needs:      []string{"persistentvolume-binder-controller"},
		Operations: map[string]Operation{
			// NAME: a PersistentVolume; phase=Bound, Released, Available: a claim takes it, goes, and lets it be free; do=delete, strip
			"volume": volume,
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			name := fmt.Sprintf("disk-%s-%d", app, g.IntN(2))
			g.Add(at, "volume %s", name)
			g.Add(soon, "volume %s phase=%s", name, workload.Pick(g, "Bound", "Bound", "Available", "Released"))
			g.Add(soon+g.Early(), "volume %s do=%s", name, workload.Pick(g, "delete", "delete", "strip"))
			if g.IntN(3) > 0 {
				g.Add(soon+2*g.Early(), "volume %s phase=Released", name)
			}
		}}},
		Settled: volumesSettled,
		Scenarios: []Scenario{{Name: "volumes are deleted while they are bound", Play: func(u *User) {
			for _, name := range []string{"0", "1", "2"} {
				u.createVolume(name)
				u.volumePhase(name, corev1.VolumeBound)
				u.deleteVolume(name)
				u.volumePhase(name, corev1.VolumeReleased)
			}
			for _, name := range []string{"0", "1", "2"} {
				AwaitGone[*corev1.PersistentVolume](u, u.unique(name))
			}
		}}},
		Malformed: map[string]string{
			"persistentvolumes/absurd": `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"finalizers":["",""],${META}},"status":{"phase":"Perhaps"}}`,
		},
		Mutants: volumeProtectionMutants,
		Budgets: []Budget{{
			// each finalizer that admission has added, of claims too
			Name: "20 volumes are deleted, and then released", Floor: floor.Writes{Status: 20, Other: 40},
			Prepare: func(u *User) {
				for i := range 20 {
					u.createVolume(fmt.Sprint(i))
					u.volumePhase(fmt.Sprint(i), corev1.VolumeBound)
				}
			},
			Do: func(u *User) {
				for _, do := range []func(string){
					u.deleteVolume, func(name string) { u.volumePhase(name, corev1.VolumeReleased) },
					func(name string) { AwaitGone[*corev1.PersistentVolume](u, u.unique(name)) },
				} {
					for i := range 20 {
						do(fmt.Sprint(i))
					}
				}
			},
		}},
	}
}

// newVolume is a PersistentVolume that nobody provides.
func (u *User) newVolume(name string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: u.unique(name)}, Spec: corev1.PersistentVolumeSpec{
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName:       u.className("disks"), // or any claim might get it
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
	}}
	u.mark(v)
	return v
}

// volume makes a PersistentVolume, has a claim take it, takes that away, deletes it, or takes its finalizers off.
func volume(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*corev1.PersistentVolume](u, name)
	case "strip":
		return edit(u, name, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
	}
	phase, ok := l.Get("phase")
	switch {
	case !ok:
		return create(u, u.newVolume(l.Arg(0)))
	case phase == "Bound":
		return create(u, u.taker(l.Arg(0)))
	case phase == "Released":
		return remove[*corev1.PersistentVolumeClaim](u, takerOf(l.Arg(0)))
	}
	return edit(u, name, func(v *corev1.PersistentVolume) {
		if v.Status.Phase == corev1.VolumeReleased {
			v.Spec.ClaimRef = nil
		}
	})
}

// taker is a claim that names a volume, and gets it.
func (u *User) taker(volume string) *corev1.PersistentVolumeClaim {
	class := u.className("disks")
	c := u.claimOf(takerOf(volume), &class)
	c.Spec.VolumeName = u.unique(volume)
	return c
}

func takerOf(volume string) string { return "of-" + volume }

// volumesSettled says which volumes lack the finalizer, which should be gone, and which have lost the finalizer while they were bound.
func volumesSettled(s *View) (wrong []string) {
	for _, v := range subjects[*corev1.PersistentVolume](s) {
		switch has := slices.Contains(v.Finalizers, volumeProtection); {
		case !has && v.DeletionTimestamp == nil: // SM-23
			wrong = append(wrong, fmt.Sprintf("the volume %s lacks the finalizer", v.Name))
		case has && v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound: // SM-22
			wrong = append(wrong, fmt.Sprintf("the volume %s is still there, and it is not bound", v.Name))
		}
	}
	for _, e := range s.writes("persistentvolumes") {
		if before, ok := e.Before.(*corev1.PersistentVolume); ok && lostFinalizer(e, volumeProtection) &&
			before.Status.Phase == corev1.VolumeBound {
			wrong = append(wrong, fmt.Sprintf("the volume %s has lost the finalizer while it was bound", before.Name))
		}
	}
	return wrong
}

// lostFinalizer reports whether the manager has taken a finalizer off.
func lostFinalizer(e Change, finalizer string) bool {
	return e.Managed && e.Before != nil && slices.Contains(e.Before.GetFinalizers(), finalizer) &&
		(e.Deleted || !slices.Contains(e.Object.GetFinalizers(), finalizer))
}

const volumePlan = "pkg/controllers/pvprotection/plan.go"

var volumeProtectionMutants = []Mutant{
	{
		Name:   "a bound volume that is deleted goes",
		Edits:  []Edit{{volumePlan, "case v.Status.Phase == corev1.VolumeBound:", "case v.Status.Phase == corev1.VolumePending:"}},
		Script: withoutElection + "\n\t\t\tat 5s   volume disk\n\t\t\tat 10s  volume disk phase=Bound\n\t\t\tat 20s  volume disk do=delete",
		Oracle: SettledOracle,
	},
	{
		Name:  "a volume that is released stays",
		Edits: []Edit{{volumePlan, "case v.Status.Phase == corev1.VolumeBound:", "case v.Status.Phase != corev1.VolumeAvailable:"}},
		Script: withoutElection +
			"\n\t\t\tat 5s   volume disk\n\t\t\tat 10s  volume disk phase=Bound\n\t\t\tat 20s  volume disk do=delete\n\t\t\tat 30s  volume " +
			"disk phase=Released",
		Oracle: SettledOracle,
	},
	{
		Name: "a volume that has lost its finalizer does not get it back",
		Edits: []Edit{{volumePlan, "case v.DeletionTimestamp == nil:", "case v.DeletionTimestamp == nil && v.Name == \"\":"},
			{volumePlan, "case !protection.Due(v):", "case !protection.Due(v) || v.DeletionTimestamp == nil:"}},
		Script: withoutElection + "\n\t\t\tat 5s   volume disk\n\t\t\tat 10s  volume disk do=strip",
		Oracle: SettledOracle,
	},
	{
		Name: "the deletion of a volume is not noticed",
		Edits: []Edit{{"pkg/controllers/pvprotection/controller.go", "volumes.Watch(protection.Enqueues, ",
			"volumes.Watch(func(before, after plan.Object) []plan.Key {\n\t\tif after != nil && after.GetDeletionTimestamp() != nil {\n" +
				"\t\t\treturn nil\n\t\t}\n\t\treturn protection.Enqueues(before, after)\n\t}, "}},
		Script: withoutElection + `
			at 5s   volume disk
			at 20s  volume disk do=delete`,
		Oracle: SettledOracle,
	},
}

func (u *User) createVolume(name string) {
	u.Helper()
	u.Create(u.newVolume(name))
}

func (u *User) deleteVolume(name string) {
	u.Helper()
	Remove[*corev1.PersistentVolume](u, u.unique(name))
}

// volumePhase has a volume be bound to a claim, or released.
func (u *User) volumePhase(name string, phase corev1.PersistentVolumePhase) {
	u.Helper()
	if phase == corev1.VolumeReleased {
		Remove[*corev1.PersistentVolumeClaim](u, takerOf(name))
		return
	}
	u.Create(u.taker(name))
	Await(u, takerOf(name), func(c *corev1.PersistentVolumeClaim) error {
		return unless(c.Status.Phase == corev1.ClaimBound, c.Status)
	})
}
