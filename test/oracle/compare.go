package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Final returns the objects that exist at the end of a history, of the kinds that controllers write. Revisions are left out: how many
// there are depends on which templates a controller has seen.
func Final(h *History) []Object {
	// Which nodes attach what depends on the scheduler; what users do with volumes says nothing about controllers.
	left := []string{Lease, ControllerRevision, Node, Namespace, PersistentVolume, VolumeAttachment, VolumeAttributesClass, StorageClass,
		ServiceCIDR, IPAddress, StorageVersion, ResourceSlice, DeviceTaintRule}
	last := map[string]*Revision{}
	for i := range h.Revisions {
		r := &h.Revisions[i]
		if id := r.Kind() + "/" + keyOfSafe(r); r.Kind() != "" && (last[id] == nil || last[id].Version <= r.Version) {
			last[id] = r
		}
	}
	var all []Object
	for _, r := range last {
		if r.Type != Deleted && !slices.Contains(left, r.Kind()) {
			all = append(all, r.Object)
		}
	}
	return all
}

func keyOfSafe(r *Revision) string {
	if r.Kind() == "" {
		return ""
	}
	return r.Key()
}

// Diff compares the ends of two runs of one workload, after masking what differs by chance: generated names, uids, hashes,
// versions, generations, times, addresses, nodes, and the texts of messages (L2, Sieve's check of the end state). Namespaces
// are masked too if rename gives them other names. It returns a line for each object that one run lacks, with - for the
// first and + for the second; none if the ends are equal.
func Diff(a, b []Object, rename func(namespace string) string) (lines []string) {
	count := map[string]int{}
	for _, line := range masked(a, rename) {
		count[line]++
	}
	for _, line := range masked(b, rename) {
		count[line]--
	}
	for line, n := range count {
		for ; n > 0; n-- {
			lines = append(lines, "- "+line)
		}
		for ; n < 0; n++ {
			lines = append(lines, "+ "+line)
		}
	}
	slices.SortFunc(lines, func(x, y string) int { return cmp.Or(strings.Compare(x[2:], y[2:]), strings.Compare(x, y)) })
	return lines
}

// masked writes each object as a line that says nothing about chance.
func masked(all []Object, rename func(string) string) (lines []string) {
	names := map[types.UID]string{} // what masked objects are called by others
	for _, o := range all {
		if kindOf(o) == PersistentVolume {
			names[o.GetUID()] = "*" // which of several a claim gets is chance
		}
	}
	for _, kind := range []string{Deployment, DaemonSet, StatefulSet, Job, ReplicaSet, Workload, PodGroup, Pod, EndpointSlice} {
		for _, o := range all {
			if kindOf(o) == kind {
				names[o.GetUID()] = maskedName(o, names)
			}
		}
	}
	for _, o := range all {
		kind := kindOf(o)
		if kind == "" {
			continue
		}
		namespace, name := o.GetNamespace(), o.GetName()
		if rename != nil {
			namespace = rename(namespace)
		}
		if masked, ok := names[o.GetUID()]; ok {
			name = masked
		}
		text, err := json.Marshal(essence(o, names))
		if err != nil {
			text = []byte(err.Error())
		}
		if rename != nil && o.GetNamespace() != "" { // nodes of a namespace are named after it
			text = bytes.ReplaceAll(text, []byte(o.GetNamespace()), []byte(namespace))
		}
		lines = append(lines, fmt.Sprintf("%s %s/%s %s", kind, namespace, name, text))
	}
	return lines
}

// maskedName is a name without what chance has added to it.
func maskedName(o Object, names map[types.UID]string) string {
	ref, ok := controller(o)
	owner := cmp.Or(names[ref.UID], ref.Name)
	switch {
	case ok && ref.Kind == Deployment, ok && ref.Kind == ReplicaSet, ok && kindOf(o) == EndpointSlice,
		ok && ref.Kind == Job && o.GetGenerateName() == "": // the names of its Workload and PodGroup have hashes of its uid
		return owner + "-*"
	case o.GetGenerateName() != "":
		return o.GetGenerateName() + "*"
	}
	return o.GetName()
}

// essence is what is left of an object when chance is masked.
func essence(o Object, names map[types.UID]string) any {
	o = o.DeepCopyObject().(Object)
	annotations := maps.Clone(o.GetAnnotations())
	delete(annotations, "endpoints.kubernetes.io/last-change-trigger-time")
	if len(annotations) == 0 {
		annotations = nil // none is none, whether one was masked or not
	}
	meta := map[string]any{"labels": maskedLabels(o.GetLabels()), "annotations": annotations, "finalizers": o.GetFinalizers(),
		"deleting": o.GetDeletionTimestamp() != nil, "owners": owners(o, names)}
	switch o := o.(type) {
	case *corev1.Pod:
		o.Spec.NodeName = ""
		maskGenerated(&o.Spec)
		return map[string]any{"meta": meta, "spec": o.Spec, "phase": o.Status.Phase, "reason": o.Status.Reason, "ready": ready(o),
			"disrupted": disrupted(o)}
	case *appsv1.ReplicaSet:
		maskSelector(o.Spec.Selector)
		o.Spec.Template.Labels = maskedLabels(o.Spec.Template.Labels)
		var conditions []string
		for _, c := range o.Status.Conditions {
			conditions = append(conditions, fmt.Sprint(c.Type, c.Status, c.Reason))
		}
		return map[string]any{"meta": meta, "spec": o.Spec, "conditions": sorted(conditions),
			"observed": o.Status.ObservedGeneration == o.Generation,
			"counts": []any{o.Status.Replicas, o.Status.FullyLabeledReplicas, o.Status.ReadyReplicas, o.Status.AvailableReplicas,
				o.Status.TerminatingReplicas}}
	case *appsv1.Deployment:
		s := o.Status
		return map[string]any{"meta": meta, "spec": o.Spec, "conditions": strings.Split(conditions(o), ", "),
			"observed": s.ObservedGeneration == o.Generation, "collisions": s.CollisionCount,
			"counts": []any{s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas,
				s.TerminatingReplicas}}
	case *appsv1.DaemonSet:
		s := o.Status
		return map[string]any{"meta": meta, "spec": o.Spec, "observed": s.ObservedGeneration == o.Generation,
			"collisions": s.CollisionCount,
			"counts": []any{s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.UpdatedNumberScheduled, s.NumberReady, s.NumberAvailable,
				s.NumberMisscheduled}}
	case *batchv1.Job:
		maskSelector(o.Spec.Selector)
		o.Spec.Template.Labels = maskedLabels(o.Spec.Template.Labels)
		var conditions []string
		for _, c := range o.Status.Conditions {
			conditions = append(conditions, fmt.Sprint(c.Type, c.Status, c.Reason))
		}
		return map[string]any{"meta": meta, "spec": o.Spec, "conditions": sorted(conditions), "completed": o.Status.CompletedIndexes,
			"counts": []any{o.Status.Active, o.Status.Succeeded, o.Status.Failed, o.Status.Ready, o.Status.Terminating}}
	case *appsv1.StatefulSet:
		s := o.Status
		return map[string]any{"meta": meta, "spec": o.Spec, "observed": s.ObservedGeneration == o.Generation,
			"updated": s.CurrentRevision == s.UpdateRevision,
			"counts":  []any{s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas}}
	case *corev1.PersistentVolume:
		return map[string]any{"finalizers": o.GetFinalizers(), "deleting": o.GetDeletionTimestamp() != nil,
			"class": o.Spec.StorageClassName, "phase": o.Status.Phase}
	case *corev1.PersistentVolumeClaim:
		return map[string]any{"meta": meta, "class": o.Spec.StorageClassName, "phase": o.Status.Phase, "bound": o.Spec.VolumeName != ""}
	case *corev1.Service:
		o.Spec.ClusterIP, o.Spec.ClusterIPs = mask(o.Spec.ClusterIP), nil
		for i := range o.Spec.Ports {
			o.Spec.Ports[i].NodePort = 0
		}
		return map[string]any{"meta": meta, "spec": o.Spec}
	case *corev1.Endpoints:
		return map[string]any{"meta": meta, "slots": maskedSlots(o, names)}
	case *discoveryv1.EndpointSlice:
		return map[string]any{"meta": meta, "type": o.AddressType, "ports": o.Ports, "endpoints": maskedEndpoints(o, names)}
	}
	return meta
}

// tokenVolume begins the name of the volume that the API server's admission adds to each pod.
const tokenVolume = "kube-api-access-"

// maskGenerated masks the generated names of volumes, and that of the PodGroup.
func maskGenerated(spec *corev1.PodSpec) {
	if g := spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		*g.PodGroupName = "*"
	}
	mask := func(name *string) {
		if strings.HasPrefix(*name, tokenVolume) {
			*name = tokenVolume + "*"
		}
	}
	for i := range spec.Volumes {
		mask(&spec.Volumes[i].Name)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range containers {
			for i := range c.VolumeMounts {
				mask(&c.VolumeMounts[i].Name)
			}
		}
	}
}

// mask hides an address, but not whether there is one.
func mask(address string) string {
	if address == "" || address == corev1.ClusterIPNone {
		return address
	}
	return "*"
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}

func maskedLabels(labels map[string]string) map[string]string {
	for _, key := range []string{hashLabel, appsv1.ControllerRevisionHashLabelKey, batchv1.ControllerUidLabel, "controller-uid"} {
		if labels[key] != "" {
			labels[key] = "*"
		}
	}
	return labels
}

func maskSelector(s *metav1.LabelSelector) {
	if s != nil {
		maskedLabels(s.MatchLabels)
	}
}

func owners(o Object, names map[types.UID]string) (all []string) {
	for _, ref := range o.GetOwnerReferences() {
		name, known := names[ref.UID]
		if !known {
			name = ref.Name + " (gone)"
		}
		all = append(all, fmt.Sprint(ref.Kind, "/", name, " ", ref.Controller != nil && *ref.Controller))
	}
	return sorted(all)
}

func maskedEndpoints(o *discoveryv1.EndpointSlice, names map[types.UID]string) (all []string) {
	for _, e := range o.Endpoints {
		name := strings.Join(e.Addresses, ",")
		if ref := e.TargetRef; ref != nil {
			name = cmp.Or(names[ref.UID], "(gone)")
		}
		c := e.Conditions
		all = append(all, fmt.Sprintf("%s ready %v serving %v terminating %v", name,
			ptr.Deref(c.Ready, true), ptr.Deref(c.Serving, true), ptr.Deref(c.Terminating, false)))
	}
	return sorted(all)
}

func maskedSlots(o *corev1.Endpoints, names map[types.UID]string) (all []string) {
	for s, up := range slots(o) {
		name, known := names[s.uid]
		if !known && s.uid != "" {
			name = "(gone)"
		}
		all = append(all, fmt.Sprintf("%s %+v %s ready %v", name, s.port, s.hostname, up))
	}
	return sorted(all)
}
