package suite

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const volumeProtection = "kubernetes.io/pv-protection"

func volumeProtectionEntry() Entry {
	return Entry{
		Controller: "persistentvolume-protection-controller",
		Operations: map[string]workload.Operation{
			"volume": volume, // NAME: a PersistentVolume; phase=: sets its phase; do=delete, strip
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			name := fmt.Sprintf("disk-%s-%d", app, g.IntN(2))
			g.Add(at, "volume %s", name)
			g.Add(soon, "volume %s phase=%s", name, workload.Pick(g, "Bound", "Bound", "Available", "Released"))
			g.Add(soon+g.Early(), "volume %s do=%s", name, workload.Pick(g, "delete", "delete", "strip"))
			g.Add(soon+2*g.Early(), "volume %s phase=Released", name)
		}}},
		Settled: volumesSettled,
		Scenarios: []Scenario{{Name: "volumes are deleted while they are bound", Play: func(u *User) {
			for i := range 3 {
				u.createVolume(i)
				u.volumePhase(i, corev1.VolumeBound)
				u.deleteVolume(i)
				u.volumePhase(i, corev1.VolumeReleased)
			}
			u.waitVolumesGone(3)
		}}},
		Malformed: map[string]string{
			"persistentvolumes/absurd": `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"finalizers":["",""],${META}},"status":{"phase":"Perhaps"}}`,
		},
		Mutants: volumeProtectionMutants,
		Budgets: []Budget{{
			Name: "20 volumes are deleted, and then released", Floor: floor.Writes{Other: 20}, // each finalizer that admission has added
			Do: func(u *User) {
				for _, do := range []func(int){
					u.createVolume, func(i int) { u.volumePhase(i, corev1.VolumeBound) }, u.deleteVolume, func(i int) { u.volumePhase(i, corev1.VolumeReleased) },
				} {
					for i := range 20 {
						do(i)
					}
				}
				u.waitVolumesGone(20)
			},
		}},
	}
}

// newVolume is a PersistentVolume that nobody provides.
func newVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
	}}
}

// volume makes a PersistentVolume, sets its phase, deletes it, or takes its finalizers off.
func volume(u *workload.Users, l script.Line) error {
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove(u, "persistentvolumes", "", l.Arg(0))
	case "strip":
		_, err := actors.Edit(u.Server, workload.By, "", l.Arg(0), "", func(v *corev1.PersistentVolume) { v.Finalizers = nil })
		return err
	}
	phase, ok := l.Get("phase")
	if !ok {
		return create(u, newVolume(l.Arg(0)))
	}
	_, err := actors.Edit(u.Server, workload.By, "", l.Arg(0), "status", func(v *corev1.PersistentVolume) {
		v.Status.Phase = corev1.PersistentVolumePhase(phase)
	})
	return err
}

// volumesSettled says which volumes lack the finalizer, which should be gone, and which have lost the finalizer while they were bound.
func volumesSettled(s *apiserver.Server) (wrong []string) {
	for _, v := range apiserver.All[*corev1.PersistentVolume](s) {
		switch has := slices.Contains(v.Finalizers, volumeProtection); {
		case !has && v.DeletionTimestamp == nil: // SM-23
			wrong = append(wrong, fmt.Sprintf("the volume %s lacks the finalizer", v.Name))
		case has && v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound: // SM-22
			wrong = append(wrong, fmt.Sprintf("the volume %s is still there, and it is not bound", v.Name))
		}
	}
	for _, e := range s.Since("persistentvolumes", 0) {
		if before, ok := e.Before.(*corev1.PersistentVolume); ok && lostFinalizer(e, volumeProtection) && before.Status.Phase == corev1.VolumeBound {
			wrong = append(wrong, fmt.Sprintf("the volume %s has lost the finalizer while it was bound", before.Name))
		}
	}
	return wrong
}

// lostFinalizer reports whether the manager has taken a finalizer off.
func lostFinalizer(e *apiserver.Event, finalizer string) bool {
	return managed(e.By) && e.Before != nil && slices.Contains(e.Before.GetFinalizers(), finalizer) &&
		(e.Type == "DELETED" || !slices.Contains(e.Object.GetFinalizers(), finalizer))
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
		Name:   "a volume that is released stays",
		Edits:  []Edit{{volumePlan, "case v.Status.Phase == corev1.VolumeBound:", "case v.Status.Phase != corev1.VolumeAvailable:"}},
		Script: withoutElection + "\n\t\t\tat 5s   volume disk\n\t\t\tat 10s  volume disk phase=Bound\n\t\t\tat 20s  volume disk do=delete\n\t\t\tat 30s  volume disk phase=Released",
		Oracle: SettledOracle,
	},
	{
		Name:   "a volume that has lost its finalizer does not get it back",
		Edits:  []Edit{{volumePlan, "case v.DeletionTimestamp == nil:", "case v.DeletionTimestamp == nil && v.Name == \"\":"}, {volumePlan, "case !protection.Due(v):", "case !protection.Due(v) || v.DeletionTimestamp == nil:"}},
		Script: withoutElection + "\n\t\t\tat 5s   volume disk\n\t\t\tat 10s  volume disk do=strip",
		Oracle: SettledOracle,
	},
	{
		Name:  "the deletion of a volume is not noticed",
		Edits: []Edit{{"pkg/controllers/pvprotection/controller.go", "if after != nil && !protection.Due(after) {", "if after != nil && (!protection.Due(after) || after.GetDeletionTimestamp() != nil) {"}},
		Script: withoutElection + `
			at 5s   volume disk
			at 20s  volume disk do=delete`,
		Oracle: SettledOracle,
	},
}

// volumeName is unique in the cluster.
func (u *User) volumeName(i int) string { return fmt.Sprint(u.Namespace, "-", i) }

func (u *User) createVolume(i int) {
	u.Helper()
	u.Try("create the volume "+u.volumeName(i), func() error {
		volume := newVolume(u.volumeName(i))
		u.mark(volume)
		_, err := u.Client.CoreV1().PersistentVolumes().Create(ctx(), volume, metav1.CreateOptions{})
		return ignoreExists(err)
	})
}

func (u *User) deleteVolume(i int) {
	u.Helper()
	u.Try("delete the volume "+u.volumeName(i), func() error {
		return ignoreNotFound(u.Client.CoreV1().PersistentVolumes().Delete(ctx(), u.volumeName(i), metav1.DeleteOptions{}))
	})
}

func (u *User) volumePhase(i int, phase corev1.PersistentVolumePhase) {
	u.Helper()
	u.Try(fmt.Sprintf("the volume %s is %s", u.volumeName(i), phase), func() error {
		_, err := u.Client.CoreV1().PersistentVolumes().Patch(ctx(), u.volumeName(i), types.MergePatchType, fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase),
			metav1.PatchOptions{}, "status")
		if phase == corev1.VolumeReleased { // an answer may have been lost
			err = ignoreNotFound(err)
		}
		return err
	})
}

func (u *User) waitVolumesGone(n int) {
	u.Helper()
	for i := range n {
		u.Wait("the volume "+u.volumeName(i)+" is gone", Patience, func() error {
			v, err := u.Client.CoreV1().PersistentVolumes().Get(ctx(), u.volumeName(i), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it exists: %+v, %w", v.Finalizers, err)
		})
	}
}
