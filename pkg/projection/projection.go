package projection

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"errors"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/fieldmask"
	"github.com/standalone-kcm/controller-manager/pkg/podutil"
)

// Project removes from an object the fields that no controller reads, before the object is cached. All kinds lose
// managedFields (CI-11). Of pods, which are many, [Pod] keeps a few fields. A projected pod must not be written back whole,
// only as a patch.
//
// Project is a cache.TransformFunc and never fails. It does not write to an object that it has been applied to before.
func Project(o any) (any, error) {
	switch o := o.(type) {
	case cache.DeletedFinalStateUnknown:
		o.Obj, _ = Project(o.Obj)
		return o, nil
	case *corev1.Pod:
		return Pod(o), nil
	case *corev1.Node: // nobody writes these back whole
		projectMeta(o, corev1.LastAppliedConfigAnnotation)
		if o.Status.Images != nil { // most of what a node weighs
			o.Status.Images = nil
		}
	case *corev1.Service: // nobody writes these back whole
		projectMeta(o, corev1.LastAppliedConfigAnnotation)
	default: // what is written back whole needs all its fields: Deployments, the status of ReplicaSets (RB-13)
		if object, err := meta.Accessor(o); err == nil {
			projectMeta(object)
		}
	}
	return o, nil
}

// projectMeta removes managedFields and the annotations of the given keys. It does not write to an object that has none.
func projectMeta(o metav1.Object, annotations ...string) {
	if o.GetManagedFields() != nil {
		o.SetManagedFields(nil)
	}
	for _, key := range annotations {
		if _, ok := o.GetAnnotations()[key]; ok {
			rest := maps.Clone(o.GetAnnotations())
			delete(rest, key)
			o.SetAnnotations(rest)
		}
	}
}

// Kinds returns the fields to decode of each kind, and of lists of them. They include all fields that [Project] keeps.
func Kinds() (fieldmask.Kinds, error) {
	kinds := fieldmask.Kinds{}
	add := func(kind schema.GroupVersionKind, example, list any, paths []string,
		newMask func(any, ...string) (*fieldmask.Mask, error), ofList ...string) error {
		for _, path := range paths {
			ofList = append(ofList, "items."+path)
		}
		one, err1 := newMask(example, paths...)
		many, err2 := newMask(list, ofList...)
		kinds[kind] = fieldmask.Kind{Mask: one}
		kind.Kind += "List"
		kinds[kind] = fieldmask.Kind{Mask: many}
		return errors.Join(err1, err2)
	}
	core, apps, managed := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, []string{"metadata.managedFields"}
	return kinds, errors.Join(
		add(core.WithKind("Pod"), corev1.Pod{}, corev1.PodList{}, podFields(), fieldmask.Only, "metadata"),
		add(core.WithKind("Node"), corev1.Node{}, corev1.NodeList{}, append(managed, "status.images"), fieldmask.Without),
		add(core.WithKind("Service"), corev1.Service{}, corev1.ServiceList{}, managed, fieldmask.Without),
		add(core.WithKind("ReplicationController"), corev1.ReplicationController{}, corev1.ReplicationControllerList{}, managed, fieldmask.Without),
		add(core.WithKind("Endpoints"), corev1.Endpoints{}, corev1.EndpointsList{}, managed, fieldmask.Without),
		add(apps.WithKind("Deployment"), appsv1.Deployment{}, appsv1.DeploymentList{}, managed, fieldmask.Without),
		add(apps.WithKind("ReplicaSet"), appsv1.ReplicaSet{}, appsv1.ReplicaSetList{}, managed, fieldmask.Without),
	)
}

// podFields are the fields of pods that Pod reads.
func podFields() []string {
	fields := strings.Fields(`
		metadata.name metadata.namespace metadata.uid metadata.resourceVersion metadata.generation metadata.labels
		metadata.ownerReferences metadata.finalizers
		metadata.creationTimestamp metadata.deletionTimestamp metadata.deletionGracePeriodSeconds
		spec.nodeName spec.hostname spec.subdomain
		spec.containers.name spec.containers.ports spec.containers.restartPolicy
		spec.initContainers.name spec.initContainers.ports spec.initContainers.restartPolicy
		status.observedGeneration status.phase status.reason status.podIP status.podIPs status.conditions
		status.containerStatuses.name status.containerStatuses.restartCount
		status.initContainerStatuses.name status.initContainerStatuses.restartCount`)
	for _, key := range podAnnotations() {
		fields = append(fields, "metadata.annotations["+key+"]")
	}
	return fields
}

// Pod returns a new pod with the fields that controllers read. It copies lists into arrays of their length, so that nothing
// else of the decoded pod stays in memory.
func Pod(p *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: p.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name:                       p.Name,
			Namespace:                  p.Namespace,
			UID:                        p.UID,
			ResourceVersion:            p.ResourceVersion,
			Generation:                 p.Generation,
			Labels:                     p.Labels,
			Annotations:                projectAnnotations(p.Annotations),
			OwnerReferences:            fitted(p.OwnerReferences),
			Finalizers:                 fitted(p.Finalizers),
			CreationTimestamp:          p.CreationTimestamp,
			DeletionTimestamp:          p.DeletionTimestamp,
			DeletionGracePeriodSeconds: p.DeletionGracePeriodSeconds,
		},
		Spec: corev1.PodSpec{
			NodeName:       p.Spec.NodeName,
			Hostname:       p.Spec.Hostname,  // EP-15
			Subdomain:      p.Spec.Subdomain, // EP-15
			Containers:     projectContainers(p.Spec.Containers),
			InitContainers: projectContainers(p.Spec.InitContainers),
		},
		Status: corev1.PodStatus{
			ObservedGeneration:    p.Status.ObservedGeneration, // PGC-14
			Phase:                 p.Status.Phase,
			Reason:                p.Status.Reason,         // PGC-5
			PodIP:                 p.Status.PodIP,          // EP-11
			PodIPs:                fitted(p.Status.PodIPs), // EP-14
			Conditions:            projectConditions(p),
			ContainerStatuses:     projectStatuses(p.Status.ContainerStatuses),
			InitContainerStatuses: projectStatuses(p.Status.InitContainerStatuses),
		},
	}
}

// fitted returns the list in an array of its length. Decoders leave room to grow.
func fitted[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// projectAnnotations keeps the one annotation of pods that a controller reads (RS-31), and the one that marks a bookmark as
// the end of the initial events, because a bookmark is decoded as a pod.
func projectAnnotations(annotations map[string]string) map[string]string {
	var kept map[string]string
	for _, key := range podAnnotations() {
		if value, ok := annotations[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

func podAnnotations() [2]string {
	return [...]string{corev1.PodDeletionCost, metav1.InitialEventsAnnotationKey}
}

// projectContainers keeps ports, which services refer to by name (EP-17), and the restart policy, which makes an init
// container a sidecar. It leaves out a container that has neither.
func projectContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for i := range containers {
		if c := &containers[i]; len(c.Ports) > 0 || c.RestartPolicy != nil {
			kept = append(kept, corev1.Container{Name: c.Name, Ports: fitted(c.Ports), RestartPolicy: c.RestartPolicy})
		}
	}
	return fitted(kept)
}

// projectConditions keeps whether a pod is ready, and since when, and whether it is being disrupted (PGC-15). Of a finished
// pod it keeps the transition times of all conditions: the last one is about when the pod finished.
func projectConditions(p *corev1.Pod) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for i := range p.Status.Conditions {
		switch c := &p.Status.Conditions[i]; {
		case c.Type == corev1.DisruptionTarget:
			kept = append(kept, *c)
		case c.Type == corev1.PodReady, podutil.Finished(p):
			kept = append(kept, corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
	return fitted(kept)
}

// projectStatuses keeps restart counts, by which the pods to delete are ranked (RS-31), of containers that have restarted.
func projectStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		if s := &statuses[i]; s.RestartCount != 0 {
			kept = append(kept, corev1.ContainerStatus{Name: s.Name, RestartCount: s.RestartCount})
		}
	}
	return fitted(kept)
}
