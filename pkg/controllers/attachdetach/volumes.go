package attachdetach

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// managedNode is the annotation of nodes whose kubelets leave attaching to this controller (AD-9).
const managedNode = "volumes.kubernetes.io/controller-managed-attach-detach"

// volume is one that nodes attach.
type volume struct {
	Name      string                       // in the statuses of nodes (AD-8)
	Driver    string                       // the CSI driver; empty for status-only volumes: iSCSI and FC (AD-13)
	Handle    string                       // by which the driver knows it
	Exclusive bool                         // one node at a time may have it (AD-24)
	Migrated  bool                         // the driver has taken over the plugin that it names (AD-12)
	PV        string                       // the name of its PersistentVolume; empty for one that stands in a pod
	Inline    *corev1.PersistentVolumeSpec // of one that stands in a pod, as its VolumeAttachment has it (AD-7)
}

// ofPV returns the volume of a PersistentVolume; its name is empty if nodes do not attach volumes of that kind.
func ofPV(pv *corev1.PersistentVolume) volume {
	v := ofSpec(&pv.Spec)
	if v.Name == "" {
		v = ofTranslated(volumes.TranslateToCSI(pv))
	}
	v.PV = pv.Name
	return v
}

func ofSpec(spec *corev1.PersistentVolumeSpec) (v volume) {
	v.Exclusive = len(spec.AccessModes) > 0 && !slices.ContainsFunc(spec.AccessModes,
		func(m corev1.PersistentVolumeAccessMode) bool {
			return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
		})
	id := volumes.OfSpec(spec)
	v.Name, v.Driver, v.Handle = id.Name, id.Driver, id.Handle
	return v
}

// ofPodVolume returns the volume that stands in a pod, not in a claim.
func ofPodVolume(s *corev1.VolumeSource, namespace string) (v volume) {
	if v.Name = volumes.InlineName(s); v.Name != "" {
		return v
	}
	if pv := volumes.TranslateInlineToCSI(s, namespace); pv != nil {
		v = ofTranslated(pv)
		v.Inline = &pv.Spec
	}
	return v
}

// ofTranslated returns the volume that a CSI driver makes of one of a plugin that it has taken over (AD-12). Its name
// is empty for nil: no driver has.
func ofTranslated(pv *corev1.PersistentVolume) (v volume) {
	if pv != nil {
		v = ofSpec(&pv.Spec)
		v.Migrated = true
	}
	return v
}

// title is what events call a volume: its PersistentVolume, or if it stands in a pod, its name in the statuses of
// nodes.
func (v volume) title() string { return cmp.Or(v.PV, v.Name) }

// statusOnly reports whether no VolumeAttachment stands for the volume: it is attached when the status of a node lists
// it.
func (v volume) statusOnly() bool { return v.Driver == "" }

// newAttachment is the VolumeAttachment that asks the driver to attach a volume (AD-7).
func newAttachment(v volume, node string) *storagev1.VolumeAttachment {
	name := volumes.AttachmentName(v.Driver, v.Handle, node)
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	a.Spec = storagev1.VolumeAttachmentSpec{Attacher: v.Driver, NodeName: node}
	if v.Inline != nil {
		a.Spec.Source.InlineVolumeSpec = v.Inline.DeepCopy()
	} else {
		a.Spec.Source.PersistentVolumeName = &v.PV
	}
	return a
}

// attached reports whether the driver says that a volume is attached, and is not asked to detach it.
func attached(a *storagev1.VolumeAttachment) bool {
	return a != nil && a.Status.Attached && a.DeletionTimestamp == nil
}

// ours reports whether a VolumeAttachment may be of this controller or of a kubelet, by its name. All others belong to
// their creators.
func ours(a *storagev1.VolumeAttachment) bool { return volumes.IsAttachmentName(a.Name) }

// needs reports whether a pod needs its volumes on its node (AD-15). One that is being deleted does as long as it may
// still run (AD-18).
func needs(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && !podutil.Finished(p) && (p.DeletionTimestamp == nil || runs(p))
}

// hasRun reports whether a container of a pod runs or has run, as far as its status says.
func hasRun(p *corev1.Pod) bool {
	return runs(p) || p.Status.Phase != corev1.PodPending && p.Status.Phase != ""
}

// runs reports whether the last status of a pod shows a container that runs.
func runs(p *corev1.Pod) bool {
	running := func(c corev1.ContainerStatus) bool { return c.State.Running != nil }
	s := &p.Status
	return slices.ContainsFunc(s.InitContainerStatuses, running) || slices.ContainsFunc(s.ContainerStatuses, running) ||
		slices.ContainsFunc(s.EphemeralContainerStatuses, running)
}

// managed reports whether the kubelet of a node leaves attaching to this controller.
func managed(n *corev1.Node) bool {
	return labels.Set(n.Annotations).Has(managedNode)
}
