package informers

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

// Slim takes off an object what no planner reads, before it is cached. All kinds lose managedFields (CI-11); pods, which
// are many, keep only what is named in slimPod. A slimmed pod must never be written back whole, only as a patch.
//
// It is a cache.TransformFunc and never fails. It does not write to an object that it has been applied to before.
func Slim(o any) (any, error) {
	switch o := o.(type) {
	case cache.DeletedFinalStateUnknown:
		o.Obj, _ = Slim(o.Obj)
		return o, nil
	case *corev1.Pod:
		return slimPod(o), nil
	case *corev1.Node: // nobody writes these back whole
		slimMeta(o, corev1.LastAppliedConfigAnnotation)
		if o.Status.Images != nil { // most of what a node weighs
			o.Status.Images = nil
		}
	case *corev1.Service: // nobody writes these back whole
		slimMeta(o, corev1.LastAppliedConfigAnnotation)
	default: // nor must anything else be missing where somebody does: Deployments, the status of ReplicaSets (RB-13)
		if object, err := meta.Accessor(o); err == nil {
			slimMeta(object)
		}
	}
	return o, nil
}

// slimMeta drops managedFields and the annotations of the given keys. It does not write to an object that has none.
func slimMeta(o metav1.Object, annotations ...string) {
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

// slimKinds says what is to be decoded, by kind: at least what Slim leaves. Tests hold it against Slim.
func slimKinds() (fieldmask.Kinds, error) {
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
		add(core.WithKind("Endpoints"), corev1.Endpoints{}, corev1.EndpointsList{}, managed, fieldmask.Without),
		add(apps.WithKind("Deployment"), appsv1.Deployment{}, appsv1.DeploymentList{}, managed, fieldmask.Without),
		add(apps.WithKind("ReplicaSet"), appsv1.ReplicaSet{}, appsv1.ReplicaSetList{}, managed, fieldmask.Without),
	)
}

// podFields are the fields of pods that slimPod looks at.
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

// slimPod copies what is kept into a new object, and lists into arrays of their length, so that nothing else of what was
// decoded stays in memory.
func slimPod(p *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: p.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name:                       p.Name,
			Namespace:                  p.Namespace,
			UID:                        p.UID,
			ResourceVersion:            p.ResourceVersion,
			Generation:                 p.Generation,
			Labels:                     p.Labels,
			Annotations:                slimAnnotations(p.Annotations),
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
			Containers:     slimContainers(p.Spec.Containers),
			InitContainers: slimContainers(p.Spec.InitContainers),
		},
		Status: corev1.PodStatus{
			ObservedGeneration:    p.Status.ObservedGeneration, // PGC-14
			Phase:                 p.Status.Phase,
			Reason:                p.Status.Reason,         // PGC-5
			PodIP:                 p.Status.PodIP,          // EP-11
			PodIPs:                fitted(p.Status.PodIPs), // EP-14
			Conditions:            slimConditions(p),
			ContainerStatuses:     slimStatuses(p.Status.ContainerStatuses),
			InitContainerStatuses: slimStatuses(p.Status.InitContainerStatuses),
		},
	}
}

// fitted returns the list in an array of its length: decoders leave room to grow.
func fitted[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// slimAnnotations keeps the one annotation of pods that a planner reads (RS-31), and the mark of a bookmark, which comes as
// a pod.
func slimAnnotations(annotations map[string]string) map[string]string {
	var slim map[string]string
	for _, key := range podAnnotations() {
		if value, ok := annotations[key]; ok {
			if slim == nil {
				slim = map[string]string{}
			}
			slim[key] = value
		}
	}
	return slim
}

func podAnnotations() [2]string {
	return [...]string{corev1.PodDeletionCost, metav1.InitialEventsAnnotationKey}
}

// slimContainers keeps ports, which services name (EP-17), and what makes an init container a sidecar. Of most containers
// nothing is left.
func slimContainers(containers []corev1.Container) []corev1.Container {
	var slim []corev1.Container
	for i := range containers {
		if c := &containers[i]; len(c.Ports) > 0 || c.RestartPolicy != nil {
			slim = append(slim, corev1.Container{Name: c.Name, Ports: fitted(c.Ports), RestartPolicy: c.RestartPolicy})
		}
	}
	return fitted(slim)
}

// slimConditions keeps what conditions are asked for: whether a pod is ready, and since when; whether it is being
// disrupted (PGC-15); and of a finished pod when anything last happened to it, which is about when it ended.
func slimConditions(p *corev1.Pod) []corev1.PodCondition {
	var slim []corev1.PodCondition
	for i := range p.Status.Conditions {
		switch c := &p.Status.Conditions[i]; {
		case c.Type == corev1.DisruptionTarget:
			slim = append(slim, *c)
		case c.Type == corev1.PodReady, podutil.Finished(p):
			slim = append(slim, corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
	return fitted(slim)
}

// slimStatuses keeps restart counts, by which victims are ranked (RS-31). Most containers never restart.
func slimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var slim []corev1.ContainerStatus
	for i := range statuses {
		if s := &statuses[i]; s.RestartCount != 0 {
			slim = append(slim, corev1.ContainerStatus{Name: s.Name, RestartCount: s.RestartCount})
		}
	}
	return fitted(slim)
}
