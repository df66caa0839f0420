package attachdetach

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

type nodeObservation = reconcile.Observation[nodeSnapshot, nodeMemory]

// observeNode finds what is attached to a node, and who needs it there.
func (k *nodeController) observeNode(
	_ context.Context, r reconcile.Request[nodeMemory],
) (o nodeObservation, err error) {
	name := k.nodeNamed(r.Key.Name)
	s := nodeSnapshot{Name: name, Node: k.nodes.Get(name), DisableTimeout: k.disableTimeout,
		Memory: ptr.Deref(r.Memory, nodeMemory{})}
	there := k.volumes.attachments.By(byNode + s.Name)
	t, _ := k.term.Get()
	_, reserves := t.Reserved.Get(name) // if the node is gone, it has to be looked at once more, for that to end
	if o.Exists = s.Node != nil || len(there)+len(s.Memory.Asked) > 0 || reserves; !o.Exists {
		return o, nil
	}
	s.Reserved = reserves
	if s.Node != nil && s.Memory.UID != s.Node.UID { // another machine, maybe
		s.Memory = nodeMemory{UID: s.Node.UID, Asked: s.Memory.Asked}
	}
	if !t.CachesCompared {
		s.NotCompared = notCompared
	}
	if s.Node == nil || managed(s.Node) {
		s.Volumes = k.nodeVolumes(r.Now, s.Name, s.Node, there)
	}
	if goneOrNotReady(s.Node) {
		s.Held, s.PodWithUnboundClaim = k.held(r.Now), k.pods.podWithUnboundClaim(name)
	}
	o.Snapshot = s
	return o, nil
}

// goneOrNotReady reports whether a node is gone or not ready: rules of time may apply.
func goneOrNotReady(n *corev1.Node) bool { return n == nil || !nodes.Ready(n) }

// nodeNamed returns the name of a node. People ask for one of its VolumeAttachments, too.
func (k *nodeController) nodeNamed(name string) string {
	if a := k.volumes.attachments.Get("", name); a != nil && ours(a) {
		return a.Spec.NodeName
	}
	return name
}

// proveNode takes in the node as it was read live.
func (k *nodeController) proveNode(o nodeObservation, proof reconcile.Proof) nodeObservation {
	s := &o.Snapshot
	switch live, ok, err := reconcile.Found[*corev1.Node](proof, nodeRef(s.Name)); {
	case err != nil:
		s.Unread = err.Error()
	case ok:
		s.Read, s.Live = true, live
	}
	if s.Read && goneOrNotReady(s.Live) && !goneOrNotReady(s.Node) { // the cache does not show yet that it does
		s.Held, s.PodWithUnboundClaim = k.held(proof.Now), k.pods.podWithUnboundClaim(s.Name)
	}
	return o
}

// nodeVolumes returns what is attached to a node, and what pods need there.
func (k *nodeController) nodeVolumes(
	now time.Time, name string, n *corev1.Node, there []*storagev1.VolumeAttachment,
) (all []nodeVolume) {
	needed := map[string]nodeVolume{} // by the name of the volume
	for _, p := range k.pods.byNode.OnNode(name) {
		if !needs(p) {
			continue
		}
		for _, v := range k.pods.volumesOf(p) {
			before, known := needed[v.Name]
			pod := podName(p)
			if known && before.Pod < pod {
				pod = before.Pod
			}
			needed[v.Name] = nodeVolume{
				Name: v.Name, Pod: pod, StatusOnly: v.statusOnly(), Exclusive: v.Exclusive || before.Exclusive,
				Terminating: p.DeletionTimestamp != nil && (!known || before.Terminating),
				Grace:       max(before.Grace, graceOf(p)),
			}
		}
	}
	byAttachment := map[string]string{} // the names of the volumes that are needed
	for volume := range needed {
		byAttachment[volumes.AttachmentOf(volume, name)] = volume
	}
	for _, a := range there {
		of := cmp.Or(byAttachment[a.Name], k.volumes.volumeNameOf(a, n))
		one := needed[of]
		if ours(a) && of == "" {
			one = nodeVolume{}
		}
		one.Name, one.Attachment = of, a
		all = append(all, one)
	}
	if n != nil {
		all = append(all, k.statusOnlyVolumes(now, n, needed)...)
	} else {
		all = append(all, k.reservedVolumes(name, needed)...)
	}
	slices.SortFunc(all, func(a, b nodeVolume) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.id(), b.id()))
	})
	return all
}

// reservedVolumes returns the status-only volumes of a node that is gone: those that are reserved for it.
func (k *nodeController) reservedVolumes(name string, needed map[string]nodeVolume) (all []nodeVolume) {
	t, _ := k.term.Get()
	reserved, _ := t.Reserved.Get(name)
	for volume := range reserved {
		v := needed[volume]
		v.Name, v.StatusOnly = volume, true
		all = append(all, v)
	}
	return all
}

// graceOf is how long a pod may take to end.
func graceOf(p *corev1.Pod) time.Duration {
	return workloads.Seconds(ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 30))
}

// statusOnlyVolumes returns the status-only volumes of a node: those that pods need, and those that it lists.
func (k *nodeController) statusOnlyVolumes(
	now time.Time, n *corev1.Node, needed map[string]nodeVolume,
) (all []nodeVolume) {
	for _, v := range needed {
		if !v.StatusOnly {
			continue
		}
		if v.Exclusive && !lists(n, v) {
			v.OtherNode = k.holder(now, n, v)
		}
		all = append(all, v)
	}
	for _, a := range n.Status.VolumesAttached {
		name := string(a.Name)
		if _, ok := needed[name]; !ok &&
			(strings.HasPrefix(name, volumes.ISCSIPrefix) || strings.HasPrefix(name, volumes.FCPrefix)) {
			all = append(all, nodeVolume{Name: name, StatusOnly: true})
		}
	}
	return all
}

// volumeNameOf returns the name of the volume of a VolumeAttachment, by its PersistentVolume or, if that is gone or
// another one of that name, by what its node says. It is empty if nobody knows.
func (k *volumeView) volumeNameOf(a *storagev1.VolumeAttachment, n *corev1.Node) string {
	var v volume
	switch s := a.Spec.Source; {
	case s.InlineVolumeSpec != nil:
		v = ofSpec(s.InlineVolumeSpec)
	case s.PersistentVolumeName != nil:
		if pv := k.pvs.Get("", *s.PersistentVolumeName); pv != nil {
			v = ofPV(pv)
		}
	}
	if v.Name != "" && (!ours(a) || a.Name == volumes.AttachmentName(v.Driver, v.Handle, a.Spec.NodeName)) || n == nil {
		return v.Name
	}
	for _, name := range n.Status.VolumesInUse {
		if volumes.AttachmentOf(string(name), n.Name) == a.Name {
			return string(name)
		}
	}
	for _, one := range n.Status.VolumesAttached {
		if volumes.AttachmentOf(string(one.Name), n.Name) == a.Name {
			return string(one.Name)
		}
	}
	return ""
}

// census counts nodes, for the brake.
type census struct {
	all, ailing, gone int
}

// recount is how long a census is good for: it costs a look at all nodes and VolumeAttachments, and the rules of time
// take minutes.
const recount = time.Second

// held says why the brake holds what is detached by force because nodes are not ready or gone; empty if it does not.
func (k *views) held(now time.Time) string {
	c := k.census.Of(now.Truncate(recount), func() census { return k.count(now) })
	if !k.brake.Trips(c.ailing+c.gone, c.all+c.gone) {
		return ""
	}
	return fmt.Sprintf("%d of %d nodes are not ready, and %d more are gone, which is out of the ordinary",
		c.ailing, c.all, c.gone)
}

// count counts the nodes, those of them that have not been ready since lately, and those that are gone and have
// VolumeAttachments left.
func (k *views) count(now time.Time) (c census) {
	for n := range k.nodes.All() {
		c.all++
		if !nodes.Ready(n) && now.Sub(nodes.ReadyChanged(n)) < oldNews {
			c.ailing++
		}
	}
	left := map[string]bool{}
	for a := range k.volumes.attachments.All() {
		if ours(a) && a.DeletionTimestamp == nil && k.nodes.Get(a.Spec.NodeName) == nil {
			left[a.Spec.NodeName] = true
		}
	}
	c.gone = len(left)
	return c
}
