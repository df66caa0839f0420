package persistentvolumebinder

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// claim is a claim shop/NAME of 2Gi and the class "fast", as words say otherwise: 5Gi, class=x, noclass, rwx, rox, block, attributes=x,
// volume=v, complete, chosen (bound by the controller), phase=Lost, deleting, selects=red, selected, asks=driver, oldclass=x.
func claim(name, words string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7",
			Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode: ptr.To(corev1.PersistentVolumeFilesystem),
			Resources:  corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "class":
			c.Spec.StorageClassName = &value
		case "noclass":
			c.Spec.StorageClassName = nil
		case "oldclass":
			c.Annotations[corev1.BetaStorageClassAnnotation] = value
		case "rwx":
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		case "rox":
			c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadOnlyMany)
		case "block":
			c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		case "nomode":
			c.Spec.VolumeMode = nil
		case "attributes":
			c.Spec.VolumeAttributesClassName = &value
		case "volume":
			c.Spec.VolumeName = value
		case "complete":
			c.Annotations[bindCompleted] = ""
		case "chosen":
			c.Annotations[boundByController] = yes
		case "phase":
			c.Status.Phase = corev1.PersistentVolumeClaimPhase(value)
		case "deleting":
			c.DeletionTimestamp, c.Finalizers = ptr.To(metav1.NewTime(epoch)), []string{"kubernetes.io/pvc-protection"}
		case "selects":
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"color": value}}
		case "unselectable":
			c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "color", Operator: "Odd"}}}
		case "selected":
			c.Annotations[selectedNode] = "node-1"
		case "asks":
			c.Annotations[provisioner], c.Annotations[betaProvisioner] = value, value
		case "migrated":
			c.Annotations[migratedTo] = value
		case "has":
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(value)}
			c.Status.AccessModes = c.Spec.AccessModes
		case "uid":
			c.UID = types.UID(value)
		default:
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(word)
		}
	}
	return c
}

// volume is a free volume of 2Gi and the class "fast", as words say otherwise: 5Gi, class=x, rwx (besides RWO), onlyrwx, rox, block,
// attributes=x, for=c (reserved), of=c (with its uid), other=c (with another uid), chosen, phase=Bound, deleting, color=red,
// policy=Delete, by=driver, csi, message=x, finalizer=x, oldclass=x.
func volume(name, words string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "8", Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:                    ptr.To(corev1.PersistentVolumeFilesystem),
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	reference := func(name, uid string) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: name, UID: types.UID(uid)}
	}
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "class":
			v.Spec.StorageClassName = value
		case "oldclass":
			v.Annotations[corev1.BetaStorageClassAnnotation] = value
		case "rwx":
			v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadWriteMany)
		case "rox":
			v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadOnlyMany)
		case "onlyrwx":
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		case "block":
			v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		case "nomode":
			v.Spec.VolumeMode = nil
		case "attributes":
			v.Spec.VolumeAttributesClassName = &value
		case "for":
			reference(value, "")
		case "of":
			reference(value, "uid-"+value)
		case "other":
			reference(value, "another")
		case "chosen":
			v.Annotations[boundByController] = yes
		case "phase":
			v.Status.Phase = corev1.PersistentVolumePhase(value)
		case "deleting":
			v.DeletionTimestamp = ptr.To(metav1.NewTime(epoch))
		case "color":
			v.Labels = map[string]string{"color": value}
		case "policy":
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(value)
		case "by":
			v.Annotations[provisionedBy] = value
		case "migrated":
			v.Annotations[migratedTo] = value
		case "csi":
			v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com"}
		case "message":
			v.Status.Message = value
		case "finalizer":
			v.Finalizers = append(v.Finalizers, value)
		case "resizing":
			v.Annotations[preResize] = value
		default:
			v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse(word)
		}
	}
	return v
}

// class is one of a provisioner; wait: its volumes are chosen when a pod is scheduled.
func class(name, provisioner string, words ...string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}},
		Provisioner:       provisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)}
	for _, word := range words {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "wait":
			c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
		case "default":
			c.Annotations["storageclass.kubernetes.io/is-default-class"] = "true"
		case "beta":
			c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] = "true"
		case "age":
			age, _ := time.ParseDuration(value)
			c.CreationTimestamp = metav1.NewTime(epoch.Add(-age))
		}
	}
	return c
}

// said renders a plan: its writes as differences, and its events.
func said(p plan.Plan) string {
	var all []string
	for _, step := range p.Steps {
		switch s := step.(type) {
		case plan.Change:
			all = append(all, difference(s))
		case plan.RecordEvent:
			all = append(all, fmt.Sprintf("%s %s: %s", s.Event.Type, s.Event.Reason, s.Event.Message))
		default:
			all = append(all, fmt.Sprintf("%T", s))
		}
	}
	return strings.Join(all, " | ")
}

// difference renders what a change does.
func difference(s plan.Change) string {
	var all []string
	add := func(what, before, after string) {
		if before != after {
			all = append(all, what+"="+after)
		}
	}
	annotations := func(before, after map[string]string) {
		for _, key := range []string{bindCompleted, boundByController, provisioner, betaProvisioner, migratedTo} {
			short := key[strings.LastIndex(key, "/")+1:]
			if strings.Contains(key, "beta") {
				short = "beta-" + short
			}
			was, is := before[key], after[key]
			if labels.Set(before).Has(key) && !labels.Set(after).Has(key) {
				is = "none"
			}
			if labels.Set(before).Has(key) == labels.Set(after).Has(key) && was == is {
				continue
			}
			all = append(all, short+"="+is)
		}
	}
	kind := "C"
	switch after := s.New.(type) {
	case *corev1.PersistentVolume:
		kind = "V"
		before := s.Old.(*corev1.PersistentVolume)
		add("claim", reference(before), reference(after))
		add("phase", string(before.Status.Phase), string(after.Status.Phase))
		add("message", before.Status.Message, after.Status.Message)
		add("finalizers", fmt.Sprint(before.Finalizers), fmt.Sprint(after.Finalizers))
		annotations(before.Annotations, after.Annotations)
	case *corev1.PersistentVolumeClaim:
		before := s.Old.(*corev1.PersistentVolumeClaim)
		add("volume", before.Spec.VolumeName, after.Spec.VolumeName)
		add("class", ptr.Deref(before.Spec.StorageClassName, "none"), ptr.Deref(after.Spec.StorageClassName, "none"))
		add("phase", string(before.Status.Phase), string(after.Status.Phase))
		add("modes", fmt.Sprint(before.Status.AccessModes), fmt.Sprint(after.Status.AccessModes))
		was, is := before.Status.Capacity[corev1.ResourceStorage], after.Status.Capacity[corev1.ResourceStorage]
		add("capacity", was.String(), is.String())
		add("attributes", ptr.Deref(before.Status.CurrentVolumeAttributesClassName, ""),
			ptr.Deref(after.Status.CurrentVolumeAttributesClassName, ""))
		annotations(before.Annotations, after.Annotations)
	}
	if s.Subresource != "" {
		kind += "/" + s.Subresource
	}
	return kind + " " + strings.Join(all, " ")
}

func reference(v *corev1.PersistentVolume) string {
	ref := v.Spec.ClaimRef
	if ref == nil {
		return "none"
	}
	return ref.Name + "(" + string(ref.UID) + ")"
}

// outcome is that of a plan.
func outcome(fails bool) (did plan.Outcome) {
	if fails {
		did.Err = errors.New("refused")
	}
	return did
}

// created returns the volume as one that is so old.
func created(v *corev1.PersistentVolume, age time.Duration) *corev1.PersistentVolume {
	v.CreationTimestamp = metav1.NewTime(epoch.Add(-age))
	return v
}
