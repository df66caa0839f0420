// Package volumes answers questions about volumes that more than one controller asks: how they are named, and to
// which CSI driver an in-tree plugin has been migrated. All functions are pure and leave their arguments alone.
//
// [MigratedPlugin] and [CSIDriverOf] name drivers; [TranslateToCSI] returns a volume of an in-tree plugin as one of
// its driver. [CSIName] and its like are names in the statuses of Nodes, and [AttachmentName] is that of a
// VolumeAttachment.
package volumes
