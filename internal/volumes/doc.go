// Package volumes answers what more than one controller asks about volumes: what they are called, and which CSI driver
// has taken over the plugin of Kubernetes that they name. All functions are pure and leave their arguments alone.
//
// [TakenOver] and [Successor] name drivers; [Translate] returns the volume that a driver makes of one of its plugin.
// [CSIName] and its like are names in the statuses of Nodes, and [AttachmentName] is that of a VolumeAttachment.
package volumes
