package projection

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// Fields says which fields of objects a controller reads from the caches.
type Fields struct {
	// Kinds has the paths of the fields that are read of each kind, as [Only] knows them: "spec.containers.ports",
	// "metadata.annotations[example.com/cost]". The metadata, but for annotations and managedFields, is always kept;
	// [MetadataOnly] asks for nothing else. An empty list means all fields but managedFields; what is written back
	// whole needs it. The affinity of a pod is kept until the pod is assigned to a node.
	Kinds map[schema.GroupVersionKind][]string
	// Containers says that containers of pods are read of which nothing else is kept than the name. Without it they
	// are left out.
	Containers bool
	// PodCondition reports whether a condition of that type is read of a pod, if "status.conditions" is among the
	// paths of pods. It may be nil for none.
	PodCondition func(*corev1.Pod, corev1.PodConditionType) bool
}

// MetadataOnly is the path of a controller that reads of a kind nothing but what is always kept.
const MetadataOnly = "metadata.name"

// ReadyCondition is the PodCondition of a controller that reads whether pods are ready, and nothing else.
func ReadyCondition(_ *corev1.Pod, t corev1.PodConditionType) bool { return t == corev1.PodReady }

// metaFields are kept of every kind. The annotation marks a bookmark, which is decoded as an object of the kind, as
// the end of the initial events.
const metaFields = `
	metadata.name metadata.namespace metadata.uid metadata.resourceVersion metadata.generation metadata.labels
	metadata.ownerReferences metadata.finalizers
	metadata.creationTimestamp metadata.deletionTimestamp metadata.deletionGracePeriodSeconds
	metadata.annotations[` + metav1.InitialEventsAnnotationKey + `]`

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// Projection keeps of each kind the fields that one of several controllers reads. It is immutable.
type Projection struct {
	// masks are by kind, the union of what all controllers read.
	masks    Kinds
	narrowed map[reflect.Type]bool // kinds of which not all fields are kept

	// These say what is kept of pods besides fields as a whole: which annotations, containers and conditions.
	wholePods, allAnnotations bool
	allContainers             bool
	annotations               []string
	conditions                []func(*corev1.Pod, corev1.PodConditionType) bool
}

// New returns the projection to what any of the controllers reads. Of kinds that one of them names with an empty
// list, or that none of them names, it keeps everything but managedFields. It fails if a kind is unknown to client-go
// or has no such field.
func New(controllers ...Fields) (*Projection, error) {
	p := &Projection{masks: Kinds{}, narrowed: map[reflect.Type]bool{}}
	paths := map[schema.GroupVersionKind][]string{}
	whole := map[schema.GroupVersionKind]bool{}
	for _, c := range controllers {
		for kind, fields := range c.Kinds {
			paths[kind] = append(paths[kind], fields...)
			whole[kind] = whole[kind] || len(fields) == 0
		}
		p.allContainers = p.allContainers || c.Containers
		if c.PodCondition != nil {
			p.conditions = append(p.conditions, c.PodCondition)
		}
	}
	if _, ok := paths[podKind]; !ok {
		paths[podKind], whole[podKind] = nil, true
	}
	p.wholePods = whole[podKind]
	p.allAnnotations = p.wholePods || slices.Contains(paths[podKind], "metadata.annotations")
	p.annotations = annotationsIn(append(strings.Fields(metaFields), paths[podKind]...))
	var errs []error
	for kind := range paths {
		errs = append(errs, p.add(kind, paths[kind], whole[kind]))
	}
	return p, errors.Join(errs...)
}

// add makes the masks of a kind and of lists of it.
func (p *Projection) add(kind schema.GroupVersionKind, paths []string, whole bool) error {
	example, err1 := scheme.Scheme.New(kind)
	listKind := kind.GroupVersion().WithKind(kind.Kind + "List")
	list, err2 := scheme.Scheme.New(listKind)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("fields of %s: %w", kind.Kind, err)
	}
	newMask, always := Without, []string(nil)
	if whole {
		paths = []string{"metadata.managedFields"}
	} else {
		newMask, always = Only, []string{"metadata"}
		paths = outermost(append(strings.Fields(metaFields), paths...))
		p.narrowed[reflect.TypeOf(example)] = true
	}
	ofItems := always
	for _, path := range paths {
		ofItems = append(ofItems, "items."+path)
	}
	one, err1 := newMask(example, paths...)
	many, err2 := newMask(list, ofItems...)
	p.masks[kind], p.masks[listKind] = Kind{Mask: one}, Kind{Mask: many}
	return errors.Join(err1, err2)
}

// annotationsIn returns the keys of the annotations that paths name.
func annotationsIn(paths []string) (keys []string) {
	for _, path := range paths {
		if key, ok := strings.CutPrefix(path, "metadata.annotations["); ok {
			keys = append(keys, strings.TrimSuffix(key, "]"))
		}
	}
	return keys
}

// outermost returns the paths, sorted, without those that lie within another one.
func outermost(paths []string) []string {
	paths = slices.Clone(paths)
	slices.Sort(paths)
	var kept []string
	for _, path := range paths {
		within := slices.ContainsFunc(kept, func(outer string) bool {
			rest, ok := strings.CutPrefix(path, outer)
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
		if !within {
			kept = append(kept, path)
		}
	}
	return kept
}

// Masks returns the fields to decode of pods and of each kind that a controller names, and of lists of them.
func (p *Projection) Masks() Kinds { return maps.Clone(p.masks) }

// Transform is a cache.TransformFunc for objects that were decoded whole, or by the masks. It never fails, and does
// not write to an object that it has been applied to before. Pods lose the fields that no controller reads; such a
// pod must not be written back whole, only as a patch. Other kinds lose managedFields (CI-11). Kinds of which not all
// fields are kept also lose the annotation of kubectl apply.
func (p *Projection) Transform(o any) (any, error) {
	switch o := o.(type) {
	case cache.DeletedFinalStateUnknown:
		o.Obj, _ = p.Transform(o.Obj)
		return o, nil
	case *corev1.Pod:
		return p.ProjectPod(o), nil
	}
	object, err := meta.Accessor(o)
	if err != nil {
		return o, nil
	}
	const applied = corev1.LastAppliedConfigAnnotation
	if _, ok := object.GetAnnotations()[applied]; ok && p.narrowed[reflect.TypeOf(o)] {
		rest := maps.Clone(object.GetAnnotations())
		delete(rest, applied)
		object.SetAnnotations(rest)
	}
	return ManagedFields(o)
}

// ManagedFields is a cache.TransformFunc that removes managedFields and nothing else.
func ManagedFields(o any) (any, error) {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		tombstone.Obj, _ = ManagedFields(tombstone.Obj)
		return tombstone, nil
	}
	if object, err := meta.Accessor(o); err == nil && object.GetManagedFields() != nil {
		object.SetManagedFields(nil)
	}
	return o, nil
}

// encodable is what the types of the API can do.
type encodable interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// Project returns a new object with the fields that are kept, as a cache has it after decoding. It encodes the object
// and decodes it in part, so it is not for frequent use. It fails for kinds that client-go does not know.
func (p *Projection) Project(o runtime.Object) (runtime.Object, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return nil, fmt.Errorf("project an object: %w", err)
	}
	e, ok := o.(encodable)
	if !ok {
		return nil, fmt.Errorf("project an object: %T has no protobuf", o)
	}
	data, err := e.Marshal()
	if err != nil {
		return nil, fmt.Errorf("project an object: %w", err)
	}
	kept := reflect.New(reflect.TypeOf(o).Elem()).Interface().(encodable)
	if err := kept.Unmarshal(p.masks[kinds[0]].Mask.Apply(data)); err != nil {
		return nil, fmt.Errorf("project an object: %w", err)
	}
	kept.GetObjectKind().SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	if pod, ok := kept.(*corev1.Pod); ok {
		return p.fit(pod), nil
	}
	if object, err := meta.Accessor(kept); err == nil {
		object.SetManagedFields(nil)
	}
	return kept, nil
}

// ProjectPod returns a new pod with the fields that controllers read of a whole pod.
func (p *Projection) ProjectPod(whole *corev1.Pod) *corev1.Pod {
	kept, err := p.Project(whole)
	if err != nil { // pods can be encoded; if not, rather too many fields than no pod
		return p.fit(whole)
	}
	return kept.(*corev1.Pod)
}

// fit returns a new pod with what is kept of a pod that has passed the mask. The mask knows fields; fit also chooses
// elements of lists. It copies lists into arrays of their length, so that nothing else of the decoded pod stays in
// memory.
func (p *Projection) fit(decoded *corev1.Pod) *corev1.Pod {
	kept := *decoded
	kept.ManagedFields, kept.Annotations = nil, p.fitAnnotations(decoded.Annotations)
	kept.OwnerReferences, kept.Finalizers = fitted(kept.OwnerReferences), fitted(kept.Finalizers)
	// it has served its purpose, and differs between the pods of a DaemonSet
	if kept.Spec.NodeName != "" && !p.wholePods {
		kept.Spec.Affinity = nil
	}
	kept.Spec.Containers = p.fitContainers(decoded.Spec.Containers)
	kept.Spec.InitContainers = p.fitContainers(decoded.Spec.InitContainers)
	kept.Spec.Volumes = fitVolumes(decoded.Spec.Volumes)
	kept.Status.PodIPs = fitted(decoded.Status.PodIPs)
	kept.Status.Conditions = p.fitConditions(decoded)
	kept.Status.ContainerStatuses = p.fitStatuses(decoded, decoded.Status.ContainerStatuses)
	kept.Status.InitContainerStatuses = p.fitStatuses(decoded, decoded.Status.InitContainerStatuses)
	kept.Status.EphemeralContainerStatuses = p.fitStatuses(decoded, decoded.Status.EphemeralContainerStatuses)
	return &kept
}

// fitted returns the list in an array of its length. Decoders leave room to grow.
func fitted[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// fitAnnotations omits what the mask could not decide, because it is encoded in an unusual way.
func (p *Projection) fitAnnotations(annotations map[string]string) map[string]string {
	if p.allAnnotations {
		return annotations
	}
	var kept map[string]string
	for key, value := range annotations {
		if slices.Contains(p.annotations, key) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// fitContainers omits containers of which nothing is kept but the name, unless somebody reads those.
func (p *Projection) fitContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for _, c := range containers {
		name := c.Name
		if c.Name = ""; p.allContainers || !reflect.ValueOf(&c).Elem().IsZero() {
			c.Name, c.Ports = name, fitted(c.Ports)
			kept = append(kept, c)
		}
	}
	return fitted(kept)
}

// fitVolumes omits volumes of which nothing is kept but the name, such as those with tokens, whose names differ from
// pod to pod.
func fitVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for _, v := range volumes {
		if !reflect.ValueOf(&v.VolumeSource).Elem().IsZero() {
			kept = append(kept, v)
		}
	}
	return fitted(kept)
}

// fitStatuses omits the statuses of containers of which nothing is kept but the name, such as those that have never
// restarted. Whether a container runs is kept of pods that are being deleted, and not since when: that would make all
// pods different.
func (p *Projection) fitStatuses(pod *corev1.Pod, statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, s := range statuses {
		name := s.Name
		if running := s.State.Running != nil; running && !p.wholePods {
			if s.State.Running = nil; pod.DeletionTimestamp != nil {
				s.State.Running = &corev1.ContainerStateRunning{}
			}
		}
		if s.Name = ""; !reflect.ValueOf(&s).Elem().IsZero() {
			s.Name = name
			kept = append(kept, s)
		}
	}
	return fitted(kept)
}

// fitConditions omits the conditions that nobody reads.
func (p *Projection) fitConditions(pod *corev1.Pod) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for _, c := range pod.Status.Conditions {
		read := func(reads func(*corev1.Pod, corev1.PodConditionType) bool) bool { return reads(pod, c.Type) }
		if p.wholePods || slices.ContainsFunc(p.conditions, read) {
			kept = append(kept, c)
		}
	}
	return fitted(kept)
}
