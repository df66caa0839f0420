package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStorageIsProtectedWhileUsedClaims(t *testing.T) { // S29
	// aPod has an ephemeral volume, and a claim is the one that it wants.
	aPod := func(s *scene) Object {
		return s.User().Create(&corev1.Pod{ObjectMeta: named("p"), Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}, {Name: "w"}}}})
	}
	claim := func(name string, of Object) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: named(name)}
		if of != nil {
			ownedBy(c, Pod, of)
		}
		return c
	}
	run(t, StorageIsProtectedWhileUsed(), []history{
		{name: "ST-22 a pod gets its claim, and both go", write: func(s *scene) {
			p := aPod(s)
			c := s.Manager().Create(claim("p-v", p))
			s.User().Delete(p)
			s.Manager().Delete(c)
		}},
		{name: "ST-22 a claim for a volume that is not ephemeral", write: func(s *scene) {
			s.Manager().Create(claim("p-w", aPod(s)))
		}, want: "has no such volume"},
		{name: "ST-22 a claim for a pod that never was", write: func(s *scene) {
			s.Manager().Create(claim("p-v", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "x"}}))
		}, want: "never existed"},
		{name: "ST-22 a claim for a pod that is gone since long", write: func(s *scene) {
			p := aPod(s)
			s.User().Delete(p)
			s.Wait(time.Minute)
			s.Manager().Create(claim("p-v", p))
		}, want: "a pod that is gone"},
		{name: "a claim for a pod that has just gone", write: func(s *scene) {
			p := aPod(s)
			s.User().Delete(p)
			s.Manager().Create(claim("p-v", p))
		}},
		{name: "ST-24 a claim of nobody becomes that of a pod", write: func(s *scene) {
			p := aPod(s)
			s.Manager().Edit(s.User().Create(claim("p-v", nil)), func(o Object) { ownedBy(o, Pod, p) })
		}, want: "somebody else"},
		{name: "a user makes it that of a pod", write: func(s *scene) {
			p := aPod(s)
			s.User().Edit(s.User().Create(claim("p-v", nil)), func(o Object) { ownedBy(o, Pod, p) })
		}},
		{name: "a claim goes before its pod", write: func(s *scene) {
			s.Manager().Delete(s.Manager().Create(claim("p-v", aPod(s))))
		}, want: "before its pod"},
		{name: "a claim goes with its namespace", write: func(s *scene) {
			ns := s.User().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
			c := s.Manager().Create(claim("p-v", aPod(s)))
			s.User().Terminate(ns)
			s.Manager().Delete(c)
		}},
		{name: "a claim that belongs to a pod, but to none of its volumes, as those of StatefulSets", write: func(s *scene) {
			p := aPod(s)
			s.Manager().Edit(s.User().Create(claim("data-p", nil)), func(o Object) { ownedBy(o, Pod, p) })
		}},
		{name: "a user deletes it", write: func(s *scene) {
			s.User().Delete(s.Manager().Create(claim("p-v", aPod(s))))
		}},
	})
}

func TestStorageIsProtectedWhileUsedClasses(t *testing.T) { // S29
	const broken = "the class may go"
	doomed := func(s *scene) Object {
		c := s.User().Create(&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold",
			Finalizers: []string{attributesFinalizer, "x"}}})
		return s.User().Terminate(c)
	}
	release := func(o Object) { o.SetFinalizers([]string{"x"}) }
	gold, silver := "gold", "silver"
	claim := func(s *scene, edit func(*corev1.PersistentVolumeClaim)) Object {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: named("data")}
		edit(c)
		return s.User().Create(c)
	}
	spec := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &gold }
	used := func(by func(*corev1.PersistentVolumeClaim)) func(*scene) {
		return func(s *scene) {
			claim(s, by)
			s.Wait(time.Minute)
			s.Manager().Edit(doomed(s), release)
		}
	}
	run(t, StorageIsProtectedWhileUsed(), []history{
		{name: "ST-43 nobody uses it", write: func(s *scene) {
			claim(s, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &silver })
			s.Wait(time.Minute)
			s.Manager().Edit(doomed(s), release)
		}},
		{name: "ST-42 a claim is to have it", write: used(spec), want: broken},
		{name: "ST-42 a claim has it",
			write: used(func(c *corev1.PersistentVolumeClaim) { c.Status.CurrentVolumeAttributesClassName = &gold }), want: broken},
		{name: "ST-42 a claim is about to have it", write: used(func(c *corev1.PersistentVolumeClaim) {
			c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: gold}
		}), want: broken},
		{name: "ST-42 a volume has it", write: func(s *scene) {
			s.User().Create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"},
				Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: &gold}})
			s.Wait(time.Minute)
			s.Manager().Release(doomed(s))
		}, want: broken},
		{name: "ST-44 a claim came a moment ago", write: func(s *scene) {
			c := doomed(s)
			claim(s, spec)
			s.Manager().Edit(c, release)
		}},
		{name: "ST-41 the claim is gone", write: func(s *scene) {
			c := claim(s, spec)
			s.Wait(time.Minute)
			s.User().Delete(c)
			s.Manager().Edit(doomed(s), release)
		}},
		{name: "ST-41 the claim has another class", write: func(s *scene) {
			c := claim(s, spec)
			s.Wait(time.Minute)
			s.User().Edit(c, func(o Object) { o.(*corev1.PersistentVolumeClaim).Spec.VolumeAttributesClassName = &silver })
			s.Manager().Edit(doomed(s), release)
		}},
		{name: "a user takes it off", write: func(s *scene) {
			claim(s, spec)
			s.Wait(time.Minute)
			s.User().Edit(doomed(s), release)
		}},
		{name: "a manager takes another one off", write: func(s *scene) {
			claim(s, spec)
			s.Wait(time.Minute)
			s.Manager().Edit(doomed(s), func(o Object) { o.SetFinalizers([]string{attributesFinalizer}) })
		}},
	})
}

func TestStorageIsProtectedWhileUsedProtection(t *testing.T) { // S29
	const claimBroken, volumeBroken = "the claim may go", "the volume may go"
	// aClaim is being deleted, after somebody has used it for a minute.
	aClaim := func(s *scene, users ...*corev1.Pod) Object {
		c := s.User().Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data",
			Finalizers: []string{claimFinalizer, "x"}}})
		for _, p := range users {
			s.User().Create(p)
		}
		s.Wait(time.Minute)
		return s.User().Terminate(c)
	}
	off := func(o Object) { o.SetFinalizers([]string{"x"}) }
	aVolume := func(s *scene, phase corev1.PersistentVolumePhase) Object {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk", Finalizers: []string{volumeFinalizer}}}
		v.Status.Phase = phase
		return s.User().Terminate(s.User().Create(v))
	}
	ended := usesData("n")
	ended.Status.Phase = corev1.PodSucceeded
	run(t, StorageIsProtectedWhileUsed(), []history{
		{name: "SM-35 nobody uses it", write: func(s *scene) { s.Manager().Edit(aClaim(s), off) }},
		{name: "SM-36 a pod uses it", write: func(s *scene) { s.Manager().Edit(aClaim(s, usesData("n")), off) }, want: claimBroken},
		{name: "SM-36 a pod that has ended uses it", write: func(s *scene) { s.Manager().Edit(aClaim(s, ended), off) }, want: claimBroken},
		{name: "SM-36 its last finalizer", write: func(s *scene) { s.Manager().Release(aClaim(s, usesData("n"))) }, want: claimBroken},
		{name: "SM-36 a pod without a node", write: func(s *scene) { s.Manager().Edit(aClaim(s, usesData("")), off) }},
		{name: "SM-37 a pod that came a moment ago", write: func(s *scene) {
			c := aClaim(s)
			s.User().Create(usesData("n"))
			s.Manager().Edit(c, off)
		}},
		{name: "SM-36 the pod is gone", write: func(s *scene) {
			c := aClaim(s, usesData("n"))
			s.User().Delete(s.Revisions[1].Object)
			s.Manager().Edit(c, off)
		}},
		{name: "a user takes it off", write: func(s *scene) { s.User().Edit(aClaim(s, usesData("n")), off) }},
		{name: "SM-22 a volume that is released", write: func(s *scene) { s.Manager().Release(aVolume(s, corev1.VolumeReleased)) }},
		{name: "SM-22 a volume that is bound", write: func(s *scene) { s.Manager().Release(aVolume(s, corev1.VolumeBound)) },
			want: volumeBroken},
		{name: "a user lets a bound volume go", write: func(s *scene) { s.User().Release(aVolume(s, corev1.VolumeBound)) }},
	})
}
