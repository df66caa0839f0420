package pvprotection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const finalizer = "kubernetes.io/pv-protection"

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*corev1.PersistentVolume)

// volume is one that has just been created where no admission plugin adds the finalizer.
func volume(edits ...edit) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk", UID: "uid-disk", ResourceVersion: "5",
		Labels: map[string]string{"a": "b"}}}
	for _, edit := range edits {
		edit(v)
	}
	return v
}

func with(finalizers ...string) edit {
	return func(v *corev1.PersistentVolume) { v.Finalizers = finalizers }
}

func leaving(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{Time: epoch} }

func phase(p corev1.PersistentVolumePhase) edit {
	return func(v *corev1.PersistentVolume) { v.Status.Phase = p }
}

// A row is a sentence. want are the finalizers that are written; nil for no write.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name   string
		volume *corev1.PersistentVolume
		want   []string
	}{
		{"a volume that is gone", nil, nil},
		{"SM-20 SM-23 a volume that lacks the finalizer gets it", volume(), []string{finalizer}},
		{"SM-23 other finalizers stay", volume(with("example.com/a")), []string{"example.com/a", finalizer}},
		{"SM-23 a volume that has it", volume(with(finalizer)), nil},
		{"SM-20 a bound volume that lacks it", volume(phase(corev1.VolumeBound)), []string{finalizer}},
		{"SM-22 a bound volume that is being deleted stays", volume(leaving, with(finalizer), phase(corev1.VolumeBound)), nil},
		{"SM-22 one whose claim is gone may go", volume(leaving, with("example.com/a", finalizer), phase(corev1.VolumeReleased)),
			[]string{"example.com/a"}},
		{"SM-22 one that was never bound", volume(leaving, with(finalizer), phase(corev1.VolumeAvailable)), []string{}},
		{"SM-22 one of which nothing is known", volume(leaving, with(finalizer)), []string{}},
		{"SM-22 one that has failed", volume(leaving, with(finalizer), phase(corev1.VolumeFailed)), []string{}},
		{"SM-21 one that is being deleted gets no finalizer any more", volume(leaving), nil},
		{"a finalizer that is there twice", volume(leaving, with(finalizer, "example.com/a", finalizer)), []string{"example.com/a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.volume.DeepCopy()
			p := planFinalizer(epoch, snapshot{Volume: c.volume})
			if p.Why == "" || p.Requeue != 0 {
				t.Errorf("%+v", p)
			}
			if diff := cmp.Diff(c.want, written(t, p)); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if diff := cmp.Diff(before, c.volume); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

// written returns the finalizers that a plan writes, and checks that it changes nothing else.
func written(t interface{ Errorf(string, ...any) }, p plan.Plan) []string {
	if p.Empty() {
		return nil
	}
	step := p.Steps[0].(plan.Change)
	before, after := step.Old.(*corev1.PersistentVolume).DeepCopy(), step.New.(*corev1.PersistentVolume)
	before.Finalizers = after.Finalizers
	if diff := cmp.Diff(before, after); diff != "" || len(p.Steps) != 1 {
		t.Errorf("more is changed than finalizers: %s", diff)
	}
	return after.Finalizers
}

func TestEnqueues(t *testing.T) { // SM-21
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          int
	}{
		{"a new volume that lacks the finalizer", nil, volume(), 1},
		{"one that has lost it", volume(with(finalizer)), volume(), 1},
		{"one that has it", nil, volume(with(finalizer)), 0},
		{"one that is being deleted and has it", volume(with(finalizer)), volume(leaving, with(finalizer)), 1},
		{"one that is being deleted and lacks it", volume(leaving, with(finalizer)), volume(leaving), 0},
		{"one that is gone", volume(leaving, with(finalizer)), nil, 1},
	} {
		keys := protection.Enqueues(c.before, c.after)
		if len(keys) != c.want || c.want == 1 && keys[0] != (plan.Key{Name: "disk"}) {
			t.Errorf("%s enqueues %v", c.name, keys)
		}
	}
}
