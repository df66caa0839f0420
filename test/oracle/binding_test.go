package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func wants(name string, edits ...func(Object)) Object {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: named(name), Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: pointer("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
	}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	all(edits...)(c)
	return c
}

func disk(name string, edits ...func(Object)) Object {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: "fast", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
	}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable}}
	all(edits...)(v)
	return v
}

// isFor is the claimRef of a volume.
func isFor(claim string, uid types.UID) func(Object) {
	return func(o Object) {
		o.(*corev1.PersistentVolume).Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: claim, UID: uid}
	}
}

func isFree(o Object) { o.(*corev1.PersistentVolume).Spec.ClaimRef = nil }

// hasVolume is what a claim says that was bound.
func hasVolume(name string) func(Object) {
	return func(o Object) {
		c := o.(*corev1.PersistentVolumeClaim)
		c.Spec.VolumeName = name
		annotate("pv.kubernetes.io/bind-completed", "yes")(c)
	}
}

func claimPhase(p corev1.PersistentVolumeClaimPhase) func(Object) {
	return func(o Object) { o.(*corev1.PersistentVolumeClaim).Status.Phase = p }
}

func diskPhase(p corev1.PersistentVolumePhase) func(Object) {
	return func(o Object) { o.(*corev1.PersistentVolume).Status.Phase = p }
}

// pair binds a claim and a volume as a manager does.
func (s *scene) pair(claim, volume Object) (c, v Object) {
	v = s.Manager().Edit(volume, isFor(claim.GetName(), claim.GetUID()))
	v = s.Manager().Edit(v, diskPhase(corev1.VolumeBound))
	c = s.Manager().Edit(claim, hasVolume(v.GetName()))
	return s.Manager().Edit(c, claimPhase(corev1.ClaimBound)), v
}

func TestOneClaimPerVolume(t *testing.T) { // S32
	run(t, OneClaimPerVolume(), []history{
		{name: "PV-34 a pair", write: func(s *scene) { s.pair(s.User().Create(wants("a")), s.User().Create(disk("v"))) }},
		{name: "PV-22 a volume that is reserved by name",
			write: func(s *scene) { s.pair(s.User().Create(wants("a")), s.User().Create(disk("v", isFor("a", "")))) }},
		{name: "PV-44 a volume that a driver has made", write: func(s *scene) {
			a := s.User().Create(wants("a"))
			v := s.User().Create(disk("v", isFor("a", a.GetUID())))
			s.Manager().Edit(s.Manager().Edit(a, hasVolume("v")), claimPhase(corev1.ClaimBound))
			s.Manager().Edit(v, diskPhase(corev1.VolumeBound))
		}},
		{name: "PV-34 the claim is bound before the volume is reserved", write: func(s *scene) {
			a := s.User().Create(wants("a"))
			s.User().Create(disk("v"))
			s.Wait(time.Minute)
			s.Manager().Edit(a, hasVolume("v"))
		}, want: "is bound to the volume v, which is for"},
		{name: "PV-20 there is no such volume", write: func(s *scene) { s.Manager().Edit(s.User().Create(wants("a")), hasVolume("v")) },
			want: "which does not exist"},
		{name: "PV-26 another claim has the volume", write: func(s *scene) {
			s.pair(s.User().Create(wants("a")), s.User().Create(disk("v")))
			s.Manager().Edit(s.User().Create(wants("b")), hasVolume("v"))
		}, want: "is bound to the volume v, which the claim shop/a has"},
		{name: "PV-22 a volume is taken from its claim", write: func(s *scene) {
			_, v := s.pair(s.User().Create(wants("a")), s.User().Create(disk("v")))
			b := s.User().Create(wants("b"))
			s.Manager().Edit(v, isFor("b", b.GetUID()))
		}, want: "it was for {namespace:shop name:a"},
		{name: "PV-51 a volume is taken from a claim that is gone", write: func(s *scene) {
			a, v := s.pair(s.User().Create(wants("a")), s.User().Create(disk("v")))
			s.User().Delete(a)
			b := s.User().Create(wants("a"))
			s.Manager().Edit(v, isFor("a", b.GetUID()))
		}, want: "it was for"},
		{name: "a second volume for a claim", write: func(s *scene) {
			a, _ := s.pair(s.User().Create(wants("a")), s.User().Create(disk("v")))
			w := s.User().Create(disk("w"))
			s.Wait(time.Minute)
			s.Manager().Edit(w, isFor("a", a.GetUID()))
		}, want: "it is taken for a claim that has the volume v"},
		{name: "a user takes a volume from a claim", write: func(s *scene) {
			_, v := s.pair(s.User().Create(wants("a")), s.User().Create(disk("v")))
			s.User().Edit(v, isFor("b", "x"))
		}},
		{name: "a user has just changed the volume", write: func(s *scene) {
			a := s.User().Create(wants("a"))
			v := s.Manager().Edit(s.User().Create(disk("v")), isFor("a", a.GetUID()))
			s.User().Edit(v, isFor("b", "x"))
			s.Manager().Edit(a, hasVolume("v"))
		}},
	})
}

func TestNoReleaseWhileTheClaimLives(t *testing.T) { // S33
	begin := func(s *scene) (a, v Object) { return s.pair(s.User().Create(wants("a")), s.User().Create(disk("v"))) }
	run(t, NoReleaseWhileTheClaimLives(), []history{
		{name: "PV-37 its claim is gone", write: func(s *scene) {
			a, v := begin(s)
			s.User().Delete(a)
			s.Manager().Edit(v, diskPhase(corev1.VolumeReleased))
		}},
		{name: "PV-37 its claim is there", write: func(s *scene) {
			_, v := begin(s)
			s.Manager().Edit(v, diskPhase(corev1.VolumeReleased))
		}, want: "it is Released, while its claim shop/a"},
		{name: "PV-37 its claim is there, being deleted", write: func(s *scene) {
			a, v := begin(s)
			s.User().Terminate(a)
			s.Manager().Edit(v, diskPhase(corev1.VolumeFailed))
		}, want: "it is Failed, while its claim shop/a"},
		{name: "PV-37 there is another claim of the name", write: func(s *scene) {
			a, v := begin(s)
			s.User().Delete(a)
			s.User().Create(wants("a"))
			s.Manager().Edit(v, diskPhase(corev1.VolumeReleased))
		}},
		{name: "PV-39 its claim has another volume", write: func(s *scene) {
			a, _ := begin(s)
			w := s.User().Create(disk("w", isFor("a", a.GetUID())))
			s.Manager().Edit(w, diskPhase(corev1.VolumeReleased))
		}},
		{name: "PV-54 it is deleted", write: func(s *scene) {
			_, v := begin(s)
			s.Manager().Delete(v)
		}, want: "it is deleted, while its claim"},
		{name: "a user says that it is Released", write: func(s *scene) {
			_, v := begin(s)
			s.User().Edit(v, diskPhase(corev1.VolumeReleased))
		}},
	})
}

func TestBindingsLast(t *testing.T) { // S34
	begin := func(s *scene) (a, v Object) {
		a, v = s.pair(s.User().Create(wants("a")), s.User().Create(disk("v")))
		s.Wait(time.Minute)
		return a, v
	}
	run(t, BindingsLast(), []history{
		{name: "nothing happens", write: func(s *scene) { a, _ := begin(s); s.Manager().Edit(a, annotate("x", "y")) }},
		{name: "PV-24 the claim is Lost", write: func(s *scene) { a, _ := begin(s); s.Manager().Edit(a, claimPhase(corev1.ClaimLost)) },
			want: "and says Lost now"},
		{name: "PV-25 a claim that a backup has brought is Lost", write: func(s *scene) {
			s.User().Create(disk("v", isFor("a", "")))
			a := s.User().Create(wants("a", hasVolume("v"),
				func(o Object) { o.SetAnnotations(map[string]string{"pv.kubernetes.io/bind-completed": "yes"}) }))
			s.Wait(time.Minute)
			s.Manager().Edit(a, claimPhase(corev1.ClaimLost))
		}, want: "and says Lost now"},
		{name: "PV-26 the volume that it brought is for another claim", write: func(s *scene) {
			s.User().Create(disk("v", isFor("a", "x")))
			a := s.User().Create(wants("a", hasVolume("v"),
				func(o Object) { o.SetAnnotations(map[string]string{"pv.kubernetes.io/bind-completed": "yes"}) }))
			s.Wait(time.Minute)
			s.Manager().Edit(a, claimPhase(corev1.ClaimLost))
		}},
		{name: "PV-24 its volume is gone", write: func(s *scene) {
			a, v := begin(s)
			s.User().Delete(v)
			s.Manager().Edit(a, claimPhase(corev1.ClaimLost))
		}},
		{name: "PV-26 its volume is for another claim", write: func(s *scene) {
			a, v := begin(s)
			s.User().Edit(v, isFor("b", "x"))
			s.Manager().Edit(a, claimPhase(corev1.ClaimLost))
		}},
		{name: "PV-24 its volume has just come back", write: func(s *scene) {
			a, v := begin(s)
			s.User().Delete(v)
			s.User().Create(disk("v", isFor("a", a.GetUID())))
			s.Manager().Edit(a, claimPhase(corev1.ClaimLost))
		}},
		{name: "PV-6 the claim forgets that it was bound", write: func(s *scene) {
			a, _ := begin(s)
			s.Manager().Edit(a, func(o Object) { o.SetAnnotations(nil) })
		}, want: "and says Bound now"},
		{name: "PV-36 the volume is let go", write: func(s *scene) { _, v := begin(s); s.Manager().Edit(v, isFree) },
			want: "the claim shop/a is bound to it"},
		{name: "PV-36 the volume is Available",
			write: func(s *scene) { _, v := begin(s); s.Manager().Edit(v, diskPhase(corev1.VolumeAvailable)) },
			want:  "it is Available for"},
		{name: "a user lets it go", write: func(s *scene) { _, v := begin(s); s.User().Edit(v, isFree) }},
	})
}

func TestWhatCanBeBoundIsBound(t *testing.T) { // S35
	settled := Options{Settled: true, Unhindered: true, Binds: true}
	aClass := func(provisioner string, mode storagev1.VolumeBindingMode, annotations ...string) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{}},
			Provisioner: provisioner, VolumeBindingMode: &mode}
		for _, a := range annotations {
			c.Annotations[a] = "true"
		}
		return c
	}
	const wait, now = storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	both := func(c func(Object), v ...func(Object)) func(*scene) {
		return func(s *scene) {
			s.User().Create(wants("a", c))
			s.User().Create(disk("v", v...))
		}
	}
	same := func(Object) {}
	run(t, WhatCanBeBoundIsBound(), []history{
		{name: "PV-34 a pair is bound", options: settled,
			write: func(s *scene) { s.pair(s.User().Create(wants("a")), s.User().Create(disk("v"))) }},
		{name: "PV-31 a volume fits", options: settled, write: both(same), want: "Pending: the volume v is free and fits"},
		{name: "PV-31 nobody binds", write: both(same)},
		{name: "PV-29 it is too small", options: settled, write: both(same, func(o Object) {
			o.(*corev1.PersistentVolume).Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		})},
		{name: "PV-31 it has another class", options: settled,
			write: both(same, func(o Object) { o.(*corev1.PersistentVolume).Spec.StorageClassName = "x" })},
		{name: "PV-31 it is not selected", options: settled, write: both(func(o Object) {
			o.(*corev1.PersistentVolumeClaim).Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"color": "red"}}
		})},
		{name: "PV-28 it lacks an access mode", options: settled, write: both(func(o Object) {
			o.(*corev1.PersistentVolumeClaim).Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		})},
		{name: "PV-30 it is reserved", options: settled, write: both(same, isFor("a", "")), want: "the volume v is reserved for it"},
		{name: "PV-22 it is named", options: settled,
			write: both(func(o Object) { o.(*corev1.PersistentVolumeClaim).Spec.VolumeName = "v" }),
			want:  "the volume v that it names is free"},
		{name: "PV-32 a pod is waited for", options: settled, write: func(s *scene) {
			s.User().Create(aClass("d", wait))
			both(same)(s)
		}},
		{name: "PV-43 the driver is asked when a node was selected", options: settled, write: func(s *scene) {
			s.User().Create(aClass("d", wait))
			s.User().Create(wants("a", annotate("volume.kubernetes.io/selected-node", "n")))
		}, want: "the driver d was not asked"},
		{name: "PV-43 the driver was not asked", options: settled, write: func(s *scene) {
			s.User().Create(aClass("d", now))
			s.User().Create(wants("a"))
		}, want: `the driver d was not asked, but ""`},
		{name: "PV-43 the driver was asked", options: settled, write: func(s *scene) {
			s.User().Create(aClass("d", now))
			s.User().Create(wants("a", annotate("volume.kubernetes.io/storage-provisioner", "d")))
		}},
		{name: "PV-41 there is no driver", options: settled, write: func(s *scene) {
			s.User().Create(aClass("kubernetes.io/no-provisioner", now))
			s.User().Create(wants("a"))
		}},
		{name: "PV-16 the default class", options: settled, write: func(s *scene) {
			s.User().Create(aClass("d", now, "storageclass.kubernetes.io/is-default-class"))
			s.User().Create(wants("a", func(o Object) { o.(*corev1.PersistentVolumeClaim).Spec.StorageClassName = nil }))
		}, want: "it has no class, and fast is the default class"},
		{name: "PV-34 a pair is not finished", options: settled, write: func(s *scene) {
			a := s.User().Create(wants("a"))
			s.Manager().Edit(s.User().Create(disk("v")), all(isFor("a", a.GetUID()), diskPhase(corev1.VolumeBound)))
			s.Manager().Edit(a, hasVolume("v"))
		}, want: "the volume v is for it"},
		{name: "PV-26 a claim is Bound to a volume that is not its own", options: settled, write: func(s *scene) {
			_, v := s.pair(s.User().Create(wants("a")), s.User().Create(disk("v")))
			b := s.User().Create(wants("b", func(o Object) { o.SetDeletionTimestamp(&metav1.Time{Time: s.Now}) }))
			s.User().Edit(v, isFor("b", b.GetUID()))
		}, want: "the volume v is not for it"},
		{name: "PV-36 a free volume says so", options: settled,
			write: func(s *scene) { s.User().Create(disk("v", diskPhase(corev1.VolumePending))) }, want: "Pending: it is for nobody"},
		{name: "PV-36 so does one that is reserved", options: settled, write: func(s *scene) {
			s.User().Create(disk("v", isFor("a", ""), diskPhase(corev1.VolumeReleased)))
		}, want: "it is reserved, and nothing more"},
		{name: "PV-37 a volume whose claim is gone", options: settled, write: func(s *scene) {
			a, _ := s.pair(s.User().Create(wants("a")), s.User().Create(disk("v")))
			s.User().Delete(a)
		}, want: "Bound: its claim is gone"},
		{name: "PV-37 it is Released", options: settled, write: func(s *scene) {
			a, v := s.pair(s.User().Create(wants("a")), s.User().Create(disk("v")))
			s.User().Delete(a)
			s.Manager().Edit(v, diskPhase(corev1.VolumeReleased))
		}},
	})
}
