package selinuxwarning

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
)

// nameOf returns the name that nodes have for the volume of a PersistentVolume; empty if they attach none of that kind,
// of which none is mounted with a label (ST-62).
func nameOf(pv *corev1.PersistentVolume) string {
	name := volumes.OfSpec(&pv.Spec).Name
	if name == "" {
		if translated := volumes.TranslateToCSI(pv); translated != nil {
			name = volumes.OfSpec(&translated.Spec).Name
		}
	}
	return name
}

// inlineName is the same for a volume that stands in a pod.
func inlineName(s *corev1.VolumeSource, namespace string) string {
	name := volumes.InlineName(s)
	if name == "" {
		if translated := volumes.TranslateInlineToCSI(s, namespace); translated != nil {
			name = volumes.OfSpec(&translated.Spec).Name
		}
	}
	return name
}

// mount says with which label a container mounts a volume of its pod.
type mount struct{ Volume, Label string }

// mountsOf returns the mounts of the containers of a pod.
func mountsOf(p *corev1.Pod) (all []mount) {
	var ofPod *corev1.SELinuxOptions
	if p.Spec.SecurityContext != nil {
		ofPod = p.Spec.SecurityContext.SELinuxOptions
	}
	add := func(c *corev1.Container) {
		options := ofPod
		if c.SecurityContext != nil && c.SecurityContext.SELinuxOptions != nil {
			options = c.SecurityContext.SELinuxOptions
		}
		for _, m := range c.VolumeMounts {
			all = append(all, mount{m.Name, labelOf(options)})
		}
	}
	for i := range p.Spec.InitContainers {
		add(&p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	for i := range p.Spec.EphemeralContainers {
		c := corev1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		add(&c)
	}
	return all
}

// labelOf returns a label as one text; empty if nothing of it is said (ST-61).
func labelOf(o *corev1.SELinuxOptions) string {
	if o == nil || *o == (corev1.SELinuxOptions{}) {
		return ""
	}
	return strings.Join([]string{o.User, o.Role, o.Type, o.Level}, ":")
}
