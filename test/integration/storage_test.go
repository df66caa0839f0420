package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// storage is a namespace of a control plane with a CSI driver, and a manager that works on it.
type storage struct{ *bench }

// withDriver starts a manager on the control plane that has a CSI driver.
func withDriver(t *testing.T) *storage {
	t.Helper()
	c := cluster.StartWithCSI(t)
	c.Manager(t)
	s := &storage{&bench{t, c, c.Namespace(t)}}
	t.Cleanup(func() { c.CSIRecovers(t, s.ns) })
	return s
}

// makeClaim makes a claim of 1Gi.
func (s *storage) makeClaim(name, class string, edits ...func(*corev1.PersistentVolumeClaimSpec)) {
	s.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class,
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(
			"1Gi")}},
	}}
	for _, edit := range edits {
		edit(&claim.Spec)
	}
	if _, err := s.Client.CoreV1().PersistentVolumeClaims(s.ns).Create(s.Context(), claim, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *storage) getClaim(name string) *corev1.PersistentVolumeClaim {
	s.Helper()
	claim, err := s.Client.CoreV1().PersistentVolumeClaims(s.ns).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return claim
}

// waitBound waits until a claim is bound, and returns its volume.
func (s *storage) waitBound(name string) (volume *corev1.PersistentVolume) {
	s.Helper()
	s.wait("the claim "+name+" is bound", func() error {
		claim := s.getClaim(name)
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s; events: %v", claim.Status.Phase, events(s.Context(), s.T, s.Client, s.ns, name))
		}
		var err error
		if volume, err = s.Client.CoreV1().PersistentVolumes().Get(s.Context(), claim.Spec.VolumeName, metav1.GetOptions{}); err != nil {
			return err
		}
		if ref := volume.Spec.ClaimRef; volume.Status.Phase != corev1.VolumeBound || ref == nil || ref.UID != claim.UID {
			return fmt.Errorf("its volume is %s for %v", volume.Status.Phase, ref)
		}
		return nil
	})
	return volume
}

func (s *storage) patchClaim(name, patch string) {
	s.Helper()
	_, err := s.Client.CoreV1().PersistentVolumeClaims(s.ns).Patch(s.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// runPod makes a pod on a node that uses a claim.
func (s *storage) runPod(name, claim, node string) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"kubernetes.io/hostname": node},
		Containers: []corev1.Container{{Name: "db", Image: "postgres",
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}},
	}}
	if _, err := s.Client.CoreV1().Pods(s.ns).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *storage) deletePod(name string) {
	s.Helper()
	if err := s.Client.CoreV1().Pods(s.ns).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *storage) attachments(volume *corev1.PersistentVolume) []storagev1.VolumeAttachment {
	s.Helper()
	all, err := s.Client.StorageV1().VolumeAttachments().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(a storagev1.VolumeAttachment) bool {
		name := a.Spec.Source.PersistentVolumeName
		return name == nil || *name != volume.Name
	})
}

// attachedTo tells where a volume is attached, for its VolumeAttachments, for the nodes and for the driver, if these agree.
func (s *storage) attachedTo(volume *corev1.PersistentVolume) (nodes []string, err error) {
	s.Helper()
	for _, a := range s.attachments(volume) {
		if !a.Status.Attached {
			return nil, fmt.Errorf("its VolumeAttachment for %s is not attached: %+v", a.Spec.NodeName, a.Status.AttachError)
		}
		nodes = append(nodes, a.Spec.NodeName)
	}
	slices.Sort(nodes)
	device := corev1.UniqueVolumeName("kubernetes.io/csi/" + cluster.CSIDriver + "^" + volume.Spec.CSI.VolumeHandle)
	list, err := s.Client.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var told []string
	for _, n := range list.Items {
		if slices.ContainsFunc(n.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == device }) {
			told = append(told, n.Name)
		}
	}
	slices.Sort(told)
	if !slices.Equal(nodes, told) {
		return nil, fmt.Errorf("it has VolumeAttachments for %v, and is in the status of %v", nodes, told)
	}
	for _, v := range s.CSIVolumes(s.T, s.ns) {
		if v.ID == volume.Spec.CSI.VolumeHandle && !slices.Equal(v.Nodes, nodes) {
			return nil, fmt.Errorf("it has VolumeAttachments for %v, and the driver has attached it to %v", nodes, v.Nodes)
		}
	}
	return nodes, nil
}

// waitAttached waits until a volume is attached to these nodes.
func (s *storage) waitAttached(volume *corev1.PersistentVolume, want ...string) {
	s.Helper()
	s.wait(fmt.Sprintf("the volume is attached to %v", want), func() error {
		nodes, err := s.attachedTo(volume)
		if err == nil && !slices.Equal(nodes, want) {
			err = fmt.Errorf("it is attached to %v", nodes)
		}
		return err
	})
}

// waitDriver waits until the driver has a volume as it should be.
func (s *storage) waitDriver(what string, check func(cluster.CSIVolume) error) {
	s.Helper()
	s.wait(what, func() error {
		all := s.CSIVolumes(s.T, s.ns)
		if len(all) != 1 {
			return fmt.Errorf("the driver has %d volumes: %+v", len(all), all)
		}
		return check(all[0])
	})
}

// waitSize waits until a claim, its volume and the driver have a size.
func (s *storage) waitSize(name, size string) {
	s.Helper()
	want := resource.MustParse(size)
	s.wait("the claim has "+size, func() error {
		claim := s.getClaim(name)
		volume, err := s.Client.CoreV1().PersistentVolumes().Get(s.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for what, has := range map[string]resource.Quantity{"claim": claim.Status.Capacity[corev1.ResourceStorage],
			"volume": volume.Spec.Capacity[corev1.ResourceStorage]} {
			if has.Cmp(want) != 0 {
				return fmt.Errorf("the %s has %s; conditions %+v", what, &has, claim.Status.Conditions)
			}
		}
		return nil
	})
	s.waitDriver("the driver's volume has "+size, func(v cluster.CSIVolume) error {
		if v.Bytes != want.Value() {
			return fmt.Errorf("it has %d bytes", v.Bytes)
		}
		return nil
	})
}

// waitGone waits until a claim is gone, and its volume everywhere.
func (s *storage) waitGone(name string, volume *corev1.PersistentVolume) {
	s.Helper()
	s.wait("the claim, the volume and what the driver had are gone", func() error {
		_, err := s.Client.CoreV1().PersistentVolumeClaims(s.ns).Get(s.Context(), name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the claim is there (%v)", err)
		}
		left, err := s.Client.CoreV1().PersistentVolumes().Get(s.Context(), volume.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the volume is %s (%v)", left.Status.Phase, err)
		}
		for _, v := range s.CSIVolumes(s.T, s.ns) {
			if v.ID == volume.Spec.CSI.VolumeHandle {
				return fmt.Errorf("the driver still has %+v", v)
			}
		}
		return nil
	})
}

func (s *storage) deleteNow(claim string) {
	s.Helper()
	if err := s.Client.CoreV1().PersistentVolumeClaims(s.ns).Delete(s.Context(), claim, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// calls are the driver's calls of some methods, in order, as METHOD CODE NODE.
func (s *storage) calls(methods ...string) (all []string) {
	s.Helper()
	for _, c := range s.CSICalls(s.T, s.ns) {
		if slices.Contains(methods, c.Method) {
			all = append(all, strings.TrimSpace(c.Method+" "+c.Code+" "+c.Node))
		}
	}
	return all
}

// countCalls is how many of the driver's calls of a method had a result.
func (s *storage) countCalls(method, code string) (n int) {
	s.Helper()
	for _, c := range s.CSICalls(s.T, s.ns) {
		if c.Method == method && c.Code == code {
			n++
		}
	}
	return n
}

// attributesClass makes a VolumeAttributesClass of the driver.
func (s *storage) attributesClass(level string) (name string) {
	s.Helper()
	classes := s.Client.StorageV1().VolumeAttributesClasses()
	class, err := classes.Create(s.Context(), &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: level + "-"}, DriverName: cluster.CSIDriver,
		Parameters: map[string]string{"level": level},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := classes.Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
			s.Errorf("clean up: %v", err)
		}
	})
	return class.Name
}

// waitClass waits until a claim, its volume and the driver have an attributes class.
func (s *storage) waitClass(name, class, level string) {
	s.Helper()
	s.waitDriver("the driver's volume has the attributes of "+class, func(v cluster.CSIVolume) error {
		if v.Attributes["level"] != level {
			return fmt.Errorf("it has %v", v.Attributes)
		}
		return nil
	})
	s.wait("the claim has the class "+class, func() error {
		claim := s.getClaim(name)
		if current := claim.Status.CurrentVolumeAttributesClassName; current == nil || *current != class {
			return fmt.Errorf("its status is %+v", claim.Status)
		}
		volume, err := s.Client.CoreV1().PersistentVolumes().Get(s.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
		if err == nil && (volume.Spec.VolumeAttributesClassName == nil || *volume.Spec.VolumeAttributesClassName != class) {
			err = errors.New("its volume has another one")
		}
		return err
	})
}

// TestLifeOfAVolume follows a volume of a real driver from its claim to its end.
func TestLifeOfAVolume(t *testing.T) {
	s := withDriver(t)
	silver, gold := s.attributesClass("silver"), s.attributesClass("gold")
	s.makeClaim("data", cluster.CSIClass, func(c *corev1.PersistentVolumeClaimSpec) { c.VolumeAttributesClassName = &silver })
	volume := s.waitBound("data")
	if want := "pvc-" + string(s.getClaim("data").UID); volume.Name != want {
		t.Errorf("the volume is %s, want %s", volume.Name, want)
	}
	s.waitClass("data", silver, "silver")
	s.waitSize("data", "1Gi")

	s.runPod("first", "data", "node-0")
	s.waitAttached(volume, "node-0")

	s.patchClaim("data", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	s.waitSize("data", "2Gi")
	s.patchClaim("data", fmt.Sprintf(`{"spec":{"volumeAttributesClassName":%q}}`, gold))
	s.waitClass("data", gold, "gold")

	s.deletePod("first")
	s.runPod("second", "data", "node-1")
	s.waitAttached(volume, "node-1")

	s.deleteNow("data")
	cluster.Always(t, time.Second, "the claim stays while a pod uses it", func() error { s.getClaim("data"); return nil })
	s.deletePod("second")
	s.waitGone("data", volume)
	want := []string{
		"ControllerPublishVolume OK node-0", "ControllerUnpublishVolume OK node-0",
		"ControllerPublishVolume OK node-1", "ControllerUnpublishVolume OK node-1", "DeleteVolume OK",
	}
	if got := slices.Compact(s.calls("ControllerPublishVolume", "ControllerUnpublishVolume", "DeleteVolume")); !slices.Equal(got, want) {
		t.Errorf("the driver was asked\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestVolumesThatWaitForPods: a claim of such a class is left alone until a pod needs it.
func TestVolumesThatWaitForPods(t *testing.T) {
	s := withDriver(t)
	s.makeClaim("data", cluster.CSIClassWait)
	s.wait("the claim says what it waits for", func() error {
		if all := events(t.Context(), t, s.Client, s.ns, "data"); !slices.ContainsFunc(all,
			func(e string) bool { return strings.HasPrefix(e, "WaitForFirstConsumer: ") }) {
			return fmt.Errorf("events are %v", all)
		}
		return nil
	})
	if all := s.CSIVolumes(t, s.ns); len(all) > 0 {
		t.Errorf("without a pod, the driver has %+v", all)
	}
	s.runPod("first", "data", "node-2")
	volume := s.waitBound("data")
	s.waitAttached(volume, "node-2")
	s.deletePod("first")
	s.deleteNow("data")
	s.waitGone("data", volume)
}

// TestDriverFailsAndRecovers: each call fails at first. Nothing is made twice, attached to two nodes, or left behind.
func TestDriverFailsAndRecovers(t *testing.T) {
	s := withDriver(t)
	s.CSIFails(t,
		cluster.CSIFault{Namespace: s.ns, Method: "CreateVolume", Code: "RESOURCE_EXHAUSTED", Message: "the pool is full", Times: 2})
	s.CSIFails(t, cluster.CSIFault{Namespace: s.ns, Method: "CreateVolume", Code: "DEADLINE_EXCEEDED", Late: true, Times: 1})
	s.makeClaim("data", cluster.CSIClass)
	volume := s.waitBound("data")
	s.waitDriver("one volume was made", func(cluster.CSIVolume) error { return nil })
	if n := s.countCalls("CreateVolume", "ResourceExhausted"); n != 2 {
		t.Errorf("the pool was full %d times, want 2", n)
	}

	s.CSIFails(t, cluster.CSIFault{Namespace: s.ns, Method: "ControllerPublishVolume", Code: "INTERNAL", Message: "no port is free"})
	s.runPod("first", "data", "node-0")
	s.wait("the pod says why its volume is not attached", func() error {
		all := events(t.Context(), t, s.Client, s.ns, "first")
		if !slices.ContainsFunc(all, func(e string) bool {
			return strings.HasPrefix(e, "FailedAttachVolume: ") && strings.Contains(e, "no port is free")
		}) {
			return fmt.Errorf("events are %v", all)
		}
		return nil
	})
	s.CSIRecovers(t, s.ns)
	s.waitAttached(volume, "node-0")

	s.CSIFails(t, cluster.CSIFault{Namespace: s.ns, Method: "ControllerExpandVolume", Code: "INTERNAL", Times: 2})
	s.patchClaim("data", `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`)
	s.waitSize("data", "3Gi")

	s.CSIFails(t, cluster.CSIFault{Namespace: s.ns, Method: "ControllerUnpublishVolume", Code: "INTERNAL", Times: 2})
	s.deletePod("first")
	s.runPod("second", "data", "node-1")
	s.waitAttached(volume, "node-1")
	if n := s.countCalls("ControllerPublishVolume", "FailedPrecondition"); n > 0 {
		t.Errorf("%d times the volume was to be attached to a second node", n)
	}

	s.CSIFails(t, cluster.CSIFault{Namespace: s.ns, Method: "DeleteVolume", Code: "INTERNAL", Times: 2})
	s.deletePod("second")
	s.deleteNow("data")
	s.waitGone("data", volume)
	if n := s.countCalls("DeleteVolume", "Internal"); n != 2 {
		t.Errorf("deletion failed %d times, want 2", n)
	}
}

// TestDriverDoesNotRun: what is asked for meanwhile is done when it runs.
func TestDriverDoesNotRun(t *testing.T) {
	s := withDriver(t)
	s.makeClaim("old", cluster.CSIClass)
	old := s.waitBound("old")
	s.StopCSI(t)
	s.makeClaim("new", cluster.CSIClass)
	s.wait("the claim says whom it waits for", func() error {
		all := events(t.Context(), t, s.Client, s.ns, "new")
		if !slices.ContainsFunc(all, func(e string) bool {
			return strings.HasPrefix(e, "ExternalProvisioning: ") && strings.Contains(e, cluster.CSIDriver)
		}) {
			return fmt.Errorf("events are %v", all)
		}
		return nil
	})
	s.runPod("first", "old", "node-0")
	s.wait("the pod's volume has a VolumeAttachment, which nobody fulfils", func() error {
		if all := s.attachments(old); len(all) != 1 || all[0].Status.Attached {
			return fmt.Errorf("it has %+v", all)
		}
		return nil
	})
	s.StartCSI(t)
	s.waitAttached(old, "node-0")
	volume := s.waitBound("new")

	s.StopCSI(t)
	s.deleteNow("new")
	s.wait("the volume without a claim is Released", func() error {
		v, err := s.Client.CoreV1().PersistentVolumes().Get(t.Context(), volume.Name, metav1.GetOptions{})
		if err == nil && v.Status.Phase != corev1.VolumeReleased {
			err = fmt.Errorf("it is %s", v.Status.Phase)
		}
		return err
	})
	s.StartCSI(t)
	s.waitGone("new", volume)
	s.deletePod("first")
	s.deleteNow("old")
	s.waitGone("old", old)
}
