package apiserver

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// orDefault gives a field its default if it is not set.
func orDefault[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}

func orPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultPod(p *corev1.Pod) {
	defaultPodSpec(&p.Spec)
	orPointer(&p.Spec.EnableServiceLinks, true)
}

func defaultPodSpec(s *corev1.PodSpec) {
	orDefault(&s.RestartPolicy, corev1.RestartPolicyAlways)
	orDefault(&s.DNSPolicy, corev1.DNSClusterFirst)
	orDefault(&s.SchedulerName, corev1.DefaultSchedulerName)
	orPointer(&s.TerminationGracePeriodSeconds, 30)
	orPointer(&s.SecurityContext, corev1.PodSecurityContext{})
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			defaultContainer(&list[i])
		}
	}
}

func defaultContainer(c *corev1.Container) {
	orDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	orDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	policy := corev1.PullIfNotPresent
	if _, tag, tagged := strings.Cut(c.Image, ":"); !tagged || tag == "latest" {
		policy = corev1.PullAlways
	}
	orDefault(&c.ImagePullPolicy, policy)
	for i := range c.Ports {
		orDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// createPod does what else the server, and the admission plugins that are on by default, do to a new pod.
func createPod(_ *Server, p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort}
	orDefault(&p.Spec.ServiceAccountName, "default")
	p.Spec.DeprecatedServiceAccount = p.Spec.ServiceAccountName
	orPointer(&p.Spec.Priority, 0)
	orPointer(&p.Spec.PreemptionPolicy, corev1.PreemptLowerPriority)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)})
	}
}

// updatePod keeps what may be changed nowhere, or not by way of the status.
func updatePod(p, before *corev1.Pod, subresource string) {
	if subresource == "status" {
		p.OwnerReferences = before.OwnerReferences
	}
	orDefault(&p.Status.QOSClass, before.Status.QOSClass)
}

// podGrace is how long a pod may take to end: none that has not begun, or has ended, needs time.
func podGrace(p *corev1.Pod, asked *int64) int64 {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return 0
	}
	seconds := ptr.Deref(asked, ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 30))
	if seconds < 0 {
		return 1
	}
	return seconds
}
