package why

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// What kubelets say of what a pod refers to and they do not find.
var (
	missingObject  = regexp.MustCompile(`(configmap|secret) "([^"]+)" not found`)
	missingKey     = regexp.MustCompile(`couldn't find key (\S+) in (ConfigMap|Secret) ([^/]+)/(\S+)`)
	missingItemKey = regexp.MustCompile(`references non-existent (config|secret) key: (\S+)`)
	attachedTo     = regexp.MustCompile(`for volume "([^"]+)":? *"?Volume is already`)
	volumeOf       = regexp.MustCompile(`for volume "([^"]+)"`)
	unauthorized   = regexp.MustCompile(`(?i)unauthorized|denied|forbidden|authentication|authorization|\b40[13]\b`)
)

// containers is a verdict on the first container of a pod that does not run; nil if all do that should.
func (w *world) containers(ctx context.Context, p *corev1.Pod) *verdict {
	for i, s := range p.Status.InitContainerStatuses {
		sidecar := i < len(p.Spec.InitContainers) && p.Spec.InitContainers[i].RestartPolicy != nil
		if t := s.State.Terminated; s.Ready || t != nil && t.ExitCode == 0 || sidecar && s.State.Running != nil {
			continue
		}
		if v := w.container(ctx, p, s, "init container"); v != nil {
			return v
		}
		if s.State.Running != nil {
			return waits(p, "InitContainer", "its init container %s has not ended, and the others wait for it", s.Name).
				until("container %s ends with exit code 0", s.Name)
		}
		return nil // the first that is not over is what the pod waits for
	}
	var worst *verdict
	for _, s := range p.Status.ContainerStatuses {
		if v := w.container(ctx, p, s, "container"); v != nil && v.worse(worst) {
			worst = v
		}
	}
	return worst
}

// startedLately is for how long the way in which a container has ended may be why it is not ready since.
const startedLately = 10 * time.Minute

// container is a verdict on a container; nil if it runs, or is only being created.
func (w *world) container(ctx context.Context, p *corev1.Pod, s corev1.ContainerStatus, kind string) *verdict {
	waiting := s.State.Waiting
	switch {
	case waiting == nil && s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
		return fails(p, s.State.Terminated.Reason, "%s %s", kind, endOf(s.Name, s.State.Terminated)[len("container "):])
	case waiting == nil && s.State.Running != nil && !s.Ready && s.RestartCount > 2 &&
		s.LastTerminationState.Terminated != nil && w.now.Sub(s.State.Running.StartedAt.Time) < startedLately:
		return w.crashes(ctx, p, s, kind)
	case waiting == nil:
		return nil
	}
	switch waiting.Reason {
	case "", "ContainerCreating", "PodInitializing":
		return nil
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable":
		return w.image(ctx, p, s, kind)
	case "CrashLoopBackOff":
		return w.crashes(ctx, p, s, kind)
	}
	v := fails(p, waiting.Reason, "%s %s: %s", kind, s.Name, waiting.Message)
	return v.through(missing(p, waiting.Message))
}

// image is a verdict on an image that cannot be pulled.
func (w *world) image(ctx context.Context, p *corev1.Pod, s corev1.ContainerStatus, kind string) *verdict {
	waiting := s.State.Waiting
	v := fails(p, waiting.Reason, "the image %s of %s %s cannot be pulled: %s", imageOf(p, s), kind, s.Name,
		waiting.Message)
	v.until("the image exists and the node may pull it")
	if e := withReason(w.warnings(ctx, p), "FailedToRetrieveImagePullSecret"); e != nil {
		for _, s := range p.Spec.ImagePullSecrets {
			if !wordIn(e.Message, s.Name) {
				continue
			}
			lacks := lacking[*corev1.Secret](p.Namespace, s.Name,
				"it cannot be read, and the image is to be pulled with it")
			if !unauthorized.MatchString(waiting.Message) { // it may be needless: it is told of at each failed pull
				lacks.inferred()
			}
			return v.through(lacks)
		}
	}
	return v
}

// imageOf is the image as the pod names it.
func imageOf(p *corev1.Pod, s corev1.ContainerStatus) string {
	for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range all {
			if c.Name == s.Name {
				return c.Image
			}
		}
	}
	return s.Image
}

// crashes is a verdict on a container that ends again and again.
func (w *world) crashes(ctx context.Context, p *corev1.Pod, s corev1.ContainerStatus, kind string) *verdict {
	says, reason := "ends again and again", "CrashLoopBackOff"
	if t := s.LastTerminationState.Terminated; t != nil {
		says = endOf(s.Name, t)[len("container "+s.Name+" "):]
		if t.Reason == "OOMKilled" {
			reason = t.Reason
			says += fmt.Sprintf(", at its memory limit of %s", memoryLimit(p, s.Name))
		}
	}
	if e := withReason(w.warnings(ctx, p), "Unhealthy"); e != nil && reason == "CrashLoopBackOff" {
		says += "; " + e.Message
	}
	return fails(p, reason, "%s %s %s (%d restarts)", kind, s.Name, says, s.RestartCount)
}

func memoryLimit(p *corev1.Pod, container string) string {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && c.Name == container {
			return limit.String()
		}
	}
	return "the node"
}

// missing is a verdict on a ConfigMap or Secret that a kubelet does not find, or that lacks a key; nil if the message
// names none. It reads none of them.
func missing(p *corev1.Pod, message string) *verdict {
	if m := missingKey.FindStringSubmatch(message); m != nil {
		v := lacking[*corev1.ConfigMap](m[3], m[4], "it has no key %s, which pod %s wants", m[1], p.Name)
		v.object.Kind, v.reason = m[2], "KeyNotFound"
		return v
	}
	if m := missingObject.FindStringSubmatch(message); m != nil {
		if m[1] == "secret" {
			return lacking[*corev1.Secret](p.Namespace, m[2], "it does not exist, and pod %s wants it", p.Name)
		}
		return lacking[*corev1.ConfigMap](p.Namespace, m[2], "it does not exist, and pod %s wants it", p.Name)
	}
	if m := missingItemKey.FindStringSubmatch(message); m != nil {
		return missingItem(p, message, m[1], m[2])
	}
	return nil
}

// missingItem is a verdict on the object behind a volume that lacks a key.
func missingItem(p *corev1.Pod, message, kind, key string) *verdict {
	m := volumeOf.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	for _, v := range p.Spec.Volumes {
		var miss *verdict
		switch {
		case v.Name != m[1]:
			continue
		case kind == "secret" && v.Secret != nil:
			miss = lacking[*corev1.Secret](p.Namespace, v.Secret.SecretName, "it has no key %s, which pod %s wants",
				key, p.Name)
		case kind == "config" && v.ConfigMap != nil:
			miss = lacking[*corev1.ConfigMap](p.Namespace, v.ConfigMap.Name, "it has no key %s, which pod %s wants",
				key, p.Name)
		default:
			return nil
		}
		miss.reason = "KeyNotFound"
		return miss
	}
	return nil
}

// mounts is a verdict on volumes that a pod waits for; nil if it waits for none: containers start when all are mounted,
// so events about them from before the end of one are of the past.
func (w *world) mounts(ctx context.Context, p *corev1.Pod) *verdict {
	var mounted time.Time
	for _, s := range allStatuses(p) {
		if s.State.Running != nil {
			return nil
		}
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(mounted) {
			mounted = t.FinishedAt.Time
		}
	}
	e := withReason(w.warnings(ctx, p), "FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeResizeFailed")
	if e == nil || timeOf(e).Before(mounted) {
		return w.unattached(ctx, p)
	}
	v := fails(p, e.Reason, "%s", e.Message)
	if below := missing(p, e.Message); below != nil {
		return v.through(below)
	}
	if m := attachedTo.FindStringSubmatch(e.Message); m != nil {
		return v.through(w.multiAttach(ctx, p, m[1]))
	}
	return v.through(w.unattached(ctx, p))
}

// multiAttach is a verdict on the claim of a volume that is on another node.
func (w *world) multiAttach(ctx context.Context, p *corev1.Pod, volume string) *verdict {
	for _, name := range podutil.Claims(p) {
		c, is := get[*corev1.PersistentVolumeClaim](ctx, w, p.Namespace, name)
		if is != present || c.Spec.VolumeName != volume && c.Name != volume {
			continue
		}
		for _, other := range list[*corev1.Pod](ctx, w, p.Namespace, nil) {
			if other.Name != p.Name && other.Spec.NodeName != p.Spec.NodeName && usesClaim(other, name) {
				return fails(c, "MultiAttach", "its volume can be attached to one node, and pod %s uses it on node %s",
					other.Name,
					other.Spec.NodeName).until("pod %s ends", other.Name)
			}
		}
		return fails(c, "MultiAttach", "its volume %s is attached to another node", volume)
	}
	return nil
}

// unattached is a verdict on a volume of a pod that cannot be attached; nil if all are attached.
func (w *world) unattached(ctx context.Context, p *corev1.Pod) *verdict {
	for _, name := range podutil.Claims(p) {
		c, is := get[*corev1.PersistentVolumeClaim](ctx, w, p.Namespace, name)
		if is == present && c.Status.Phase != corev1.ClaimBound {
			return waits(p, "ClaimNotBound", "its claim %s is not bound", name).through(w.explain(ctx, c))
		}
		if is != present || c.Spec.VolumeName == "" {
			continue
		}
		for _, a := range list[*storagev1.VolumeAttachment](ctx, w, "", nil) {
			here := a.Spec.NodeName == p.Spec.NodeName && a.Spec.Source.PersistentVolumeName != nil &&
				*a.Spec.Source.PersistentVolumeName == c.Spec.VolumeName
			if here && !a.Status.Attached {
				return waits(p, "NotAttached", "the volume of its claim %s is not attached",
					name).through(w.attachment(a))
			}
		}
	}
	return nil
}

// usesClaim reports whether a pod that has not ended has a claim among its volumes.
func usesClaim(p *corev1.Pod, claim string) bool {
	return !podutil.Finished(p) && slices.Contains(podutil.Claims(p), claim)
}

// attachment is a verdict on a VolumeAttachment.
func (w *world) attachment(a *storagev1.VolumeAttachment) *verdict {
	switch s := a.Status; {
	case s.Attached && s.DetachError == nil:
		return fine(a, "it is attached to node %s", a.Spec.NodeName)
	case s.DetachError != nil && a.DeletionTimestamp != nil:
		return fails(a, "DetachError", "driver %s: %s", a.Spec.Attacher, s.DetachError.Message)
	case s.AttachError != nil:
		return fails(a, "AttachError", "driver %s: %s", a.Spec.Attacher, s.AttachError.Message)
	}
	return waits(a, "NotAttached", "driver %s has not attached it to node %s yet (%s)", a.Spec.Attacher,
		a.Spec.NodeName,
		w.ago(a.CreationTimestamp)).until("the attacher of driver %s answers", a.Spec.Attacher)
}
