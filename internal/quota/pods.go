package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	pods "k8s.io/component-helpers/resource"
)

// PodFields are the paths of what [Pod] reads of pods, for caches.
func PodFields() []string {
	return []string{
		"metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds",
		"spec.activeDeadlineSeconds", "spec.priorityClassName", "spec.affinity", "spec.overhead", "spec.resources",
		"spec.containers.name", "spec.containers.resources",
		"spec.initContainers.name", "spec.initContainers.resources", "spec.initContainers.restartPolicy",
		"status.phase", "status.qosClass", "status.conditions", "status.resources", "status.allocatedResources",
		"status.containerStatuses.name", "status.containerStatuses.resources",
		"status.containerStatuses.allocatedResources",
		"status.initContainerStatuses.name", "status.initContainerStatuses.resources",
		"status.initContainerStatuses.allocatedResources",
		"status.extendedResourceClaimStatus",
	}
}

// longestGracePeriod keeps the end of a grace period, in seconds, within what a time can be.
const longestGracePeriod = 1 << 40

// Pod returns what a pod is charged with. Every stored pod is counted; all else is charged until the pod has
// finished, or its time to end is over (RQ-24).
func Pod(p *corev1.Pod, g Gates) Item {
	counted := corev1.ResourceList{Counted(Pods()): one()}
	i := Item{Usage: counted, Traits: podTraits(p)}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return i
	}
	i.Usage = PodResources(p, g)
	i.Usage[Counted(Pods())], i.Usage[corev1.ResourcePods] = one(), one()
	if p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil {
		i.Until = time.Unix(p.DeletionTimestamp.Unix()+min(*p.DeletionGracePeriodSeconds, longestGracePeriod), 0)
		i.Rest = counted
	}
	return i
}

// PodResources returns the compute resources that a pod is charged with (RQ-25, RQ-26).
func PodResources(p *corev1.Pod, g Gates) corev1.ResourceList {
	options := pods.PodResourcesOptions{
		UseStatusResources: true, SkipPodLevelResources: !g.PodLevelResources,
		InPlacePodLevelResourcesVerticalScalingEnabled: g.PodLevelResize,
	}
	usage := corev1.ResourceList{}
	for name, q := range pods.PodRequests(p, options) {
		switch {
		case compute(name), strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			usage[name] = q
			usage[requestsPrefix+name] = q
		case extended(name), deviceClass(name):
			usage[requestsPrefix+name] = q
		}
	}
	for name, q := range pods.PodLimits(p, options) {
		if compute(name) && bounded(p, name, g) {
			usage[limitsPrefix+name] = q
		}
	}
	return usage
}

// bounded reports whether a pod as a whole has a limit of a resource: one of its own, or one of each container. If
// some containers have none, they may use whatever there is, and the sum over the others says nothing (MEND-30).
func bounded(p *corev1.Pod, name corev1.ResourceName, g Gates) bool {
	if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
		return true
	}
	if r := p.Spec.Resources; r != nil && g.PodLevelResources {
		if _, own := r.Limits[name]; own {
			return true
		}
	}
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			if !positive(containers[i].Resources.Limits[name]) {
				return false
			}
		}
	}
	return true
}

// podName reports whether pods are charged to a name (RQ-21).
func podName(name corev1.ResourceName) bool {
	if compute(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return true
	}
	if limit, ok := strings.CutPrefix(string(name), limitsPrefix); ok {
		return compute(corev1.ResourceName(limit))
	}
	cut, ok := strings.CutPrefix(string(name), requestsPrefix)
	request := corev1.ResourceName(cut)
	return ok &&
		(compute(request) || strings.HasPrefix(cut, corev1.ResourceHugePagesPrefix) || extended(request) ||
			deviceClass(request))
}

// compute reports whether a name without a prefix limits what pods request.
func compute(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// extended reports whether a name is that of an extended resource.
func extended(name corev1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "" && !strings.Contains(domain+"/", corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(string(name), requestsPrefix)
}

// deviceClass reports whether a name stands for the devices of a class.
func deviceClass(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
}

// podTraits are what scopes select pods by (RQ-27).
func podTraits(p *corev1.Pod) Traits {
	return Traits{
		Kind:                   podTrait,
		Terminating:            p.Spec.ActiveDeadlineSeconds != nil && *p.Spec.ActiveDeadlineSeconds >= 0,
		BestEffort:             bestEffort(p),
		PriorityClass:          p.Spec.PriorityClassName,
		CrossNamespaceAffinity: crossNamespaceAffinity(p.Spec.Affinity),
	}
}

// bestEffort reports whether a pod asks for no compute resources. The server has said so in the status.
func bestEffort(p *corev1.Pod) bool {
	if class := p.Status.QOSClass; class != "" {
		return class == corev1.PodQOSBestEffort
	}
	asks := func(r corev1.ResourceRequirements) bool {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if positive(list[name]) {
					return true
				}
			}
		}
		return false
	}
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			if asks(containers[i].Resources) {
				return false
			}
		}
	}
	return p.Spec.Resources == nil || !asks(*p.Spec.Resources)
}

// positive reports whether a quantity is more than zero.
func positive(q resource.Quantity) bool { return q.Sign() > 0 }

// crossNamespaceAffinity reports whether a pod asks to be placed by pods of other namespaces.
func crossNamespaceAffinity(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, p := range preferred {
			terms = append(terms, p.PodAffinityTerm)
		}
	}
	if a.PodAffinity != nil {
		add(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		add(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for _, t := range terms {
		if len(t.Namespaces) > 0 || t.NamespaceSelector != nil {
			return true
		}
	}
	return false
}
