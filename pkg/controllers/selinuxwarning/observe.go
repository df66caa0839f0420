package selinuxwarning

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	byClaim  informers.ClaimPodCache
	byVolume informers.IndexedStore[*corev1.Pod] // by the volumes that stand in them
	claims   informers.Store[*corev1.PersistentVolumeClaim]
	volumes  informers.IndexedStore[*corev1.PersistentVolume] // by their names and drivers
	drivers  informers.Store[*storagev1.CSIDriver]

	// conflicts is the term: those of each volume.
	conflicts *reconcile.Term[conflicts]
}

// Indexes have values of two kinds, which begin differently.
const (
	indexName = "SELinux"
	byName    = "named "
	byDriver  = "driver "
)

type (
	request     = reconcile.Request[memory]
	observation = reconcile.Observation[snapshot, memory]
)

// observe finds the pods that mount a volume. When the last one is gone, so are its conflicts.
func (k *caches) observe(_ context.Context, r request) (o observation, err error) {
	volume := r.Key.Name
	known, _ := k.conflicts.Get()
	o.Memory = r.Memory
	o.Snapshot = snapshot{Volume: volume, Mountable: k.mountable(volume), Uses: k.usesOf(volume), Reported: r.Memory}
	o.Exists = len(o.Snapshot.Uses) > 0 || len(known.of(volume)) > 0
	return o, nil
}

// usesOf returns what the pods do with a volume that mount it, in the order of their names.
func (k *caches) usesOf(volume string) (uses []use) {
	pods, names := map[plan.Key]*corev1.Pod{}, map[plan.Key]map[string]bool{} // what each calls it
	add := func(p *corev1.Pod, is func(*corev1.Volume) bool) {
		key := plan.KeyOf(p)
		for v := range volumesOf(p) {
			if !is(v) {
				continue
			}
			if pods[key] == nil {
				pods[key], names[key] = p, map[string]bool{}
			}
			names[key][v.Name] = true
		}
	}
	for _, p := range k.byVolume.By(byName + volume) {
		add(p, func(v *corev1.Volume) bool { return inlineName(&v.VolumeSource, p.Namespace) == volume })
	}
	for _, c := range k.claimsOf(volume) {
		for _, p := range k.byClaim.Naming(c.Namespace, c.Name) {
			add(p, func(v *corev1.Volume) bool { return claims(p, v, c) })
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(pods), byKey) {
		if u, mounts := useOf(pods[key], names[key]); mounts && !podutil.Finished(pods[key]) {
			uses = append(uses, u)
		}
	}
	return uses
}

func byKey(a, b plan.Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// claimsOf returns the claims that are bound to a volume.
func (k *caches) claimsOf(volume string) (all []*corev1.PersistentVolumeClaim) {
	for _, pv := range k.volumes.By(byName + volume) {
		if ref := pv.Spec.ClaimRef; ref != nil {
			c := k.claims.Get(ref.Namespace, ref.Name)
			if c != nil && c.UID == ref.UID && c.Spec.VolumeName == pv.Name && c.Status.Phase == corev1.ClaimBound {
				all = append(all, c)
			}
		}
	}
	return all
}

// claims reports whether a volume of a pod is that of a claim.
func claims(p *corev1.Pod, v *corev1.Volume, c *corev1.PersistentVolumeClaim) bool {
	name, ok := podutil.ClaimOf(p, v)
	return ok && name == c.Name && (v.Ephemeral == nil || metav1.IsControlledBy(c, p))
}

// mountable reports whether a volume may be mounted with a label (ST-62).
func (k *caches) mountable(volume string) bool {
	driver := volumes.DriverOf(volume)
	if driver == "" {
		return true // iSCSI and FC
	}
	d := k.drivers.Get("", driver)
	return d != nil && d.Spec.SELinuxMount != nil && *d.Spec.SELinuxMount
}

// volumeOf returns the name that nodes have for a volume of a pod; empty if it has none, or its claim has no
// PersistentVolume yet: that it gets one enqueues the volume (ST-60).
func (k *caches) volumeOf(p *corev1.Pod, v *corev1.Volume) string {
	claim, ok := podutil.ClaimOf(p, v)
	if !ok {
		return inlineName(&v.VolumeSource, p.Namespace)
	}
	if c := k.claims.Get(p.Namespace, claim); c != nil {
		if pv := k.volumes.Get("", c.Spec.VolumeName); pv != nil {
			return nameOf(pv)
		}
	}
	return ""
}

// mostVolumes is how many volumes a pod may have. Each of them is a key for which all volumes of the pod are compared,
// and no node attaches as many. Pods with more are not looked at.
const mostVolumes = 500

// volumesOf returns the volumes of a pod that is looked at.
func volumesOf(p *corev1.Pod) iter.Seq[*corev1.Volume] {
	return func(yield func(*corev1.Volume) bool) {
		if len(p.Spec.Volumes) > mostVolumes {
			return
		}
		for i := range p.Spec.Volumes {
			if !yield(&p.Spec.Volumes[i]) {
				return
			}
		}
	}
}

func indexPod(p *corev1.Pod) (values []string) {
	for v := range volumesOf(p) {
		values = appendName(values, inlineName(&v.VolumeSource, p.Namespace))
	}
	return values
}

func indexVolume(pv *corev1.PersistentVolume) []string { return appendName(nil, nameOf(pv)) }

// appendName adds the values of a volume to those of an index.
func appendName(values []string, volume string) []string {
	if volume == "" {
		return values
	}
	values = append(values, byName+volume)
	if driver := volumes.DriverOf(volume); driver != "" {
		values = append(values, byDriver+driver)
	}
	return values
}

// enqueuedByPod returns the volumes of a pod that comes, goes or ends, or has got another container.
func (k *caches) enqueuedByPod(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && is != nil && was.UID == is.UID && podutil.Finished(was) == podutil.Finished(is) &&
		len(was.Spec.EphemeralContainers) == len(is.Spec.EphemeralContainers) {
		return nil
	}
	var keys keys
	for _, p := range []*corev1.Pod{was, is} {
		if p == nil {
			continue
		}
		for v := range volumesOf(p) {
			keys.add(k.volumeOf(p, v))
		}
	}
	return keys.all
}

// enqueuedByClaim returns the volume of a claim whose binding has changed.
func (k *caches) enqueuedByClaim(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.PersistentVolumeClaim)
	is, _ := after.(*corev1.PersistentVolumeClaim)
	if was != nil && is != nil && was.UID == is.UID && was.Spec.VolumeName == is.Spec.VolumeName &&
		was.Status.Phase == is.Status.Phase {
		return nil
	}
	var keys keys
	for _, c := range []*corev1.PersistentVolumeClaim{was, is} {
		if c == nil {
			continue
		}
		if pv := k.volumes.Get("", c.Spec.VolumeName); pv != nil {
			keys.add(nameOf(pv))
		}
	}
	return keys.all
}

// enqueuedByVolume returns the volume that a PersistentVolume is, or was, if somebody else has it now.
func (k *caches) enqueuedByVolume(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.PersistentVolume)
	is, _ := after.(*corev1.PersistentVolume)
	if was != nil && is != nil && equality.Semantic.DeepEqual(was.Spec, is.Spec) {
		return nil
	}
	var keys keys
	for _, pv := range []*corev1.PersistentVolume{was, is} {
		if pv != nil {
			keys.add(nameOf(pv))
		}
	}
	return keys.all
}

// enqueuedByDriver returns the volumes of a driver of which it has changed whether they may be mounted with a label.
func (k *caches) enqueuedByDriver(before, after plan.Object) []plan.Key {
	labelled := func(o plan.Object) bool {
		d, _ := o.(*storagev1.CSIDriver)
		return d != nil && d.Spec.SELinuxMount != nil && *d.Spec.SELinuxMount
	}
	if labelled(before) == labelled(after) {
		return nil
	}
	var keys keys
	name := informers.Itself(before, after)[0].Name
	for _, pv := range k.volumes.By(byDriver + name) {
		keys.add(nameOf(pv))
	}
	for _, p := range k.byVolume.By(byDriver + name) {
		for v := range volumesOf(p) {
			if volume := inlineName(&v.VolumeSource, p.Namespace); volumes.DriverOf(volume) == name {
				keys.add(volume)
			}
		}
	}
	return keys.all
}

// keys are volumes in the order in which they were added.
type keys struct {
	all  []plan.Key
	seen map[string]bool
}

// add adds a volume, once.
func (k *keys) add(volume string) {
	if volume == "" || k.seen[volume] {
		return
	}
	if k.seen == nil {
		k.seen = map[string]bool{}
	}
	k.seen[volume] = true
	k.all = append(k.all, plan.Key{Name: volume})
}
