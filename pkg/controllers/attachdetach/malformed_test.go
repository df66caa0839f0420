package attachdetach

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Whatever the objects are, nothing panics, and nothing that was observed is changed.
func TestAnyObjectsAtAll(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		w.clear()
		names := func(o plan.Object, i int) plan.Object {
			fill(o)
			o.SetName(fmt.Sprint("o", i))
			o.SetUID(types.UID(fmt.Sprintf("%T%d", o, i)))
			if o.SetNamespace(""); o.GetObjectKind() != nil {
				switch o.(type) {
				case *corev1.Pod, *corev1.PersistentVolumeClaim:
					o.SetNamespace("shop")
				}
			}
			return o
		}
		var before []plan.Object
		for i := range 3 {
			n, p, c, pv, a := &corev1.Node{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{},
				&storagev1.VolumeAttachment{}
			for _, o := range []plan.Object{n, p, c, pv, a} {
				names(o, i)
			}
			if rapid.Bool().Draw(t, "they belong together") {
				n.Annotations = map[string]string{managedNode: ""}
				p.Spec.NodeName, a.Spec.NodeName = n.Name, n.Name
				p.Spec.Volumes = append(p.Spec.Volumes,
					corev1.Volume{
						VolumeSource: corev1.VolumeSource{
							PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}})
				c.Spec.VolumeName, c.Status.Phase = pv.Name, corev1.ClaimBound
				pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: c.Name, UID: c.UID}
				a.Spec.Source = storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}
			}
			for _, o := range []plan.Object{n, p, c, pv, a} {
				before = append(before, o.DeepCopyObject().(plan.Object))
				w.add(t, o)
				w.enqueued(nil, o)
				w.enqueued(o, o)
				w.enqueued(o, nil)
			}
		}
		proved := rapid.Bool().Draw(t, "proved")
		w.term.Update(func(t term) term { t.CachesCompared = proved; return t })
		for key := range w.keys {
			v, err := w.observeVolume(t.Context(), reconcile.Request[volumeMemory]{Key: key, Now: epoch})
			if err != nil {
				t.Fatal(err)
			}
			d, _ := planVolume(epoch, v.Snapshot)
			rememberVolume(epoch, v.Snapshot, d, plan.Outcome{})
			v.Snapshot.live()
			n, err := w.observeNode(t.Context(), reconcile.Request[nodeMemory]{Key: key, Now: epoch})
			if err != nil {
				t.Fatal(err)
			}
			for _, read := range []bool{false, true} {
				s := n.Snapshot
				s.Read, s.Live = read, s.Node
				d, _ := planNode(epoch, s)
				rememberNode(epoch, s, d, plan.Outcome{})
			}
		}
		w.countVolumes(func(float64, ...string) {})
		if diff := cmp.Diff(before, w.objects); diff != "" {
			t.Errorf("what was observed is changed: %s", diff)
		}
	})
}
