package attachdetach

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// observeVolume finds the pods that need a volume, and the nodes that it is attached to.
func (k *volumeController) observeVolume(
	_ context.Context, r reconcile.Request[volumeMemory],
) (o reconcile.Observation[volumeSnapshot, volumeMemory], err error) {
	s := volumeSnapshot{DisableTimeout: k.disableTimeout, Memory: ptr.Deref(r.Memory, volumeMemory{})}
	if !k.cachesCompared() {
		s.NotCompared = notCompared
	}
	name := k.volumes.volumeNamed(r.Key.Name)
	var by map[string]*podsOnNode
	s.Volume, by = k.pods.podsNeeding(name)
	s.Users = k.users(by)
	for _, pv := range k.volumes.pvs.By(byName + name) {
		o.Exists = true
		s.Attachments = append(s.Attachments, k.volumes.attachmentsOf(pv)...)
	}
	s.Attachments = append(s.Attachments, k.volumes.attachments.By(byName+name)...)
	if s.Volume.Name != "" && !s.Volume.statusOnly() {
		s.Misnamed = k.volumes.misnamedOf(s.Volume)
		s.Attachments = append(s.Attachments, s.Misnamed...)
	}
	if s.Volume.statusOnly() || slices.ContainsFunc(s.Users, func(u usingNode) bool { return u.Volume.Exclusive }) {
		s.ReportingNodes = k.reportingNodes(name, by)
	}
	if slices.ContainsFunc(s.ReportingNodes, func(n reportingNode) bool { return !nodes.Ready(n.Node) }) {
		s.Held = k.held(r.Now)
	}
	o.Exists = o.Exists || len(s.Attachments) > 0 || len(by) > 0
	slices.SortFunc(s.Attachments, func(a, b *storagev1.VolumeAttachment) int {
		return strings.Compare(a.Name, b.Name)
	})
	o.Snapshot = s
	return o, nil
}

// podsOnNode are the pods that need a volume on one node.
type podsOnNode struct {
	pods []*corev1.Pod
	as   volume // what it is for them
}

// before reports whether a volume is rather what it is than another one of the same name: a PersistentVolume is an
// administrator's, and whatever a user writes into a pod says nothing of it.
func (v volume) before(other volume) bool {
	switch {
	case other.Name == "":
		return true
	case (v.PV == "") != (other.PV == ""):
		return v.PV != ""
	}
	return v.PV < other.PV
}

// podsNeeding returns the pods that need a volume, by node, and what it is for all that name it: the first of its
// PersistentVolumes, if there are any.
func (k *podView) podsNeeding(name string) (v volume, by map[string]*podsOnNode) {
	by = map[string]*podsOnNode{}
	use := func(one volume, p *corev1.Pod) {
		if one.before(v) {
			v = one
		}
		if !needs(p) {
			return
		}
		on := by[p.Spec.NodeName]
		if on == nil {
			on = &podsOnNode{}
			by[p.Spec.NodeName] = on
		}
		if one.before(on.as) {
			on.as = one
		}
		if !slices.Contains(on.pods, p) {
			on.pods = append(on.pods, p)
		}
	}
	for _, pv := range k.volumes.pvs.By(byName + name) {
		ref := pv.Spec.ClaimRef
		if ref == nil {
			continue
		}
		for _, p := range k.byClaim.Naming(ref.Namespace, ref.Name) {
			for i := range p.Spec.Volumes {
				if claim, ok := podutil.ClaimOf(p, &p.Spec.Volumes[i]); !ok || claim != ref.Name {
					continue
				}
				if one, ok := k.volumeOfPodClaim(p, &p.Spec.Volumes[i], ref.Name); ok && one.PV == pv.Name {
					use(one, p)
				}
			}
		}
	}
	inline := k.byVolume.By(byName + name)
	slices.SortFunc(inline, older) // of several definitions, the first one counts
	for _, p := range inline {
		if one, there := k.inline.of(p).byName[name]; there && k.volumes.attachable(one) {
			use(one, p)
		}
	}
	return v, by
}

// reportingNodes returns the nodes whose statuses name a volume, by name.
func (k *views) reportingNodes(name string, by map[string]*podsOnNode) (all []reportingNode) {
	for _, n := range k.nodes.reporting.By(byName + name) {
		all = append(all, reportingNode{Node: n, Needed: by[n.Name] != nil, UnboundClaim: !nodes.Ready(n) &&
			k.pods.podWithUnboundClaim(n.Name) != ""})
	}
	slices.SortFunc(all, func(a, b reportingNode) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	return all
}

// volumeNamed returns the name of a volume in the statuses of nodes. People ask for the volume by its PersistentVolume.
func (k *volumeView) volumeNamed(name string) string {
	if pv := k.pvs.Get("", name); pv != nil {
		return ofPV(pv).Name
	}
	return name
}

// attachmentsOf returns the VolumeAttachments of a PersistentVolume. One that is named after another handle is that of
// another volume, of whose PersistentVolume this one has the name.
func (k *volumeView) attachmentsOf(pv *corev1.PersistentVolume) []*storagev1.VolumeAttachment {
	v := ofPV(pv)
	return slices.DeleteFunc(k.attachments.By(byVolume+pv.Name),
		func(a *storagev1.VolumeAttachment) bool { return ours(a) && !v.attachedBy(a) })
}

// users returns the nodes where pods need a volume: that of the oldest pod first.
func (k *views) users(by map[string]*podsOnNode) (all []usingNode) {
	for node, on := range by {
		slices.SortFunc(on.pods, older)
		n := k.nodes.Get(node)
		all = append(all, usingNode{Node: node, Pods: on.pods, Volume: on.as, Managed: n != nil && managed(n),
			MayRun: n == nil && slices.ContainsFunc(on.pods, hasRun)})
	}
	slices.SortFunc(all, func(a, b usingNode) int { return older(a.Pods[0], b.Pods[0]) })
	return all
}

func older(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name))
}
