package persistentvolumebinder

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	claims  claimCache
	volumes volumeCache
	classes informers.Store[*storagev1.StorageClass]
	pods    informers.ClaimPodCache
	drivers informers.Store[*storagev1.CSIDriver]
	nodes   informers.IndexedStore[*storagev1.CSINode] // by the drivers that are registered on them

	brake *brake.Brake
	// static says that no driver is asked for volumes.
	static bool
	// bound remembers for a second how many volumes are bound.
	bound reconcile.Memo[time.Time, map[string]int]

	claimTerm  *reconcile.Term[claimTerm]
	volumeTerm *reconcile.Term[volumeTerm]
}

// claimCache finds claims by the volumes that they name, and those that wait.
type claimCache struct {
	informers.Store[*corev1.PersistentVolumeClaim]
	byVolume informers.IndexedStore[*corev1.PersistentVolumeClaim] // by volume
	// unbound, by what has to be equal of them and a volume
	waiting informers.IndexedStore[*corev1.PersistentVolumeClaim]
	classed informers.IndexedStore[*corev1.PersistentVolumeClaim] // unbound, by class
}

// volumeCache finds volumes by the claims that they name, and those that are free.
type volumeCache struct {
	informers.Store[*corev1.PersistentVolume]
	claimed informers.IndexedStore[*corev1.PersistentVolume] // by claim
	free    informers.IndexedStore[*corev1.PersistentVolume] // by their places
	idle    informers.IndexedStore[*corev1.PersistentVolume] // free or Released
}

// everything is the only value of the index of volumes that are free or Released.
const everything = "all"

// noClass is the value of claims that name no class; no class can be called so.
const noClass = "(none)"

// newClaimCache asks for the cache of claims with its indexes.
func newClaimCache(f *informers.Factory) (c claimCache, err error) {
	if c.byVolume, err = informers.IndexedObjects(f, "binder-volume", func(c *corev1.PersistentVolumeClaim) []string {
		return indexValues(c.Spec.VolumeName)
	}); err != nil {
		return c, err
	}
	if c.waiting, err = informers.IndexedObjects(f, "binder-waiting", func(c *corev1.PersistentVolumeClaim) []string {
		if !waits(c) {
			return nil
		}
		class, _ := classOf(c)
		return []string{matchKey(class, c.Spec.VolumeMode, c.Spec.VolumeAttributesClassName)}
	}); err != nil {
		return c, err
	}
	c.classed, err = informers.IndexedObjects(f, "binder-class", func(c *corev1.PersistentVolumeClaim) []string {
		switch class, named := classOf(c); {
		case !waits(c):
			return nil
		case named:
			return []string{class}
		}
		return []string{noClass}
	})
	c.Store = c.byVolume.Store
	return c, err
}

// waits reports whether a claim names no volume yet.
func waits(c *corev1.PersistentVolumeClaim) bool {
	return c.Spec.VolumeName == "" && !labels.Set(c.Annotations).Has(bindCompleted) && c.DeletionTimestamp == nil
}

// newVolumeCache asks for the cache of volumes with its indexes.
func newVolumeCache(f *informers.Factory) (c volumeCache, err error) {
	if c.claimed, err = informers.IndexedObjects(f, "binder-claim", func(v *corev1.PersistentVolume) []string {
		if v.Spec.ClaimRef == nil {
			return nil
		}
		return []string{v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name}
	}); err != nil {
		return c, err
	}
	if c.free, err = informers.IndexedObjects(f, "binder-free", bucketsOf); err != nil {
		return c, err
	}
	c.idle, err = informers.IndexedObjects(f, "binder-idle", func(v *corev1.PersistentVolume) []string {
		if free(v) || v.Status.Phase == corev1.VolumeReleased {
			return []string{everything}
		}
		return nil
	})
	c.Store = c.claimed.Store
	return c, err
}

// some returns a value for an index, none if it is empty.
func indexValues(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

type (
	// claimObservation and volumeObservation are what Observe of the two queues returns.
	claimObservation  = reconcile.Observation[claimSnapshot, claimMemory]
	volumeObservation = reconcile.Observation[volumeSnapshot, volumeMemory]
)

// observeClaim finds a claim with the volume that it is to be planned with.
func (k *caches) observeClaim(_ context.Context, r reconcile.Request[claimMemory]) (o claimObservation, err error) {
	c := k.claims.Get(r.Key.Namespace, r.Key.Name)
	if c == nil {
		return o, nil
	}
	o.Exists = true
	o.Snapshot = claimSnapshot{Claim: c, Static: k.static, Memory: ptr.Deref(r.Memory, claimMemory{})}
	if c.Spec.VolumeName != "" {
		o.Snapshot.Volume = k.volumes.Get("", c.Spec.VolumeName)
	}
	if waits(c) {
		k.look(&o.Snapshot)
	}
	return o, nil
}

// proveClaim takes in what was read live: the class of a claim that waits, or what the cache shows of a claim that was
// bound and its volume.
func (k *caches) proveClaim(o claimObservation, proof reconcile.Proof) claimObservation {
	s := &o.Snapshot
	switch c, cached := s.Claim, s.Volume; {
	case waits(c):
		k.proveClass(s, proof)
	case cached != nil && cached.Spec.ClaimRef == nil:
		// The volume is bound to the claim again only if that has not gone meanwhile: an administrator has freed it
		// then.
		live, ok, _ := reconcile.Found[*corev1.PersistentVolumeClaim](proof, claimRef(c.Namespace, c.Name))
		s.Proved, s.Late = ok, ok && (live == nil || live.UID != c.UID)
	default: // a claim is not Lost because the cache does not have its volume
		live, ok, _ := reconcile.Found[*corev1.PersistentVolume](proof, volumeRef(c.Spec.VolumeName))
		if !ok {
			return o
		}
		s.Proved, s.Volume = true, live
		if live == nil || cached == nil {
			s.Late = live != cached
		} else {
			s.Late = live.ResourceVersion != cached.ResourceVersion
		}
	}
	return o
}

// proveClass takes in the class of a claim as it was read live. One that has gone a moment ago counts as it was.
func (k *caches) proveClass(s *claimSnapshot, proof reconcile.Proof) {
	name, _ := classOf(s.Claim)
	class, ok, _ := reconcile.Found[*storagev1.StorageClass](proof, classRef(name))
	if !ok {
		return
	}
	if s.Class, s.Unclassed = class, false; class == nil {
		t, _ := k.claimTerm.Get()
		s.Class, s.ClassGone = t.Gone.class(proof.Now, name)
	}
	k.lookByClass(s)
}

// look finds what a claim without a volume may be bound to, or has to wait for. That its class does not exist is proved
// by a live read before something comes of it: a class is often created together with the first claim, and it may say
// that its volumes are chosen when a pod is scheduled.
func (k *caches) look(s *claimSnapshot) {
	c := s.Claim
	class, _ := classOf(c)
	for _, v := range k.volumes.claimed.By(c.Namespace + "/" + c.Name) {
		if names(v, c) {
			s.Reserved = append(s.Reserved, v)
		}
	}
	slices.SortFunc(s.Reserved, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	if bestMatch(c, class, s.Reserved) != nil {
		return
	}
	s.Free = found(c, class, k.volumes.free.By)
	if class != "" {
		s.Class = k.classes.Get("", class)
		reported := s.Memory.UID == c.UID && s.Memory.LastEvent != ""
		if s.Unclassed = s.Class == nil && !(reported && len(s.Free) == 0); s.Unclassed {
			return
		}
	}
	k.lookByClass(s)
}

// lookByClass finds what depends on the class of the claim, which is known.
func (k *caches) lookByClass(s *claimSnapshot) {
	c := s.Claim
	class, named := classOf(c)
	if delayed(s.Class) {
		s.Free = nil
	}
	switch {
	case len(s.Free) > 0:
		return
	case !named:
		if s.Default = k.defaultClass(); s.Default != nil && !delayed(s.Default) {
			s.FreeOfDefault = found(c, s.Default.Name, k.volumes.free.By)
		}
	case delayed(s.Class) && !labels.Set(c.Annotations).Has(selectedNode):
		s.Pods = k.unscheduled(c)
		return
	}
	switch name := driverOf(cmp.Or(s.Class, s.Default)); {
	case name != "" && !s.Static:
		s.Driver = driver{Name: name, Known: k.drivers.Get("", name) != nil, Nodes: len(k.nodes.By(name))}
	case s.Default == nil:
		s.Near = nearest(c, class, k.volumes.idle.By(everything))
	}
}

// defaultClass returns the class of claims that name none: of several the newest, and of these the first by name
// (PV-16).
func (k *caches) defaultClass() (newest *storagev1.StorageClass) {
	for class := range k.classes.All() {
		switch {
		case !isDefault(class):
		case newest == nil, newest.CreationTimestamp.Before(&class.CreationTimestamp),
			newest.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < newest.Name:
			newest = class
		}
	}
	return newest
}

// isDefault reports whether a class says that it is the default one, in the present annotation or the earlier
// one.
func isDefault(class *storagev1.StorageClass) bool {
	return class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

// unscheduled returns the names of the pods that use a claim and are to be scheduled.
func (k *caches) unscheduled(c *corev1.PersistentVolumeClaim) (names []string) {
	for _, p := range k.pods.Naming(c.Namespace, c.Name) {
		if unplaced(p) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// observeVolume finds a volume with the claim that it names.
func (k *caches) observeVolume(_ context.Context, r reconcile.Request[volumeMemory]) (o volumeObservation, err error) {
	v := k.volumes.Get("", r.Key.Name)
	if v == nil {
		return o, nil
	}
	o.Exists = true
	s := volumeSnapshot{Volume: v}
	ref := v.Spec.ClaimRef
	if ref == nil {
		s.Claim = k.completed(v)
		o.Snapshot = s
		return o, nil
	}
	s.Claim = k.claims.Get(ref.Namespace, ref.Name)
	s.Memory = ptr.Deref(r.Memory, volumeMemory{})
	if s.Memory.Claim != ref.UID {
		s.Memory = volumeMemory{Claim: ref.UID}
	}
	s.Memory.Deleted = s.Memory.Deleted ||
		slices.ContainsFunc(r.Changes, func(c reconcile.Change) bool { return deleted(c, v) })
	orphaned := ref.UID != "" && (s.Claim == nil || s.Claim.UID != ref.UID)
	if orphaned && v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
		k.lookAtOrphan(r.Now, &s)
	}
	o.Snapshot, o.Memory = s, &s.Memory
	return o, nil
}

// completed returns a claim that was bound to a volume which names none; nil if there is none.
func (k *caches) completed(v *corev1.PersistentVolume) (first *corev1.PersistentVolumeClaim) {
	for _, c := range k.claims.byVolume.By(v.Name) {
		if labels.Set(c.Annotations).Has(bindCompleted) &&
			(first == nil || c.Namespace+"/"+c.Name < first.Namespace+"/"+first.Name) {
			first = c
		}
	}
	return first
}

// deleted reports whether a change is the deletion of the claim that a volume names.
func deleted(c reconcile.Change, v *corev1.PersistentVolume) bool {
	claim, ok := c.Before.(*corev1.PersistentVolumeClaim)
	return ok && claim.UID == v.Spec.ClaimRef.UID && (c.After == nil || c.After.GetUID() != claim.UID)
}

// lookAtOrphan finds out whether a volume is held whose claim is not in the cache. If there is another claim in its
// place, and no watch has shown how that came about, it counts with how many volumes it is so. A volume that is held
// stays so, however few others are, and whatever becomes of the claim: those that were repaired, or were made since, do
// not prove that the others are to go. A new leader does not know which volumes were held: any may be that it has not
// seen lose its claim.
func (k *caches) lookAtOrphan(now time.Time, s *volumeSnapshot) {
	unseen, held := s.Claim != nil && !s.Memory.Deleted, s.Memory.Held
	if held.IsZero() && !s.Memory.Deleted {
		held, _ = k.brake.Inherited(now, heldVolumes)
	}
	if s.HeldSince = held; unseen || !held.IsZero() {
		s.Replaced, s.Tripped = k.outOfTheOrdinary(s.Volume, now)
		s.Tripped = s.Tripped || !held.IsZero() && !k.brake.Released()
	}
	s.Early = unseen && restored(now, s.Volume)
}

// proveVolume takes in the claim of an orphaned volume as it was read live.
func proveVolume(o volumeObservation, proof reconcile.Proof) volumeObservation {
	s := &o.Snapshot
	ref := s.Volume.Spec.ClaimRef
	live, ok, _ := reconcile.Found[*corev1.PersistentVolumeClaim](proof, claimRef(ref.Namespace, ref.Name))
	if s.Read = ok; live != nil {
		s.Live = live.UID
	}
	return o
}

// liveClaim are the objects that are compared with the server before a claim is written of which the cache may be late.
func (k *caches) liveClaim(s claimSnapshot) []reconcile.Live {
	if s.Claim == nil {
		return nil
	}
	all := []reconcile.Live{liveObject(k.claims.Store, s.Claim)}
	class, _ := classOf(s.Claim)
	if v := bestMatch(s.Claim, class, slices.Concat(s.Reserved, s.Free)); v != nil {
		all = append(all, liveObject(k.volumes.Store, v))
	}
	if s.Volume != nil && !s.Late {
		all = append(all, liveObject(k.volumes.Store, s.Volume))
	}
	return all
}

// liveVolume is the object that is compared with the server before a volume is written of which the cache may
// be late.
func (k *caches) liveVolume(s volumeSnapshot) []reconcile.Live {
	if s.Volume == nil {
		return nil
	}
	return []reconcile.Live{liveObject(k.volumes.Store, s.Volume)}
}

// one is a set of one object.
func liveObject[T plan.Object](store informers.Store[T], o T) reconcile.Live {
	return reconcile.Live{Kind: store.Kind(), Namespace: o.GetNamespace(), Name: o.GetName(),
		Selector: labels.Everything(), Cached: []plan.Object{o}}
}
