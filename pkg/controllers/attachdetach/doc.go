// Package attachdetach is the attach/detach controller: it has CSI drivers attach the volumes of pods to the nodes of
// these pods, and detach them when no pod needs them any more.
//
// It talks to no storage. A VolumeAttachment asks a driver to attach a volume to a node; its deletion asks to detach
// it. The status of a node says which volumes its kubelet may mount (volumesAttached), and the kubelet says there
// which ones it uses (volumesInUse). These objects are the whole truth: a new leader needs nothing else.
//
// Two planners share the work, each of whom alone makes one kind of decision:
//
//   - planVolume (plan_volume.go) attaches. Its key is a volume: about a volume that is for one node at a time, one
//     planner decides for all nodes. It creates VolumeAttachments.
//   - planNode (plan_node.go) detaches. Its key is a node, because the kubelet is protected by a protocol:
//     volumesAttached no longer lists the volume, then the Node is read live, and then the VolumeAttachment is deleted.
//     Many volumes are one write of the status and one read. iSCSI and FC volumes are status-only: they have no
//     VolumeAttachments, and planNode also decides which node lists one (observe_exclusive.go).
//
// A program passes what attachdetach.New(attachdetach.Options{}) returns to manager.New. For users,
// docs/attachdetach.md says what the controller does.
package attachdetach
