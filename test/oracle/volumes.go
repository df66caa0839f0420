package oracle

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OneNodePerExclusiveVolume is S30: no manager creates a VolumeAttachment of a volume that one node at a time may have while another node
// has one of the same volume (AD-24, AD-70, AD-87). No rule allows it: who detaches by force has to wait, too. One that somebody else has
// created within the lag excuses.
func OneNodePerExclusiveVolume() Oracle {
	return Oracle{"S30", "no volume for one node at a time has VolumeAttachments of two nodes", func(j *judge) hooks {
		a := newAttachments()
		return hooks{before: func(r *revision) {
			if one, ok := r.Object.(*storagev1.VolumeAttachment); ok && r.manager && r.Type == Added {
				j.alone(r, one, a)
			}
		}, after: a.apply(j)}
	}}
}

// alone judges the creation of a VolumeAttachment.
func (j *judge) alone(r *revision, one *storagev1.VolumeAttachment, a *attachments) {
	v := a.volumeOf(one)
	if v == nil || !exclusive(v) {
		return
	}
	excused := false
	for name, other := range a.all {
		if name == one.Name || other.Spec.NodeName == one.Spec.NodeName || !sameVolume(v, a.volumeOf(other.VolumeAttachment)) {
			continue
		}
		if !other.managed && j.recent(r, other.since, VolumeAttachment) {
			excused = true
			continue
		}
		j.judges(false)
		j.report(r, []string{VolumeAttachment + "/" + name, PersistentVolume + "/" + v.Name},
			"the volume %s, which one node at a time may have, is attached to %s, too", v.Name, other.Spec.NodeName)
		return
	}
	j.judges(excused)
}

// NoDetachWhileUsed is S31: a manager deletes a VolumeAttachment only when no pod that may run on the node needs the volume (AD-15, AD-18),
// and the node does not list it as attached, and either does not have it in use, or is out of service, or is not ready and no pod has
// needed it for forcedAfter (AD-31 to AD-37). The node is read live before, so that a watch that is late excuses nothing; what the node has
// said within the lag does, and so does a pod that has come within the lag of its watch.
func NoDetachWhileUsed() Oracle {
	return Oracle{"S31", "no volume is detached that a living node has in use", func(j *judge) hooks {
		d := &detachJudge{judge: j, attachments: newAttachments(), nodes: map[string][]nodeAt{},
			claims: map[string]*corev1.PersistentVolumeClaim{},
			users:  map[place]map[types.UID]time.Time{}, ended: map[place]time.Time{}}
		return hooks{before: func(r *revision) {
			old, ok := r.old.(*storagev1.VolumeAttachment)
			if ok && r.manager && r.goes() && old.DeletionTimestamp == nil {
				d.detaches(r, old)
			}
		}, after: d.after}
	}}
}

// forcedAfter is how long a node that is not ready keeps what it has in use (AD-34).
const forcedAfter = 6 * time.Minute

// nodeAt is a node as it is from a time on; nil: it is gone.
type nodeAt struct {
	from time.Time
	*corev1.Node
}

// place is where a claim is used.
type place struct{ node, namespace, claim string }

type detachJudge struct {
	*judge
	*attachments
	nodes  map[string][]nodeAt // all states that each has had
	claims map[string]*corev1.PersistentVolumeClaim
	users  map[place]map[types.UID]time.Time // pods that need a claim, and since when
	ended  map[place]time.Time               // when the last one that did not need it any more
}

func (d *detachJudge) after(r *revision) {
	switch o := r.Object.(type) {
	case *corev1.Node:
		state := nodeAt{from: d.now, Node: o}
		if r.Type == Deleted {
			state.Node = nil
		}
		d.nodes[o.Name] = append(d.nodes[o.Name], state)
	case *corev1.PersistentVolumeClaim:
		put(d.claims, r.key, o, r.Type == Deleted)
	case *corev1.Pod:
		d.afterPod(r, o)
	}
	d.apply(d.judge)(r)
}

// afterPod notes who needs which claims.
func (d *detachJudge) afterPod(r *revision, p *corev1.Pod) {
	running := func(c corev1.ContainerStatus) bool { return c.State.Running != nil }
	needs := r.Type != Deleted && !finished(p) && (p.DeletionTimestamp == nil || slices.ContainsFunc(p.Status.ContainerStatuses, running) ||
		slices.ContainsFunc(p.Status.InitContainerStatuses, running))
	for _, v := range p.Spec.Volumes {
		if p.Spec.NodeName == "" || v.PersistentVolumeClaim == nil {
			continue
		}
		at := place{p.Spec.NodeName, p.Namespace, v.PersistentVolumeClaim.ClaimName}
		since, known := d.users[at][p.UID]
		switch {
		case needs && !known:
			put2(d.users, at, p.UID, d.now)
		case !needs && known && !since.IsZero():
			delete(d.users[at], p.UID)
			d.ended[at] = d.now
		}
	}
}

// detaches judges the deletion of a VolumeAttachment.
func (d *detachJudge) detaches(r *revision, a *storagev1.VolumeAttachment) {
	at, bound := d.placeOf(a)
	if bound {
		for _, since := range d.users[at] {
			if d.recent(r, since, Pod) {
				continue
			}
			d.judges(false)
			d.report(r, []string{Node + "/" + a.Spec.NodeName}, "it is deleted, and a pod on the node %s has needed it for %v",
				a.Spec.NodeName, d.now.Sub(since))
			return
		}
	}
	states := d.nodes[a.Spec.NodeName]
	since := d.outages.of(r.author, "none").before(d.now, d.o.Lag)
	wrong := ""
	for i := len(states) - 1; i >= 0; i-- {
		now := i == len(states)-1
		if !now && states[i+1].from.Before(since) {
			break
		}
		problem := d.keeps(states[i].Node, a, d.now.Sub(d.ended[at]))
		if problem == "" {
			d.judges(!now)
			return
		}
		wrong = cmp.Or(wrong, problem)
	}
	if d.judges(false); wrong != "" {
		d.report(r, []string{Node + "/" + a.Spec.NodeName}, "it is deleted, and the node %s", wrong)
	}
}

// placeOf is where the claim of a VolumeAttachment's volume may be used, if that is bound to it.
func (d *detachJudge) placeOf(a *storagev1.VolumeAttachment) (at place, bound bool) {
	v := d.volumeOf(a)
	if v == nil || v.Spec.ClaimRef == nil {
		return place{node: a.Spec.NodeName}, false
	}
	ref := v.Spec.ClaimRef
	claim := d.claims[ref.Namespace+"/"+ref.Name]
	bound = claim != nil && claim.UID == ref.UID && claim.Spec.VolumeName == v.Name && claim.Status.Phase == corev1.ClaimBound
	return place{a.Spec.NodeName, ref.Namespace, ref.Name}, bound
}

// keeps says why a node keeps the volume of a VolumeAttachment that no pod has needed for a time; empty if it does not.
func (d *detachJudge) keeps(n *corev1.Node, a *storagev1.VolumeAttachment, spare time.Duration) string {
	if n == nil {
		return ""
	}
	is := func(name string) bool { return attachmentName(name, n.Name) == a.Name }
	if slices.ContainsFunc(n.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return is(string(v.Name)) }) {
		return "lists the volume as attached"
	}
	used := slices.ContainsFunc(n.Status.VolumesInUse, func(name corev1.UniqueVolumeName) bool { return is(string(name)) })
	out := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "node.kubernetes.io/out-of-service" })
	switch {
	case !used, out, !nodeReady(n) && spare >= forcedAfter-d.o.Slack:
		return ""
	case !nodeReady(n):
		return fmt.Sprintf("is not ready and has it in use, which no pod has needed for %v", spare)
	}
	return "is ready and has it in use"
}

// attachmentName is the name of the VolumeAttachment of a volume that the status of a node names (AD-6, AD-8).
func attachmentName(volume, node string) string {
	of, _ := strings.CutPrefix(volume, "kubernetes.io/csi/")
	driver, handle, _ := strings.Cut(of, "^")
	sum := sha256.Sum256([]byte(handle + driver + node))
	return "csi-" + hex.EncodeToString(sum[:])
}

// attachments are the VolumeAttachments that exist, and the PersistentVolumes, those that are gone included.
type attachments struct {
	all     map[string]*attachment
	volumes map[string]*corev1.PersistentVolume
}

type attachment struct {
	*storagev1.VolumeAttachment
	since   time.Time
	managed bool // a manager has created it
}

func newAttachments() *attachments {
	return &attachments{all: map[string]*attachment{}, volumes: map[string]*corev1.PersistentVolume{}}
}

func (a *attachments) apply(j *judge) func(*revision) {
	return func(r *revision) {
		switch o := r.Object.(type) {
		case *corev1.PersistentVolume:
			a.volumes[o.Name] = o
		case *storagev1.VolumeAttachment:
			before := a.all[o.Name]
			switch {
			case r.Type == Deleted:
				delete(a.all, o.Name)
			case before != nil && before.UID == o.UID:
				before.VolumeAttachment = o
			default:
				a.all[o.Name] = &attachment{o, j.now, r.manager}
			}
		}
	}
}

// volumeOf is the volume of a VolumeAttachment, nil if it is not known.
func (a *attachments) volumeOf(one *storagev1.VolumeAttachment) *corev1.PersistentVolume {
	if name := one.Spec.Source.PersistentVolumeName; name != nil {
		return a.volumes[*name]
	}
	return nil
}

// sameVolume reports whether two PersistentVolumes are one volume: those of a driver may share one by its handle.
func sameVolume(a, b *corev1.PersistentVolume) bool {
	if a != nil && b != nil && a.Name == b.Name {
		return true
	}
	return a != nil && b != nil && a.Spec.CSI != nil && b.Spec.CSI != nil && a.Spec.CSI.Driver == b.Spec.CSI.Driver &&
		a.Spec.CSI.VolumeHandle == b.Spec.CSI.VolumeHandle
}

// exclusive reports whether one node at a time may have a volume (AD-24).
func exclusive(v *corev1.PersistentVolume) bool {
	return len(v.Spec.AccessModes) > 0 && !slices.Contains(v.Spec.AccessModes, corev1.ReadWriteMany) &&
		!slices.Contains(v.Spec.AccessModes, corev1.ReadOnlyMany)
}
