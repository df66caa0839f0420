package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// How many revisions of each object are shown with a violation.
const (
	shownBefore = 5 // the one at fault among them
	shownAfter  = 1
	shownInAll  = 40
)

// around summarises the revisions of some objects around a version; 0 is the end.
func (l *linked) around(version int64, objects []string) (lines []string) {
	var indexes []int
	for _, object := range objects {
		of := l.ofObject[object]
		at := len(of)
		if version != 0 {
			at, _ = slices.BinarySearchFunc(of, version+1, func(i int, v int64) int { return cmp.Compare(l.revisions[i].Version, v) })
		}
		indexes = append(indexes, of[max(0, at-shownBefore):min(len(of), at+shownAfter)]...)
	}
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	for _, i := range indexes[max(0, len(indexes)-shownInAll):] {
		mark := "  "
		if l.revisions[i].Version == version {
			mark = "> "
		}
		lines = append(lines, mark+l.revisions[i].summary())
	}
	return lines
}

// summary is the revision in one line.
func (r *revision) summary() string {
	by := "the environment"
	switch {
	case r.by != nil:
		program, _, _ := strings.Cut(r.by.UserAgent, "/")
		by = fmt.Sprintf("%s by %s of %s", r.by.Verb, r.by.User[strings.LastIndex(r.by.User, ":")+1:], program)
	case r.manager:
		by = "the manager"
	case r.Injected:
		by = "injected"
	}
	return fmt.Sprintf("%d %s %s %s %s%s; %s", r.Version, r.When.UTC().Format("15:04:05.000"), strings.ToLower(string(r.Type)), r.kind,
		r.key, describe(r.Object), by)
}

// describe tells what matters to oracles about an object.
func describe(o Object) string {
	var b strings.Builder
	fmt.Fprintf(&b, " uid %s", o.GetUID())
	if owner, ok := controller(o); ok {
		fmt.Fprintf(&b, " of %s %s", owner.Kind, owner.UID)
	}
	if o.GetDeletionTimestamp() != nil {
		b.WriteString(" deleting")
	}
	switch o := o.(type) {
	case *corev1.Pod:
		fmt.Fprintf(&b, " %s ready=%v node=%q", o.Status.Phase, ready(o), o.Spec.NodeName)
	case *appsv1.ReplicaSet:
		fmt.Fprintf(&b, " gen %d/%d size %d status %d/%d/%d revision %s", o.Status.ObservedGeneration, o.Generation,
			ptr.Deref(o.Spec.Replicas, 1),
			o.Status.Replicas, o.Status.ReadyReplicas, o.Status.AvailableReplicas, o.Annotations[revisionAnnotation])
	case *appsv1.Deployment:
		surge, unavailable := fences(o)
		fmt.Fprintf(&b, " gen %d/%d replicas %d +%d -%d %s paused=%v status %d/%d/%d/%d revision %s collisions %d",
			o.Status.ObservedGeneration, o.Generation,
			ptr.Deref(o.Spec.Replicas, 1), surge, unavailable, o.Spec.Strategy.Type, o.Spec.Paused, o.Status.Replicas,
			o.Status.UpdatedReplicas,
			o.Status.ReadyReplicas, o.Status.AvailableReplicas, o.Annotations[revisionAnnotation], ptr.Deref(o.Status.CollisionCount, 0))
	case *corev1.Endpoints:
		up, down := 0, 0
		for _, s := range o.Subsets {
			up, down = up+len(s.Addresses), down+len(s.NotReadyAddresses)
		}
		fmt.Fprintf(&b, " %d ready %d not", up, down)
	case *discoveryv1.EndpointSlice:
		fmt.Fprintf(&b, " of %s, managed by %s, %d endpoints", serviceOf(o), o.Labels[discoveryv1.LabelManagedBy], len(o.Endpoints))
	case *coordinationv1.Lease:
		fmt.Fprintf(&b, " holder %q", ptr.Deref(o.Spec.HolderIdentity, ""))
	}
	return b.String()
}
