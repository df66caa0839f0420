// Package attachdetach is the attach/detach controller: it has CSI drivers attach the volumes of pods to the nodes of these pods, and detach
// them when no pod needs them any more.
//
// It talks to no storage. A VolumeAttachment asks a driver to attach a volume to a node; its deletion asks to detach it. The status of a node
// tells the kubelet which volumes it may mount (volumesAttached), and the kubelet tells there which ones it uses (volumesInUse). These objects
// are the whole truth: a new leader needs nothing else.
//
// Two planners share the work, each of whom alone makes one kind of decision:
//
//   - planVolume (plan_volume.go) attaches. Its key is a volume, since a volume that one node at a time may have needs one who decides for all
//     nodes. It creates VolumeAttachments.
//   - planNode (plan_node.go) detaches. Its key is a node, since the safety of the kubelet is a protocol with a node: a volume leaves
//     volumesAttached, then the node is read live, and then the VolumeAttachment is deleted. Many volumes are one write of the status and one
//     read. Of iSCSI and FC, which have no VolumeAttachments, it also decides which node lists a volume (observe_exclusive.go).
//
// A program passes what attachdetach.New(attachdetach.Options{}) returns to manager.New. For users, docs/attachdetach.md says what the
// controller does.
package attachdetach
