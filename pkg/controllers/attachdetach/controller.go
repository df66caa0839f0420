package attachdetach

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// How many volumes, and how many nodes, are reconciled at the same time.
const volumeWorkers, nodeWorkers = 16, 16

// New returns the controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.setDefaults()
	return manager.Controller{
		Name:    "persistentvolume-attach-detach-controller",
		Alias:   "attachdetach",
		Account: "attachdetach-controller",
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// sources are the kinds of volumes besides CSI that nodes attach, as pods and PersistentVolumes call them.
func sources() []string {
	return []string{"iscsi", "fc", "awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "azureFile", "cinder",
		"vsphereVolume", "portworxVolume"}
}

// podPaths are the fields that are read of pods. Whether containers run matters of pods that are being deleted.
func podPaths() []string {
	paths := []string{
		"spec.nodeName", "spec.terminationGracePeriodSeconds", "status.phase",
		"spec.volumes.name", "spec.volumes.volumeSource.persistentVolumeClaim.claimName",
		"spec.volumes.volumeSource.ephemeral.volumeClaimTemplate.metadata.name", // it is enough that there is one
		"status.containerStatuses.state.running", "status.initContainerStatuses.state.running",
		"status.ephemeralContainerStatuses.state.running",
	}
	for _, source := range sources() {
		paths = append(paths, "spec.volumes.volumeSource."+source)
	}
	return paths
}

// volumePaths are the fields that are read of PersistentVolumes.
func volumePaths() []string {
	paths := []string{"spec.accessModes", "spec.claimRef", "spec.persistentVolumeSource.csi.driver",
		"spec.persistentVolumeSource.csi.volumeHandle"}
	for _, source := range sources() {
		paths = append(paths, "spec.persistentVolumeSource."+source)
	}
	return paths
}

// nodePaths are the fields that are read of nodes.
func nodePaths() []string {
	return []string{"metadata.annotations[" + managedNode + "]", "spec.taints", "status.conditions",
		"status.volumesInUse", "status.volumesAttached"}
}

func (o *Options) newViews(c manager.Context) (*views, error) {
	fields := informers.PodFields{Paths: podPaths(),
		Condition: func(*corev1.Pod, corev1.PodConditionType) bool { return false }}
	volumes := &volumeView{}
	pods, nodes := &podView{volumes: volumes}, &nodeView{}
	var errs [9]error
	pods.byNode, errs[0] = informers.PodsByNode(c.Informers, fields)
	pods.byClaim, errs[1] = informers.PodsByClaim(c.Informers, fields)
	pods.byVolume, errs[2] = informers.IndexedPods(c.Informers, indexName, indexPod, fields)
	nodes.NodeCache, errs[3] = informers.Nodes(c.Informers, nodePaths()...)
	nodes.reporting, errs[4] = informers.IndexedObjects(c.Informers, indexName, indexNode, nodePaths()...)
	volumes.claims, errs[5] = informers.Objects[*corev1.PersistentVolumeClaim](c.Informers, "spec.volumeName",
		"status.phase")
	volumes.pvs, errs[6] = informers.IndexedObjects(c.Informers, indexName, volumes.misnamed.indexVolume,
		volumePaths()...)
	volumes.attachments, errs[7] = informers.IndexedObjects(c.Informers, indexName, volumes.misnamed.indexAttachment,
		"spec", "status")
	volumes.drivers, errs[8] = informers.Objects[*storagev1.CSIDriver](c.Informers, "spec.attachRequired")
	k := &views{
		volumes: volumes, pods: pods, nodes: nodes,
		root: c.Shared.Verifier, brake: c.Brake, disableTimeout: o.DisableForceDetachOnTimeout,
	}
	k.term = k.newTerm()
	volumes.term = k.term
	return k, errors.Join(errs[:]...)
}

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := o.newViews(c)
	if err != nil {
		return nil, err
	}
	v, n := &volumeController{k}, &nodeController{k}
	own := newCollectors(n)
	c.RegisterMetrics(own.all()...)
	volumes := reconcile.New(c.Shared, c.Access, reconcile.Controller[volumeSnapshot, volumeDecision, volumeMemory]{
		Name:      "attached_volumes",
		QueueName: "pvcs",
		Workers:   volumeWorkers,
		Watches: []reconcile.Watch{
			k.volumes.attachments.Watch(v.volumesByAttachment), k.pods.byNode.Watch(v.volumesByPod),
			k.nodes.Watch(v.volumesByNode), k.volumes.claims.Watch(v.volumesByClaim),
			k.volumes.pvs.Watch(v.volumesByVolume),
			k.term.Follow(k.volumes.drivers.Watch(v.volumesByDriver)),
		},
		Term:     k.term,
		Source:   v.compareCaches,
		Observe:  v.observeVolume,
		Live:     volumeSnapshot.live,
		Plan:     planVolume,
		Remember: reconcile.RememberOutcome(rememberVolume),
		Aliases:  volumeAliases,
		Applied:  own.appliedVolume,
	})
	nodes := reconcile.New(c.Shared, c.Access, reconcile.Controller[nodeSnapshot, nodeDecision, nodeMemory]{
		Name:      "attaching_nodes",
		QueueName: "pvcs",
		Workers:   nodeWorkers,
		Explained: []string{"VolumeAttachment"}, // which are aliases; Nodes are another controller's
		Verified:  []string{"VolumeAttachment"}, // of those that a previous leader has made for a node
		Watches: []reconcile.Watch{
			k.volumes.attachments.Watch(nodesByAttachment, informers.WithDelay(n.batch)),
			k.pods.byNode.Watch(n.nodesByPod, informers.WithDelay(n.batch)),
			k.nodes.Watch(nodesByNode, informers.WithDelay(func(plan.Key) time.Duration { return batchPeriod })),
			k.volumes.claims.Watch(n.nodesByClaim),
			k.volumes.pvs.Watch(n.nodesByVolume), k.volumes.drivers.Watch(n.nodesByDriver),
		},
		Source:   n.waitForComparison,
		Observe:  n.observeNode,
		Prove:    n.proveNode,
		Owner:    nodeSnapshot.owner,
		Live:     nodeSnapshot.live,
		Plan:     planNode,
		Planned:  n.reserve,
		Remember: reconcile.RememberOutcome(rememberNode),
		Aliases:  nodeAliases,
		Applied: func(ctx context.Context, s nodeSnapshot, d nodeDecision, did, reported plan.Outcome) {
			own.appliedNode(ctx, s, d, did, reported)
			n.unreserve(s, d)
			n.noteWrites(s, did)
		},
		Brake: c.Brake,
	})
	return reconcile.Together(volumes, nodes), nil
}

// volumeAliases: people ask for a volume by its PersistentVolume.
func volumeAliases(s volumeSnapshot, d volumeDecision) map[plan.Key]string {
	if s.Volume.PV == "" {
		return nil
	}
	return map[plan.Key]string{{Name: s.Volume.PV}: d.Why}
}

// nodeAliases: people ask for what becomes of a volume on a node by its VolumeAttachment.
func nodeAliases(_ nodeSnapshot, d nodeDecision) map[plan.Key]string {
	aliases := make(map[plan.Key]string, len(d.Verdicts))
	for name, why := range d.Verdicts {
		aliases[plan.Key{Name: name}] = why
	}
	return aliases
}

// batchPeriod is how long after a change a node is looked at, so that what happens on it within a moment leads to one
// reconcile.
const batchPeriod = 100 * time.Millisecond

// owner is the Node, whose latest version is found out before the first write of a term.
func (s nodeSnapshot) owner() plan.Object {
	if s.Node == nil {
		return nil
	}
	return s.Node
}
