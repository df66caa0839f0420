package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const classFinalizer = "kubernetes.io/vac-protection"

// withEphemeral makes a pod on no node, with ephemeral volumes of these names.
func (b *bench) withEphemeral(name string, volumes ...string) *corev1.Pod {
	b.Helper()
	return b.mounting(name, "x", func(p *corev1.Pod) {
		p.Spec.NodeSelector, p.Spec.Volumes = map[string]string{"no": "node"}, nil
		for _, v := range volumes {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: v, VolumeSource: corev1.VolumeSource{Ephemeral: oneGibibyte()}})
		}
	})
}

func oneGibibyte() *corev1.EphemeralVolumeSource {
	return &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"of": "template"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(
				"1Gi")}},
		},
	}}
}

func (b *bench) getClaim(name string) (*corev1.PersistentVolumeClaim, error) {
	return b.Client.CoreV1().PersistentVolumeClaims(b.ns).Get(b.Context(), name, metav1.GetOptions{})
}

// waitOwned waits until a claim belongs to a pod, and returns it.
func (b *bench) waitOwned(claim string, pod *corev1.Pod) (found *corev1.PersistentVolumeClaim) {
	b.Helper()
	b.wait("the claim "+claim+" belongs to the pod "+pod.Name, func() (err error) {
		if found, err = b.getClaim(claim); err == nil && !metav1.IsControlledBy(found, pod) {
			err = fmt.Errorf("it does not: %v", found.OwnerReferences)
		}
		return err
	})
	return found
}

// said waits until events about an object have been recorded so many times in all, with this reason and message.
func (b *bench) said(object, reason, message string, times int32) {
	b.Helper()
	b.wait("events say: "+message, func() error {
		events, err := b.Client.CoreV1().Events(b.ns).List(b.Context(),
			metav1.ListOptions{FieldSelector: "reason=" + reason + ",involvedObject.name=" + object})
		if err != nil {
			return err
		}
		var others []string
		for _, e := range events.Items {
			if e.Message == message && e.Count >= times {
				return nil
			}
			others = append(others, fmt.Sprint(e.Count, " ", e.Message))
		}
		return fmt.Errorf("they say %q", others)
	})
}

// Each ephemeral volume of a pod gets a claim of its own, also after somebody has deleted that; a claim of somebody else is not taken,
// and pods that have ended get none.
func TestEphemeralVolumes(t *testing.T) { // ST-20 to ST-24, ST-85
	b := share(t)
	b.claim("web-taken")
	web := b.withEphemeral("web", "taken", "data")
	made := b.waitOwned("web-data", web)
	ref := made.OwnerReferences[0]
	if made.Labels["of"] != "template" || len(made.OwnerReferences) != 1 || !ptr.Deref(ref.BlockOwnerDeletion, false) {
		t.Errorf("%+v", made.ObjectMeta)
	}
	b.said("web", "FailedBinding",
		fmt.Sprintf("ephemeral volume taken: PVC %s/web-taken was not created for pod %s/web (pod is not owner)", b.ns, b.ns), 1)
	ended := b.withEphemeral("ended", "data")
	first := b.waitOwned("ended-data", ended)
	b.endPod(*ended, corev1.PodFailed)
	b.deleteClaim("web-data")
	b.wait("a claim that was deleted is made anew", func() error {
		c, err := b.getClaim("web-data")
		if err == nil && c.UID == made.UID {
			err = fmt.Errorf("it is the same one")
		}
		return err
	})
	b.deleteClaim("ended-data")
	b.claimIs("ended-data", "gone")
	if c, err := b.getClaim("web-taken"); err != nil || len(c.OwnerReferences) > 0 {
		t.Errorf("the claim of somebody else: %+v, %v", c, err)
	}
	b.deleteClaim("web-taken")
	b.waitOwned("web-taken", web)
	if c, err := b.getClaim("ended-data"); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that has ended has another claim than %s: %v, %v", first.UID, c.UID, err)
	}
	b.removePod("web")
	b.claimIs("web-taken", "gone") // by the garbage collector
	b.claimIs("web-data", "gone")
}

// workOfEphemeralVolumes has claims created, and refused by a quota more than once.
func (b *bench) workOfEphemeralVolumes() {
	b.Helper()
	b.waitOwned("web-data", b.withEphemeral("web", "data"))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "claims"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"persistentvolumeclaims": resource.MustParse("1")}}}
	if _, err := b.Client.CoreV1().ResourceQuotas(b.ns).Create(b.Context(), quota, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.wait("the quota counts", func() error {
		q, err := b.Client.CoreV1().ResourceQuotas(b.ns).Get(b.Context(), "claims", metav1.GetOptions{})
		if used := q.Status.Used["persistentvolumeclaims"]; err == nil && used.Value() != 1 {
			err = fmt.Errorf("it says %v", q.Status)
		}
		return err
	})
	b.withEphemeral("poor", "data")
	b.said("poor", "FailedBinding",
		`ephemeral volume data: create PVC poor-data: persistentvolumeclaims "poor-data" is forbidden: exceeded quota: claims, `+
			`requested: persistentvolumeclaims=1, used: persistentvolumeclaims=1, limited: persistentvolumeclaims=1`, 2)
}

// grown makes a claim and its volume, which the binder otherwise binds to each other, and has the claim ask for more.
func (b *bench) grown(name string, source corev1.PersistentVolumeSource) (grow func(size string)) {
	b.Helper()
	disk := name + "-" + b.ns
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: disk}, Provisioner: "example.com/nobody",
		AllowVolumeExpansion: ptr.To(true)}
	one := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claims := b.Client.CoreV1().PersistentVolumeClaims(b.ns)
	claim, err := claims.Create(b.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: disk, StorageClassName: &disk, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: one},
		}}, metav1.CreateOptions{})
	if err == nil {
		_, err = b.Client.StorageV1().StorageClasses().Create(b.Context(), class, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = b.Client.CoreV1().PersistentVolumes().Create(b.Context(),
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: disk}, Spec: corev1.PersistentVolumeSpec{
				Capacity: one, AccessModes: modes, StorageClassName: disk, PersistentVolumeSource: source,
				ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: b.ns, Name: name, UID: claim.UID},
			}}, metav1.CreateOptions{})
	}
	b.Cleanup(func() {
		_ = b.Client.StorageV1().StorageClasses().Delete(context.Background(), disk, metav1.DeleteOptions{})
		_ = b.Client.CoreV1().PersistentVolumes().Delete(context.Background(), disk, metav1.DeleteOptions{})
	})
	patch := func(document string, subresources ...string) {
		b.Helper()
		b.wait("the API server knows the class, and lets the claim grow", func() error {
			_, err := claims.Patch(b.Context(), name, types.MergePatchType, []byte(document), metav1.PatchOptions{}, subresources...)
			if err != nil && !apierrors.IsForbidden(err) {
				b.Fatal(err)
			}
			return err
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	patch(`{"status":{"phase":"Bound","capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"]}}`, "status")
	return func(size string) {
		b.Helper()
		patch(fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size))
	}
}

// Claims that ask for more are told of, once for each request, and those of an earlier plugin are handed to the resizer of the driver
// that took it over.
func TestClaimsThatGrow(t *testing.T) { share(t).workOfTheExpander() } // ST-4, ST-5, ST-81

func (b *bench) workOfTheExpander() {
	b.Helper()
	const waits = "waiting for an external controller to expand this PVC"
	grow := b.grown("csi",
		corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "x"}})
	grow("2Gi")
	b.said("csi", "ExternalExpanding", waits, 1)
	grow("3Gi")
	b.said("csi", "ExternalExpanding", waits, 2)
	b.grown("ebs", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}})("2Gi")
	b.said("ebs", "ExternalExpanding", "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc", 1)
	b.wait("the claim is handed to the resizer", func() error {
		c, err := b.getClaim("ebs")
		if err == nil && c.Annotations["volume.kubernetes.io/storage-resizer"] != "ebs.csi.aws.com" {
			err = fmt.Errorf("its annotations are %v", c.Annotations)
		}
		return err
	})
	if c, err := b.getClaim("csi"); err != nil || c.Annotations["volume.kubernetes.io/storage-resizer"] != "" {
		b.Errorf("the other one: %v, %v", c.Annotations, err)
	}
}

// A class that is deleted stays while a claim refers to it; a finalizer that somebody has taken off comes back.
func TestAttributesClassesStayWhileTheyAreUsed(t *testing.T) { share(t).lifeOfAnAttributesClass() } // ST-40, ST-42, ST-43

func (b *bench) lifeOfAnAttributesClass() {
	b.Helper()
	classes, name := b.Client.StorageV1().VolumeAttributesClasses(), "tier-"+b.ns
	made, err := classes.Create(b.Context(), &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: "csi.example.com", Parameters: map[string]string{"iops": "1000"},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if !slices.Contains(made.Finalizers, classFinalizer) {
		b.Errorf("ST-40: admission gives the class no finalizer: %v", made.Finalizers)
	}
	is := func(what string) {
		b.Helper()
		b.wait("the class is "+what, func() error {
			c, err := classes.Get(b.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) && what == "gone" ||
				err == nil && slices.Contains(c.Finalizers, classFinalizer) && what == "protected" {
				return nil
			}
			return fmt.Errorf("%v: %+v", err, c.ObjectMeta)
		})
	}
	if _, err := classes.Patch(b.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	is("protected")
	b.claim("tuned")
	status := fmt.Appendf(nil, `{"status":{"currentVolumeAttributesClassName":%q}}`, name)
	if _, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Patch(b.Context(), "tuned", types.MergePatchType, status,
		metav1.PatchOptions{}, "status"); err != nil {
		b.Fatal(err)
	}
	if err := classes.Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	probe := "probe-" + name // the manager has looked at the other one, too, when it has let this one go
	if _, err := classes.Create(b.Context(),
		&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: probe}, DriverName: "csi.example.com",
			Parameters: made.Parameters}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	if err := classes.Delete(b.Context(), probe, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.wait("a class that nobody uses is gone", func() error {
		_, err := classes.Get(b.Context(), probe, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	is("protected")
	b.deleteClaim("tuned")
	is("gone")
}
