package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const diskName = "kubernetes.io/csi/d^h"

// aDisk is a volume that is bound to the claim data.
func (s *scene) aDisk(modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: named("data")}
	claim.Spec.VolumeName, claim.Status.Phase = "disk", corev1.ClaimBound
	bound := s.User().Create(claim)
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	v.Spec.AccessModes = modes
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: bound.GetUID()}
	return s.User().Create(v).(*corev1.PersistentVolume)
}

// attachmentTo is the VolumeAttachment of the disk and a node.
func attachmentTo(node string) *storagev1.VolumeAttachment {
	name := "disk"
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName(diskName, node)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "d", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
		}}
}

// usesData is a pod on a node that uses the claim.
func usesData(node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: named("user")}
	p.Spec.NodeName = node
	p.Spec.Volumes = []corev1.Volume{{Name: "data",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	return p
}

func TestOneNodePerExclusiveVolume(t *testing.T) { // S30
	const broken = "is attached to n, too"
	one := corev1.ReadWriteOnce
	run(t, OneNodePerExclusiveVolume(), []history{
		{name: "AD-24 one after the other", write: func(s *scene) {
			s.aDisk(one)
			a := s.Manager().Create(attachmentTo("n"))
			s.Manager().Delete(a)
			s.Manager().Create(attachmentTo("m"))
		}},
		{name: "AD-24 two at once", write: func(s *scene) {
			s.aDisk(one)
			s.Manager().Create(attachmentTo("n"))
			s.Manager().Create(attachmentTo("m"))
		}, want: broken},
		{name: "AD-70 while the first one is being detached", write: func(s *scene) {
			s.aDisk(one)
			s.Manager().Terminate(s.Manager().Create(attachmentTo("n")))
			s.Manager().Create(attachmentTo("m"))
		}, want: broken},
		{name: "AD-24 many may have it", write: func(s *scene) {
			s.aDisk(one, corev1.ReadOnlyMany)
			s.Manager().Create(attachmentTo("n"))
			s.Manager().Create(attachmentTo("m"))
		}},
		{name: "a user has attached it a moment ago", write: func(s *scene) {
			s.aDisk(one)
			s.User().Create(attachmentTo("n"))
			s.Manager().Create(attachmentTo("m"))
		}},
		{name: "a user has attached it", write: func(s *scene) {
			s.aDisk(one)
			s.User().Create(attachmentTo("n"))
			s.Wait(time.Minute)
			s.Manager().Create(attachmentTo("m"))
		}, want: broken},
		{name: "AD-24 two at once of a volume that is no driver's", write: func(s *scene) {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{one}
			v.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "h"}
			s.User().Create(v)
			s.Manager().Create(attachmentTo("n"))
			s.Manager().Create(attachmentTo("m"))
		}, want: broken},
		{name: "another volume", write: func(s *scene) {
			s.aDisk(one)
			other := attachmentTo("m")
			name := "other"
			other.Spec.Source.PersistentVolumeName = &name
			s.Manager().Create(attachmentTo("n"))
			s.Manager().Create(other)
		}},
	})
}

func TestNoDetachWhileUsed(t *testing.T) { // S31
	const used, listed, needed, early = "is ready and has it in use", "lists the volume as attached", "a pod on the node n has needed it",
		"is not ready and has it in use, which no pod has needed for 5m"
	uses := func(o Object) { o.(*corev1.Node).Status.VolumesInUse = []corev1.UniqueVolumeName{diskName} }
	frees := func(o Object) { o.(*corev1.Node).Status.VolumesInUse = nil }
	lists := func(o Object) {
		o.(*corev1.Node).Status.VolumesAttached = []corev1.AttachedVolume{{Name: diskName}}
	}
	forgets := func(o Object) { o.(*corev1.Node).Status.VolumesAttached = nil }
	tainted := func(o Object) {
		o.(*corev1.Node).Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/out-of-service"}}
	}
	begin := func(s *scene, edits ...func(Object)) (a, node Object) {
		s.aDisk(corev1.ReadWriteOnce)
		node = s.User().Edit(s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), nodeIs(corev1.ConditionTrue))
		a = s.Manager().Create(attachmentTo("n"))
		for _, edit := range edits {
			node = s.User().Edit(node, edit)
		}
		s.Wait(time.Hour)
		return a, node
	}
	run(t, NoDetachWhileUsed(), []history{
		{name: "AD-32 it is free", write: func(s *scene) { a, _ := begin(s); s.Manager().Delete(a) }},
		{name: "AD-31 it is in use", write: func(s *scene) { a, _ := begin(s, uses); s.Manager().Delete(a) }, want: used},
		{name: "AD-31 a user deletes it", write: func(s *scene) { a, _ := begin(s, uses); s.User().Delete(a) }},
		{name: "AD-31 with a finalizer", write: func(s *scene) { a, _ := begin(s, uses); s.Manager().Terminate(a) }, want: used},
		{name: "it has been in use for a moment", write: func(s *scene) {
			a, node := begin(s)
			s.User().Edit(node, uses)
			s.Manager().Delete(a)
		}},
		{name: "AD-32 it is listed", write: func(s *scene) { a, _ := begin(s, lists); s.Manager().Delete(a) }, want: listed},
		{name: "AD-32 no more", write: func(s *scene) {
			a, node := begin(s, lists)
			s.Manager().Edit(node, forgets)
			s.Manager().Delete(a)
		}},
		{name: "AD-35 the node is out of service", write: func(s *scene) { a, _ := begin(s, uses, tainted); s.Manager().Delete(a) }},
		{name: "AD-62 the node is gone", write: func(s *scene) {
			a, node := begin(s, uses)
			s.User().Delete(node)
			s.Manager().Delete(a)
		}},
		{name: "AD-34 the node is not ready, and no pod has needed it for long", write: func(s *scene) {
			a, node := begin(s, uses)
			p := s.User().Create(usesData("n"))
			s.User().Edit(node, nodeIs(corev1.ConditionUnknown))
			s.User().Delete(p)
			s.Wait(6 * time.Minute)
			s.Manager().Delete(a)
		}},
		{name: "AD-34 a pod has needed it", write: func(s *scene) {
			a, node := begin(s, uses)
			p := s.User().Create(usesData("n"))
			s.User().Edit(node, nodeIs(corev1.ConditionUnknown))
			s.User().Delete(p)
			s.Wait(5 * time.Minute)
			s.Manager().Delete(a)
		}, want: early},
		{name: "AD-15 a pod needs it", write: func(s *scene) {
			a, _ := begin(s)
			s.User().Create(usesData("n"))
			s.Wait(time.Minute)
			s.Manager().Delete(a)
		}, want: needed},
		{name: "AD-18 it is being deleted, and may run", write: func(s *scene) {
			a, _ := begin(s, tainted)
			p := usesData("n")
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			s.User().Terminate(s.User().Create(p))
			s.Wait(time.Minute)
			s.Manager().Delete(a)
		}, want: needed},
		{name: "AD-15 it does not run any more", write: func(s *scene) {
			a, _ := begin(s)
			s.User().Terminate(s.User().Create(usesData("n")))
			s.Wait(time.Minute)
			s.Manager().Delete(a)
		}},
		{name: "AD-15 on another node", write: func(s *scene) {
			a, _ := begin(s)
			s.User().Create(usesData("m"))
			s.Wait(time.Minute)
			s.Manager().Delete(a)
		}},
		{name: "it is free again", write: func(s *scene) {
			a, node := begin(s, uses)
			s.User().Edit(node, frees)
			s.Manager().Delete(a)
		}},
	})
}
