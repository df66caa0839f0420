package volumes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The prefixes of the names that volumes have in the statuses of Nodes (AD-8).
const (
	CSIPrefix   = "kubernetes.io/csi/"
	ISCSIPrefix = "kubernetes.io/iscsi/"
	FCPrefix    = "kubernetes.io/fc/"
)

// CSIName is the name of a volume of a CSI driver, which knows it by the handle.
func CSIName(driver, handle string) string { return CSIPrefix + driver + "^" + handle }

// ISCSIName is the name of a volume of iSCSI.
func ISCSIName(portal, iqn string, lun int32) string {
	return fmt.Sprintf("%s%s:%s:%d", ISCSIPrefix, portal, iqn, lun)
}

// FCName is the name of a volume of Fibre Channel.
func FCName(s *corev1.FCVolumeSource) string {
	if len(s.TargetWWNs) > 0 && s.Lun != nil {
		return fmt.Sprintf("%s%v:%d", FCPrefix, s.TargetWWNs, *s.Lun)
	}
	return fmt.Sprintf("%s%v", FCPrefix, s.WWIDs)
}

// Identity is what nodes and drivers call a volume.
type Identity struct {
	Name   string // in the statuses of nodes (AD-8); empty if nodes attach no volumes of that kind
	Driver string // the CSI driver; empty for iSCSI and FC
	Handle string // by which the driver knows it
}

// OfSpec returns the identity of a volume. One of a plugin that a driver has taken over has none before it is
// translated, see [TranslateToCSI].
func OfSpec(spec *corev1.PersistentVolumeSpec) (id Identity) {
	switch {
	case spec.CSI != nil:
		id.Driver, id.Handle = spec.CSI.Driver, spec.CSI.VolumeHandle
		id.Name = CSIName(id.Driver, id.Handle)
	case spec.ISCSI != nil:
		id.Name = ISCSIName(spec.ISCSI.TargetPortal, spec.ISCSI.IQN, spec.ISCSI.Lun)
	case spec.FC != nil:
		id.Name = FCName(spec.FC)
	}
	return id
}

// InlineName is the name of a volume that stands in a pod, not in a claim; see [TranslateInlineToCSI] for one of a
// plugin that a driver has taken over.
func InlineName(s *corev1.VolumeSource) string {
	switch {
	case s.ISCSI != nil:
		return ISCSIName(s.ISCSI.TargetPortal, s.ISCSI.IQN, s.ISCSI.Lun)
	case s.FC != nil:
		return FCName(s.FC)
	}
	return ""
}

// attachmentPrefix begins the names of VolumeAttachments that kubelets look for (AD-6).
const attachmentPrefix = "csi-"

// AttachmentName is the name of the VolumeAttachment of a volume and a node, which kubelets compute likewise (AD-6).
func AttachmentName(driver, handle, node string) string {
	sum := sha256.Sum256([]byte(handle + driver + node))
	return attachmentPrefix + hex.EncodeToString(sum[:])
}

// IsAttachmentName reports whether a VolumeAttachment of that name may be one of the attach/detach controller or of a
// kubelet. Others belong to those who made them.
func IsAttachmentName(name string) bool {
	sum, ok := strings.CutPrefix(name, attachmentPrefix)
	if !ok || len(sum) != hex.EncodedLen(sha256.Size) {
		return false
	}
	_, err := hex.DecodeString(sum)
	return err == nil
}

// AttachmentOf is the name of the VolumeAttachment of the volume of a CSI driver that the status of a node names. It is
// empty for other volumes.
func AttachmentOf(volume, node string) string {
	driver, handle, ok := csiParts(volume)
	if !ok {
		return ""
	}
	return AttachmentName(driver, handle, node)
}

// DriverOf is the CSI driver of a volume, by its name; empty for other volumes.
func DriverOf(volume string) string {
	driver, _, _ := csiParts(volume)
	return driver
}

// csiParts takes apart what [CSIName] has put together.
func csiParts(volume string) (driver, handle string, ok bool) {
	of, ok := strings.CutPrefix(volume, CSIPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(of, "^")
}
