package attachdetach

import (
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/standalone-kcm/controller-manager/internal/clock"
	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// notCompared is what plans wait for at the beginning of a term.
const notCompared = "it is not known yet what another leader has attached and detached"

// compareCaches is the Source of the queue of volumes. It lists VolumeAttachments and nodes live once in each term, and
// waits until the caches show what the server has: a VolumeAttachment that a previous leader has created, or the list
// of a node that it has written, may be that by which another node has an exclusive volume, and a VolumeAttachment that
// it has deleted must not be in the list of its node any more. Nothing is written before. One list of each does for all
// volumes.
func (k *volumeController) compareCaches(ctx context.Context, enqueue func(plan.Key)) {
	var c comparison
	for ctx.Err() == nil {
		if c.made(ctx, k.views) {
			k.term.Update(func(t term) term {
				t.CachesCompared = true
				return t
			})
			for pv := range k.volumes.pvs.All() {
				if v := ofPV(pv); v.Name != "" {
					enqueue(plan.Key{Name: v.Name})
				}
			}
			k.enqueueAbsent(ctx, enqueue, k.pods.volumesOfDriver)
			return
		}
		clock.Sleep(ctx, time.Second)
	}
}

// waitForComparison is the Source of the queue of nodes.
func (k *nodeController) waitForComparison(ctx context.Context, enqueue func(plan.Key)) {
	for !k.cachesCompared() {
		if !clock.Sleep(ctx, 100*time.Millisecond) {
			return
		}
	}
	for _, name := range k.nodes.Names() {
		enqueue(plan.Key{Name: name})
	}
	for a := range k.volumes.attachments.All() {
		enqueue(plan.Key{Name: a.Spec.NodeName})
	}
	k.enqueueAbsent(ctx, enqueue, k.pods.nodesOfDriver)
}

// comparison is which caches are known to show what the server had when the term began. One that fails does not have
// the other one made again.
type comparison struct{ attachments, nodes bool }

// made reports whether both do.
func (c *comparison) made(ctx context.Context, k *views) bool {
	c.attachments = c.attachments || k.root == nil || shown(ctx, k.root, k.volumes.attachments.Store)
	c.nodes = c.nodes || k.root == nil || shown(ctx, k.root, k.nodes.Store)
	return c.attachments && c.nodes
}

// shown lists live, and reports whether a cache shows all of that within a few seconds.
func shown[T plan.Object](ctx context.Context, root client.Reader, s informers.Store[T]) bool {
	var list metav1.PartialObjectMetadataList
	if err := root.List(ctx, client.MappingFor[T](), "", metav1.ListOptions{}, &list); err != nil {
		return false
	}
	var cache freshness.Caches
	cache.Add(s.Kind(), s.Informer().GetIndexer())
	for range 50 {
		if shows(&list, s, cache) {
			return true
		}
		if !clock.Sleep(ctx, 100*time.Millisecond) {
			return false
		}
	}
	return false
}

// shows reports whether the cache has nothing older than a list.
func shows[T plan.Object](list *metav1.PartialObjectMetadataList, s informers.Store[T], cache freshness.Caches) bool {
	live := map[types.UID]bool{}
	for i := range list.Items {
		o := &list.Items[i]
		live[o.UID] = true
		if !cache.Reached(s.Kind(), o.ResourceVersion) {
			return false
		}
	}
	for o := range s.All() { // what is gone must not be shown any more
		order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), list.ResourceVersion)
		if !live[o.GetUID()] && (err != nil || order <= 0) {
			return false
		}
	}
	return true
}

// live names what may be there though the cache does not show it: what this process has tried to create without an
// answer.
func (s volumeSnapshot) live() (sets []reconcile.Live) {
	at := s.attachmentsByNode()
	for node := range s.Memory.Tried {
		sets = append(sets, attachmentSet(volumes.AttachmentName(s.Volume.Driver, s.Volume.Handle, node), at(node)))
	}
	return sets
}

// live names what may be gone though the cache shows it: what this process has tried to delete.
func (s nodeSnapshot) live() (sets []reconcile.Live) {
	for _, v := range s.Volumes {
		if v.Attachment != nil && !s.Memory.Asked[v.Attachment.Name].When.IsZero() {
			sets = append(sets, attachmentSet(v.Attachment.Name, v.Attachment))
		}
	}
	return sets
}

// attachmentSet is the set of one VolumeAttachment.
func attachmentSet(name string, cached *storagev1.VolumeAttachment) reconcile.Live {
	set := reconcile.LiveOf[*storagev1.VolumeAttachment]("", labels.Everything(), nil)
	if set.Name = name; cached != nil {
		set.Cached = []plan.Object{cached}
	}
	return set
}
