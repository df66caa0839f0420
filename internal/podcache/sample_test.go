package podcache

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/projection"
)

// sample keeps of pods what several controllers read.
var sample = must(projection.New(projection.Fields{
	Kinds: map[schema.GroupVersionKind][]string{corev1.SchemeGroupVersion.WithKind("Pod"): strings.Fields(`
		metadata.annotations[` + corev1.PodDeletionCost + `] spec.nodeName spec.hostname spec.subdomain
		spec.containers.name spec.containers.ports spec.containers.restartPolicy
		spec.initContainers.name spec.initContainers.ports spec.initContainers.restartPolicy
		status.observedGeneration status.phase status.reason status.podIP status.podIPs status.conditions
		status.containerStatuses.name status.containerStatuses.restartCount
		status.initContainerStatuses.name status.initContainerStatuses.restartCount`)},
	PodCondition: projection.ReadyCondition,
}))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
