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
	of, ok := strings.CutPrefix(volume, CSIPrefix)
	driver, handle, found := strings.Cut(of, "^")
	if !ok || !found {
		return ""
	}
	return AttachmentName(driver, handle, node)
}
