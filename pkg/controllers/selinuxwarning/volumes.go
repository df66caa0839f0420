package selinuxwarning

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"
	"unicode/utf8"

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

// label is worked out once, and when somebody asks for it.
type label struct {
	options *corev1.SELinuxOptions
	known   bool
	is      string
}

func (l *label) text() string {
	if !l.known {
		l.known, l.is = true, labelOf(l.options)
	}
	return l.is
}

// mountsOf returns the volumes that the containers of a pod mount, and with which labels.
func mountsOf(p *corev1.Pod) iter.Seq2[string, *label] {
	return func(yield func(string, *label) bool) {
		ofPod := &label{}
		if p.Spec.SecurityContext != nil {
			ofPod.options = p.Spec.SecurityContext.SELinuxOptions
		}
		for c := range containersOf(p) {
			with := ofPod
			if own := c.SecurityContext; own != nil && own.SELinuxOptions != nil {
				with = &label{options: own.SELinuxOptions}
			}
			for i := range c.VolumeMounts {
				if !yield(c.VolumeMounts[i].Name, with) {
					return
				}
			}
		}
	}
}

// containersOf returns all containers of a pod.
func containersOf(p *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range all {
				if !yield(&all[i]) {
					return
				}
			}
		}
		for i := range p.Spec.EphemeralContainers {
			if !yield((*corev1.Container)(&p.Spec.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

// A label that is longer than longestLabel, which no policy of SELinux has, is told by its beginning and a hash: it
// stands in events, and in a series for each conflict.
const (
	longestLabel = 256
	beginning    = 200
)

// labelOf returns a label as one text; empty if nothing of it is said (ST-61).
func labelOf(o *corev1.SELinuxOptions) string {
	if o == nil || *o == (corev1.SELinuxOptions{}) {
		return ""
	}
	label := strings.ToValidUTF8(strings.Join([]string{o.User, o.Role, o.Type, o.Level}, ":"), "\uFFFD")
	if len(label) <= longestLabel {
		return label
	}
	end := beginning
	for !utf8.RuneStart(label[end]) {
		end--
	}
	sum := sha256.Sum256([]byte(label))
	return label[:end] + "…" + hex.EncodeToString(sum[:8])
}
