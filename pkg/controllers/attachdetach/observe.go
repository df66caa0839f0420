package attachdetach

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	podsOn      informers.NodePodCache
	podsOf      informers.ClaimPodCache
	podsWith    informers.IndexedStore[*corev1.Pod] // by the names of volumes that stand in them, and by their drivers
	nodes       informers.NodeCache
	reporting   informers.IndexedStore[*corev1.Node] // the same, by the volumes that their statuses name
	claims      informers.Store[*corev1.PersistentVolumeClaim]
	volumes     informers.IndexedStore[*corev1.PersistentVolume]    // by the names that they have in the statuses of nodes, and by drivers
	attachments informers.IndexedStore[*storagev1.VolumeAttachment] // by what they attach, and by nodes
	drivers     informers.Store[*storagev1.CSIDriver]
	root        client.Reader // with the identity that watches; nil: caches are trusted
	brake       *brake.Brake

	disableTimeout bool
	term           *reconcile.Term[term]
	misnamed       misnamedIndex
	inline         inlines
	census         reconcile.Memo[time.Time, census]
}

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

// attachable reports whether the driver of a volume attaches volumes at all (AD-11).
func (k *caches) attachable(v volume) bool {
	if v.Driver == "" {
		return v.Name != ""
	}
	if d := k.drivers.Get("", v.Driver); d != nil {
		return attaches(d)
	}
	t, _ := k.term.Get()
	return t.Absences.attaches(time.Now(), v.Driver)
}

// volumeOfClaim returns the volume that a claim stands for, with its name empty if nodes do not attach it. If ok is false, the claim is not bound, so
// that nobody can tell (AD-14).
func (k *caches) volumeOfClaim(namespace, claim string) (v volume, ok bool) {
	c := k.claims.Get(namespace, claim)
	if c == nil || c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName == "" {
		return volume{}, false
	}
	pv := k.volumes.Get("", c.Spec.VolumeName)
	if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != c.UID {
		return volume{}, false
	}
	if v = ofPV(pv); !k.attachable(v) {
		return volume{}, true
	}
	return v, true
}

// volumesOf returns the volumes of a pod that nodes attach.
func (k *caches) volumesOf(p *corev1.Pod) []volume {
	all, _ := k.resolve(p)
	return all
}

// resolve is volumesOf, and reports whether all claims of the pod are bound: if so, the pod uses no other volumes.
func (k *caches) resolve(p *corev1.Pod) (all []volume, ok bool) {
	ok = true
	inline := k.inline.of(p)
	for i := range p.Spec.Volumes {
		v, known := inline.all[i], true
		if name, ok := podutil.ClaimOf(p, &p.Spec.Volumes[i]); ok {
			v, known = k.volumeOfPodClaim(p, &p.Spec.Volumes[i], name)
		} else if !k.attachable(v) {
			v = volume{}
		}
		if ok = ok && known; v.Name != "" {
			all = append(all, v)
		}
	}
	return all, ok
}

// volumeOfPodClaim is volumeOfClaim for a claim that a volume of a pod names.
func (k *caches) volumeOfPodClaim(p *corev1.Pod, of *corev1.Volume, name string) (v volume, ok bool) {
	if of.PersistentVolumeClaim == nil {
		if c := k.claims.Get(p.Namespace, name); c == nil || !metav1.IsControlledBy(c, p) {
			return volume{}, false
		}
	}
	return k.volumeOfClaim(p.Namespace, name)
}

// podWithUnboundClaim names a pod on a node of which a claim is no longer bound, so that one of its volumes is not known;
// empty if there is none. A kubelet mounts nothing for a pod with a claim that is not bound, so a pod that has never run uses
// nothing.
func (k *caches) podWithUnboundClaim(node string) (name string) {
	for _, p := range k.podsOn.OnNode(node) {
		if !needs(p) || !hasRun(p) {
			continue
		}
		if _, ok := k.resolve(p); !ok && (name == "" || podName(p) < name) {
			name = podName(p)
		}
	}
	return name
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// observeVolume finds who needs a volume, and where it is.
func (k *caches) observeVolume(_ context.Context, r reconcile.Request[volumeMemory]) (o reconcile.Observation[volumeSnapshot, volumeMemory], err error) {
	s := volumeSnapshot{DisableTimeout: k.disableTimeout, Memory: ptr.Deref(r.Memory, volumeMemory{})}
	if !k.cachesCompared() {
		s.NotCompared = notCompared
	}
	name := k.volumeNamed(r.Key.Name)
	var by map[string]*podsOnNode
	s.Volume, by = k.podsNeeding(name)
	s.Users = k.users(by)
	for _, pv := range k.volumes.By(byName + name) {
		o.Exists = true
		s.Attachments = append(s.Attachments, k.attachmentsOf(pv)...)
	}
	s.Attachments = append(s.Attachments, k.attachments.By(byName+name)...)
	if s.Volume.Name != "" && !s.Volume.statusOnly() {
		s.Misnamed = k.misnamedOf(s.Volume)
		s.Attachments = append(s.Attachments, s.Misnamed...)
	}
	if s.Volume.statusOnly() || slices.ContainsFunc(s.Users, func(u usingNode) bool { return u.Volume.Exclusive }) {
		s.ReportingNodes = k.reportingNodes(name, by)
	}
	if slices.ContainsFunc(s.ReportingNodes, func(n reportingNode) bool { return !nodes.Ready(n.Node) }) {
		s.Held = k.held(r.Now)
	}
	o.Exists = o.Exists || len(s.Attachments) > 0 || len(by) > 0
	slices.SortFunc(s.Attachments, func(a, b *storagev1.VolumeAttachment) int { return strings.Compare(a.Name, b.Name) })
	o.Snapshot = s
	return o, nil
}

// podsOnNode are the pods that need a volume on one node.
type podsOnNode struct {
	pods []*corev1.Pod
	as   volume // what it is for them
}

// before reports whether a volume is rather what it is than another one of the same name: a PersistentVolume is an administrator's, and whatever a
// user writes into a pod says nothing of it.
func (v volume) before(other volume) bool {
	switch {
	case other.Name == "":
		return true
	case (v.PV == "") != (other.PV == ""):
		return v.PV != ""
	}
	return v.PV < other.PV
}

// podsNeeding returns the pods that need a volume, by node, and what it is for all that name it: the first of its PersistentVolumes, if there are any.
func (k *caches) podsNeeding(name string) (v volume, by map[string]*podsOnNode) {
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
	for _, pv := range k.volumes.By(byName + name) {
		ref := pv.Spec.ClaimRef
		if ref == nil {
			continue
		}
		for _, p := range k.podsOf.Naming(ref.Namespace, ref.Name) {
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
	inline := k.podsWith.By(byName + name)
	slices.SortFunc(inline, older) // of several definitions, the first one counts
	for _, p := range inline {
		if one, there := k.inline.of(p).byName[name]; there && k.attachable(one) {
			use(one, p)
		}
	}
	return v, by
}

// reportingNodes returns the nodes whose statuses name a volume, by name.
func (k *caches) reportingNodes(name string, by map[string]*podsOnNode) (all []reportingNode) {
	for _, n := range k.reporting.By(byName + name) {
		all = append(all, reportingNode{Node: n, Needed: by[n.Name] != nil, UnboundClaim: !nodes.Ready(n) &&
			k.podWithUnboundClaim(n.Name) != ""})
	}
	slices.SortFunc(all, func(a, b reportingNode) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	return all
}

// volumeNamed returns the name of a volume in the statuses of nodes. People ask for the volume by its PersistentVolume.
func (k *caches) volumeNamed(name string) string {
	if pv := k.volumes.Get("", name); pv != nil {
		return ofPV(pv).Name
	}
	return name
}

// attachmentsOf returns the VolumeAttachments of a PersistentVolume. One that is named after another handle is that of another volume, of whose
// PersistentVolume this one has the name.
func (k *caches) attachmentsOf(pv *corev1.PersistentVolume) []*storagev1.VolumeAttachment {
	v := ofPV(pv)
	return slices.DeleteFunc(k.attachments.By(byVolume+pv.Name), func(a *storagev1.VolumeAttachment) bool { return ours(a) && !v.attachedBy(a) })
}

// users returns the nodes where pods need a volume: that of the oldest pod first.
func (k *caches) users(by map[string]*podsOnNode) (all []usingNode) {
	for node, on := range by {
		slices.SortFunc(on.pods, older)
		n := k.nodes.Get(node)
		all = append(all, usingNode{Node: node, Pods: on.pods, Volume: on.as, Managed: n != nil && managed(n)})
	}
	slices.SortFunc(all, func(a, b usingNode) int { return older(a.Pods[0], b.Pods[0]) })
	return all
}

func older(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
