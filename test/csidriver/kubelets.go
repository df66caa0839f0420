package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/listers/coordination/v1"
	core "k8s.io/client-go/listers/core/v1"
	storage "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// kubelets do for all simulated nodes what kubelets do about volumes.
type kubelets struct {
	client kubernetes.Interface
	driver string

	pods     core.PodLister
	nodes    core.NodeLister
	claims   core.PersistentVolumeClaimLister
	volumes  core.PersistentVolumeLister
	leases   coordination.LeaseNamespaceLister
	csiNodes storage.CSINodeLister
	synced   []cache.InformerSynced

	changed chan struct{} // has a value while something has changed since the last look
}

func newKubelets(client kubernetes.Interface, driver string, stop <-chan struct{}) (*kubelets, error) {
	all := informers.NewSharedInformerFactory(client, 0)
	alive := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(corev1.NamespaceNodeLease))
	k := &kubelets{
		client: client, driver: driver, changed: make(chan struct{}, 1),
		pods:     all.Core().V1().Pods().Lister(),
		nodes:    all.Core().V1().Nodes().Lister(),
		claims:   all.Core().V1().PersistentVolumeClaims().Lister(),
		volumes:  all.Core().V1().PersistentVolumes().Lister(),
		leases:   alive.Coordination().V1().Leases().Lister().Leases(corev1.NamespaceNodeLease),
		csiNodes: all.Storage().V1().CSINodes().Lister(),
	}
	for _, informer := range []cache.SharedIndexInformer{
		all.Core().V1().Pods().Informer(), all.Core().V1().Nodes().Informer(), all.Core().V1().PersistentVolumeClaims().Informer(),
		all.Core().V1().PersistentVolumes().Informer(), all.Storage().V1().CSINodes().Informer(),
		alive.Coordination().V1().Leases().Informer(),
	} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { k.look() },
			UpdateFunc: func(any, any) { k.look() },
			DeleteFunc: func(any) { k.look() },
		})
		if err != nil {
			return nil, err
		}
		k.synced = append(k.synced, registration.HasSynced)
	}
	all.Start(stop)
	alive.Start(stop)
	return k, nil
}

// look has them look at everything soon.
func (k *kubelets) look() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// run works until ctx ends.
func (k *kubelets) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), k.synced...) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
		}
		if err := k.pass(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "The nodes are looked at again")
			time.AfterFunc(time.Second, k.look)
		}
		select { // what changes meanwhile is seen together
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// pass looks at all nodes once, and writes what differs.
func (k *kubelets) pass(ctx context.Context) error {
	nodes, err := k.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	pods, err := k.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	on := map[string][]*corev1.Pod{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
		}
	}
	var problems []error
	for _, node := range nodes {
		if !simulated(node) || k.dead(node) {
			continue
		}
		problems = append(problems, k.register(ctx, node), k.use(ctx, node, on[node.Name]))
	}
	return errors.Join(problems...)
}

// simulated tells whether a node is played by kwok.
func simulated(node *corev1.Node) bool { return node.Annotations["kwok.x-k8s.io/node"] != "" }

// killer holds the Leases of nodes that "localcluster kill-node" has killed: their kubelets do nothing.
const killer = "localcluster-kill-node"

func (k *kubelets) dead(node *corev1.Node) bool {
	lease, err := k.leases.Get(node.Name)
	return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == killer
}

// managed is the annotation of nodes whose volumes the attach/detach controller attaches.
const managed = "volumes.kubernetes.io/controller-managed-attach-detach"

// register does what a kubelet does when a driver comes to its node.
func (k *kubelets) register(ctx context.Context, node *corev1.Node) error {
	if node.Annotations[managed] == "" {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, managed)
		if _, err := k.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	found, err := k.csiNodes.Get(node.Name)
	switch {
	case apierrors.IsNotFound(err):
		_, err = k.client.StorageV1().CSINodes().Create(ctx, csiNode(node, k.driver), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // its event is on the way
		}
		return err
	case err != nil:
		return err
	case !belongsTo(found, node): // to one of the same name that is gone
		uid := found.UID
		return k.client.StorageV1().CSINodes().Delete(ctx, found.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	case slices.ContainsFunc(found.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == k.driver }):
		return nil
	}
	changed := found.DeepCopy()
	changed.Spec.Drivers = append(changed.Spec.Drivers, csiNode(node, k.driver).Spec.Drivers...)
	_, err = k.client.StorageV1().CSINodes().Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

func csiNode(node *corev1.Node, driver string) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: node.Name}}},
	}
}

func belongsTo(c *storagev1.CSINode, node *corev1.Node) bool {
	return slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == node.UID })
}

// mount is a claim that pods of a node use, and its volume.
type mount struct {
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
	device string // the name of the volume in the status of nodes
}

// use reports the volumes that the pods of a node use, and lets their file systems grow.
func (k *kubelets) use(ctx context.Context, node *corev1.Node, pods []*corev1.Pod) error {
	mounts, err := k.mounts(pods)
	if err != nil {
		return err
	}
	inUse := []corev1.UniqueVolumeName{}
	for _, m := range mounts {
		inUse = append(inUse, corev1.UniqueVolumeName(m.device))
	}
	slices.Sort(inUse)
	inUse = slices.Compact(inUse)
	if !slices.Equal(inUse, node.Status.VolumesInUse) {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": inUse}})
		if err != nil {
			return err
		}
		if _, err := k.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{},
			"status"); err != nil {
			return err
		}
	}
	for _, m := range mounts {
		attached := slices.ContainsFunc(node.Status.VolumesAttached,
			func(a corev1.AttachedVolume) bool { return string(a.Name) == m.device })
		claim := grown(m.claim, m.volume)
		if !attached || claim == nil {
			continue
		}
		if _, err := k.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim,
			metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// mounts are the driver's volumes that pods use.
func (k *kubelets) mounts(pods []*corev1.Pod) (all []mount, err error) {
	for _, p := range pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, name := range claimsOf(p) {
			claim, err := k.claims.PersistentVolumeClaims(p.Namespace).Get(name)
			if apierrors.IsNotFound(err) || err == nil && (claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "") {
				continue
			}
			if err != nil {
				return nil, err
			}
			volume, err := k.volumes.Get(claim.Spec.VolumeName)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if source := volume.Spec.CSI; source != nil && source.Driver == k.driver && volume.Spec.ClaimRef != nil &&
				volume.Spec.ClaimRef.UID == claim.UID {
				all = append(all, mount{claim, volume, "kubernetes.io/csi/" + source.Driver + "^" + source.VolumeHandle})
			}
		}
	}
	return all, nil
}

// claimsOf are the names of the claims that a pod uses.
func claimsOf(p *corev1.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}

// grown is the claim as it is when a node has grown the file system of its volume. It is nil if there is nothing to grow: the
// resizer says what waits for a node.
func grown(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	waits := slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue
	})
	resize := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	if !waits && resize != corev1.PersistentVolumeClaimNodeResizePending {
		return nil
	}
	changed := claim.DeepCopy()
	if changed.Status.Capacity == nil {
		changed.Status.Capacity = corev1.ResourceList{}
	}
	changed.Status.Capacity[corev1.ResourceStorage] = volume.Spec.Capacity[corev1.ResourceStorage]
	delete(changed.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
	changed.Status.Conditions = slices.DeleteFunc(changed.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending || c.Type == corev1.PersistentVolumeClaimResizing
	})
	return changed
}
