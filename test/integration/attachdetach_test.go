package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/suite"
)

const attachDriver = "by-hand.example.com"

// attachingNode makes a node that nobody runs, and whose kubelet would leave it to the controller to attach volumes.
func (b *bench) attachingNode(name string) string {
	b.Helper()
	nodes := b.Client.CoreV1().Nodes()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.ns + "-" + name,
		Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}
	n.Spec.Taints = []corev1.Taint{{Key: "runs", Value: b.ns, Effect: corev1.TaintEffectNoSchedule}}
	if _, err := nodes.Create(b.Context(), n, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := nodes.Delete(context.Background(), n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			b.Error(err)
		}
	})
	return n.Name
}

// boundDisk makes a volume of a CSI driver and a claim, bound to each other, which is the part of the binder.
func (b *bench) boundDisk(name string) {
	b.Helper()
	one, size := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: one, VolumeName: b.ns + "-" + name, StorageClassName: ptr.To(""),
		Resources: corev1.VolumeResourceRequirements{Requests: size}}
	c, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Create(b.Context(), c, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.Spec.VolumeName}}
	pv.Spec = corev1.PersistentVolumeSpec{AccessModes: one, Capacity: size,
		ClaimRef: &corev1.ObjectReference{Namespace: b.ns, Name: name, UID: c.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: attachDriver,
			VolumeHandle: pv.Name}}}
	if _, err := b.Client.CoreV1().PersistentVolumes().Create(b.Context(), pv, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = b.Client.CoreV1().PersistentVolumes().Delete(context.Background(), pv.Name, metav1.DeleteOptions{})
		_, _ = b.Client.CoreV1().PersistentVolumes().Patch(context.Background(), pv.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	for _, err := range []error{
		b.Client.CoreV1().RESTClient().Patch(types.MergePatchType).Resource("persistentvolumes").Name(pv.Name).SubResource("status").Body(
			[]byte(`{"status":{"phase":"Bound"}}`)).Do(b.Context()).Error(),
		b.Client.CoreV1().RESTClient().Patch(types.MergePatchType).Namespace(b.ns).Resource("persistentvolumeclaims").Name(
			name).SubResource("status").Body([]byte(`{"status":{"phase":"Bound"}}`)).Do(b.Context()).Error(),
	} {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// diskUser makes a pod on a node that uses a disk.
func (b *bench) diskUser(name, disk, node string) {
	b.Helper()
	b.mounting(name, disk, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
}

func (b *bench) endsAtOnce(name string) {
	b.Helper()
	if err := b.Client.CoreV1().Pods(b.ns).Delete(b.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		b.Fatal(err)
	}
}

// attachmentName is the name of the VolumeAttachment of a disk and a node (AD-6).
func (b *bench) attachmentName(disk, node string) string {
	sum := sha256.Sum256([]byte(b.ns + "-" + disk + attachDriver + node))
	return "csi-" + hex.EncodeToString(sum[:])
}

// waitAttachment waits until there is a VolumeAttachment of a disk and a node, or none.
func (b *bench) waitAttachment(disk, node string, wanted bool) (found *storagev1.VolumeAttachment) {
	b.Helper()
	b.wait(fmt.Sprintf("that there is a VolumeAttachment of %s and %s is %t", disk, node, wanted), func() error {
		a, err := b.Client.StorageV1().VolumeAttachments().Get(b.Context(), b.attachmentName(disk, node), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) != wanted:
			found = a
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("there is %+v", a.ObjectMeta)
	})
	return found
}

// attachDisk plays the external-attacher, and waits until the node is told.
func (b *bench) attachDisk(disk, node string, attached bool) {
	b.Helper()
	b.waitAttachment(disk, node, true)
	status := fmt.Appendf(nil, `{"status":{"attached":%t}}`, attached)
	if _, err := b.Client.StorageV1().VolumeAttachments().Patch(b.Context(), b.attachmentName(disk, node), types.MergePatchType, status,
		metav1.PatchOptions{}, "status"); err != nil {
		b.Fatal(err)
	}
	b.wait(fmt.Sprintf("that the node lists the disk is %t", attached), func() error {
		n, err := b.Client.CoreV1().Nodes().Get(b.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := corev1.AttachedVolume{Name: corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/%s^%s-%s", attachDriver, b.ns, disk))}
		if slices.Contains(n.Status.VolumesAttached, want) != attached {
			return fmt.Errorf("it lists %v", n.Status.VolumesAttached)
		}
		return nil
	})
}

// inUse plays the kubelet that uses a disk.
func (b *bench) inUse(disk, node string) {
	b.Helper()
	status := fmt.Appendf(nil, `{"status":{"volumesInUse":["kubernetes.io/csi/%s^%s-%s"]}}`, attachDriver, b.ns, disk)
	if _, err := b.Client.CoreV1().Nodes().Patch(b.Context(), node, types.MergePatchType, status, metav1.PatchOptions{},
		"status"); err != nil {
		b.Fatal(err)
	}
}

// saidOfVolumes waits until events of a pod have said something so often.
func (b *bench) saidOfVolumes(pod, what string, times int32) {
	b.Helper()
	b.wait(fmt.Sprintf("%s is told %q %d times", pod, what, times), func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(b.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",source=attachdetach-controller"})
		if err != nil {
			return err
		}
		var all []string
		for _, e := range list.Items {
			if strings.HasPrefix(e.Type+" "+e.Reason+" "+e.Message, what) && e.Count >= times {
				return nil
			}
			all = append(all, fmt.Sprintf("%d times %s %s %s", e.Count, e.Type, e.Reason, e.Message))
		}
		return fmt.Errorf("it is told %q", all)
	})
}

// A pod with a bound claim has its volume attached, and its node is told (AD-6, AD-7, AD-8, AD-40, AD-50). Another node waits for it
// (AD-52, AD-53), while the first one uses it (AD-31), until that is out of service (AD-35).
func TestVolumesAreAttached(t *testing.T) {
	b := share(t)
	from, to := b.attachingNode("from"), b.attachingNode("to")
	b.boundDisk("data")
	b.diskUser("here", "data", from)
	a := b.waitAttachment("data", from, true)
	if a.Spec.Attacher != attachDriver || a.Spec.NodeName != from || ptr.Deref(a.Spec.Source.PersistentVolumeName, "") != b.ns+"-data" ||
		len(a.Labels)+len(a.Finalizers)+len(a.OwnerReferences) > 0 {
		t.Errorf("%+v", a)
	}
	b.attachDisk("data", from, true)
	pv := fmt.Sprintf("%q", b.ns+"-data")
	b.saidOfVolumes("here", "Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "+pv+" ", 1)
	b.inUse("data", from)
	b.diskUser("there", "data", to)
	b.saidOfVolumes("there", "Warning FailedAttachVolume Waiting for detach for volume "+pv+" Volume is already used by pod(s) here", 1)
	b.endsAtOnce("here")
	b.saidOfVolumes("there",
		"Warning FailedAttachVolume Waiting for detach for volume "+pv+" Volume is already exclusively attached to one node", 1)
	b.waitAttachment("data", from, true)
	b.taint(from, `{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}`)
	b.waitAttachment("data", from, false)
	b.attachDisk("data", to, true)
	families := askShared(t).scrape("/metrics")
	for _, m := range []metric{
		{"AD-54", "attach_detach_controller_attachdetach_controller_forced_detaches", "COUNTER", "reason", "reason=out-of-service", ""},
		{"AD-55", "attachdetach_controller_total_volumes", "GAUGE", "plugin_name state",
			"plugin_name=kubernetes.io/csi:" + attachDriver + " state=desired_state_of_world", ""},
		{"AD-55", "storage_count_attachable_volumes_in_use", "GAUGE", "node volume_plugin",
			"node=" + to + " volume_plugin=kubernetes.io/csi:" + attachDriver, ""},
		{"AD-56", "storage_operation_duration_seconds", "HISTOGRAM", "migrated operation_name status volume_plugin",
			"migrated=false operation_name=volume_attach status=success", "0.1 0.25 0.5 1 2.5 5 10 15 25 50 120 300 600"},
	} {
		if err := m.check(families[m.name]); err != nil {
			t.Errorf("%s, %s: %v", m.fact, m.name, err)
		}
	}
	b.endsAtOnce("there")
	b.waitAttachment("data", to, false)
}

// What users do in crash scenarios also works on a real server, beside everything else.
func TestVolumesMove(t *testing.T) {
	b := share(t)
	entries := suite.Entries()
	i := slices.IndexFunc(entries, func(e suite.Entry) bool { return e.Controller == "persistentvolume-attach-detach-controller" })
	for _, s := range entries[i].Scenarios {
		s.Play(b.user())
	}
}

// workOfAttachments has a volume attached, told of twice, which makes an event and patches it, and detached.
func (b *bench) workOfAttachments() {
	b.Helper()
	node := b.attachingNode("attaching")
	b.boundDisk("data")
	b.diskUser("user", "data", node)
	b.attachDisk("data", node, true)
	b.attachDisk("data", node, false)
	b.attachDisk("data", node, true)
	b.saidOfVolumes("user", "Normal SuccessfulAttachVolume", 2)
	b.endsAtOnce("user")
	b.waitAttachment("data", node, false)
}
