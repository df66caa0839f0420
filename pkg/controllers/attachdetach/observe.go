package attachdetach

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// views are what both controllers read.
type views struct {
	volumes *volumeView
	pods    *podView
	nodes   *nodeView

	term           *reconcile.Term[term]
	root           client.Reader // with the identity that watches; nil: caches are trusted
	brake          *brake.Brake
	disableTimeout bool
	census         reconcile.Memo[time.Time, census]
}

// volumeView shows volumes: how they are defined, whether they are attached, and by whom.
type volumeView struct {
	claims      informers.Store[*corev1.PersistentVolumeClaim]
	pvs         informers.IndexedStore[*corev1.PersistentVolume]    // by names in the statuses of nodes, and by drivers
	attachments informers.IndexedStore[*storagev1.VolumeAttachment] // by what they attach, and by nodes
	drivers     informers.Store[*storagev1.CSIDriver]
	misnamed    misnamedIndex
	term        *reconcile.Term[term] // which drivers are absent
}

// podView shows pods, and which volumes they need.
type podView struct {
	byNode   informers.NodePodCache
	byClaim  informers.ClaimPodCache
	byVolume informers.IndexedStore[*corev1.Pod] // by the names of volumes that stand in them, and by their drivers
	inline   inlines
	volumes  *volumeView
}

// nodeView shows nodes.
type nodeView struct {
	informers.NodeCache
	reporting informers.IndexedStore[*corev1.Node] // the same, by the volumes that their statuses name
}

// volumeController attaches volumes. Its keys are volumes.
type volumeController struct{ *views }

// nodeController detaches volumes, and lists in the statuses of nodes what is attached. Its keys are nodes.
type nodeController struct{ *views }

// Indexes have values of several kinds, which begin differently.
const (
	byName    = "named "    // the name of a volume in the statuses of nodes
	byDriver  = "driver "   // a CSI driver
	byVolume  = "volume "   // a PersistentVolume
	byNode    = "node "     // a node
	indexName = "attaching" // the name of the indexes
)

func indexVolume(pv *corev1.PersistentVolume) (values []string) {
	v := ofPV(pv)
	if v.Name != "" {
		values = append(values, byName+v.Name)
	}
	if v.Driver != "" {
		values = append(values, byDriver+v.Driver)
	}
	return values
}

func indexAttachment(a *storagev1.VolumeAttachment) []string {
	values := []string{byNode + a.Spec.NodeName, byDriver + a.Spec.Attacher}
	switch s := a.Spec.Source; {
	case s.PersistentVolumeName != nil:
		values = append(values, byVolume+*s.PersistentVolumeName)
	case s.InlineVolumeSpec != nil:
		values = append(values, byName+ofSpec(s.InlineVolumeSpec).Name)
	}
	return values
}

// indexNode is of what a node lists as attached, or has in use.
func indexNode(n *corev1.Node) (values []string) {
	for _, a := range n.Status.VolumesAttached {
		values = append(values, byName+string(a.Name))
	}
	for _, name := range n.Status.VolumesInUse {
		values = append(values, byName+string(name))
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func indexPod(p *corev1.Pod) (values []string) {
	if p.Spec.NodeName == "" {
		return nil
	}
	for i := range p.Spec.Volumes {
		if v := ofPodVolume(&p.Spec.Volumes[i].VolumeSource, p.Namespace); v.Name != "" {
			values = append(values, byName+v.Name)
			if v.Driver != "" {
				values = append(values, byDriver+v.Driver)
			}
		}
	}
	return values
}
