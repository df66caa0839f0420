package why

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Finalizers of Kubernetes of which more is known than who should remove them.
const (
	pvcProtection = "kubernetes.io/pvc-protection"
	pvProtection  = "kubernetes.io/pv-protection"
	customObjects = "customresourcecleanup.apiextensions.k8s.io"
)

// keepers are who removes the finalizers of Kubernetes, and when.
var keepers = map[string]string{
	metav1.FinalizerDeleteDependents:              "the garbage collector, when the dependents that block it are gone",
	metav1.FinalizerOrphanDependents:              "the garbage collector, when no dependent refers to it any more",
	"batch.kubernetes.io/job-tracking":            "the Job controller, when it has counted the pod",
	"service.kubernetes.io/load-balancer-cleanup": "the cloud controller manager, when the load balancer is gone",
	customObjects: "the API server, when all objects of that kind are gone",
	"resource.kubernetes.io/delete-protection": "the resource claim controller, when no pod uses it",
	"networking.k8s.io/service-cidr-finalizer": "the service CIDR controller, when no address of it is in use",
	"scheduling.k8s.io/podgroup-protection":    "the pod group protection controller, when no pod is of it",
}

// deleting is a verdict on an object that somebody has deleted and that is still there.
func (w *world) deleting(ctx context.Context, o plan.Object) *verdict {
	v := &verdict{object: refOf(o), state: Deleting, reason: "Deleting"}
	v.says = fmt.Sprintf("it is being deleted, for %s now", short(w.now.Sub(deletedAt(o))))
	if n, ok := o.(*corev1.Namespace); ok {
		return w.emptying(ctx, n, v)
	}
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
		return w.held(ctx, o, finalizers[0], v)
	}
	if p, ok := o.(*corev1.Pod); ok {
		return w.endingPod(ctx, p, v)
	}
	return v
}

// held adds to a verdict the finalizer that holds an object. Others may hold it, too.
func (w *world) held(ctx context.Context, o plan.Object, finalizer string, v *verdict) *verdict {
	v.reason = "Finalizer"
	v.says += fmt.Sprintf("; finalizer %s holds it", finalizer)
	below := w.heldBy(ctx, o, finalizer)
	if keeper := keepers[finalizer]; keeper != "" {
		v.ends = keeper + ", removes the finalizer"
	} else if below == nil {
		v.ends = fmt.Sprintf("whoever has set the finalizer %s removes it", finalizer)
	}
	return v.through(below)
}

// deletedAt is when the deletion was asked for. The timestamp of a pod is when its time to end is over.
func deletedAt(o plan.Object) time.Time {
	at := o.GetDeletionTimestamp().Time
	if grace := o.GetDeletionGracePeriodSeconds(); grace != nil {
		return at.Add(-workloads.Seconds(*grace))
	}
	return at
}

// heldBy is a verdict on the object for which a finalizer is kept; nil if it is not known.
func (w *world) heldBy(ctx context.Context, o plan.Object, finalizer string) *verdict {
	switch finalizer {
	case pvcProtection:
		for _, p := range list[*corev1.Pod](ctx, w, o.GetNamespace(), nil) {
			if usesClaim(p, o.GetName()) {
				return waits(p, "UsesClaim", "it uses the claim").until("the pod ends")
			}
		}
	case pvProtection:
		if pv, ok := o.(*corev1.PersistentVolume); ok && pv.Spec.ClaimRef != nil {
			ref := pv.Spec.ClaimRef
			if c, is := get[*corev1.PersistentVolumeClaim](ctx, w, ref.Namespace, ref.Name); is == present {
				return waits(c, "Bound", "it is bound to the volume").until("the claim is deleted")
			}
		}
	case metav1.FinalizerDeleteDependents:
		return w.blocking(ctx, o)
	case customObjects:
		return w.customObject(ctx, o)
	}
	return nil
}

// customObject is a verdict on an object of a CustomResourceDefinition that is being deleted.
func (w *world) customObject(ctx context.Context, definition plan.Object) *verdict {
	u, ok := definition.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	resource, _, _ := unstructured.NestedString(u.Object, "spec", "names", "plural")
	kind, ok := w.kindOf(ctx, schema.GroupResource{Group: group, Resource: resource})
	if !ok {
		return nil
	}
	for _, o := range w.listAny(ctx, kind, "") {
		if v := w.explain(ctx, o); v != nil && v.state == Deleting {
			return v
		}
	}
	return nil
}

// blocking is a verdict on a dependent that keeps its owner in foreground deletion.
func (w *world) blocking(ctx context.Context, owner plan.Object) *verdict {
	for _, kind := range dependentKinds {
		for _, d := range w.list(ctx, kind, owner.GetNamespace(), nil) {
			for _, ref := range d.GetOwnerReferences() {
				if ref.UID == owner.GetUID() && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
					if v := w.explain(ctx, d); v != nil && v.state == Deleting {
						return v
					}
					return waits(d, "Dependent", "it is a dependent that blocks the deletion")
				}
			}
		}
	}
	return nil
}

// dependentKinds are the kinds of objects that controllers make for others. Secrets are not read.
var dependentKinds = []schema.GroupVersionKind{
	client.KindFor[*appsv1.ReplicaSet](), client.KindFor[*corev1.Pod](), client.KindFor[*batchv1.Job](),
	client.KindFor[*corev1.PersistentVolumeClaim](), client.KindFor[*corev1.Service](),
	client.KindFor[*corev1.ConfigMap](), client.KindFor[*corev1.ServiceAccount](), client.KindFor[*appsv1.Deployment](),
	client.KindFor[*appsv1.StatefulSet](), client.KindFor[*appsv1.DaemonSet](),
	client.KindFor[*appsv1.ControllerRevision](), client.KindFor[*networkingv1.Ingress](),
}

// endingPod is a verdict on a pod without finalizers: its kubelet ends its containers.
func (w *world) endingPod(ctx context.Context, p *corev1.Pod, v *verdict) *verdict {
	if p.Spec.NodeName == "" {
		return v
	}
	n, is := get[*corev1.Node](ctx, w, "", p.Spec.NodeName)
	switch {
	case is == absent:
		return v.through(lacking[*corev1.Node]("", p.Spec.NodeName, "it does not exist, so no kubelet ends the pod"))
	case is == present && !nodes.Ready(n):
		return v.through(w.node(ctx, n))
	}
	if left := p.DeletionTimestamp.Sub(w.now); left > 0 {
		v.says += fmt.Sprintf("; its containers have %s to end", short(left))
	}
	return v.until("the kubelet of node %s has ended its containers", p.Spec.NodeName)
}

// deletion says what is known of the deletion of an object; nil if nobody has deleted it.
func (w *world) deletion(ctx context.Context, o plan.Object) *Deletion {
	if o.GetDeletionTimestamp() == nil {
		return nil
	}
	return &Deletion{Since: metav1.Time{Time: deletedAt(o)}, Rule: w.deletedBy(ctx, o), HeldBy: o.GetFinalizers()}
}

// deletedBy says by which rule the API shows that an object was deleted; empty if it does not say.
func (w *world) deletedBy(ctx context.Context, o plan.Object) string {
	if p, ok := o.(*corev1.Pod); ok {
		if c := podCondition(p, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	if ns := o.GetNamespace(); ns != "" {
		if n, is := get[*corev1.Namespace](ctx, w, "", ns); is == present && n.DeletionTimestamp != nil {
			return "its namespace is being deleted"
		}
	}
	if owners := o.GetOwnerReferences(); len(owners) > 0 && w.orphaned(ctx, o.GetNamespace(), owners) {
		return fmt.Sprintf("garbage collection: its owner %s %s is gone", owners[0].Kind, owners[0].Name)
	}
	if e := w.deletionEvent(ctx, o); e != nil {
		return fmt.Sprintf("%s %s deleted it (event %s)", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason)
	}
	return ""
}

// deletionEvent is an event of the controller that has deleted an object.
func (w *world) deletionEvent(ctx context.Context, o plan.Object) *corev1.Event {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return nil
	}
	for _, e := range w.events(ctx, o.GetNamespace(), "reason=SuccessfulDelete") {
		if e.InvolvedObject.UID == owner.UID && wordIn(e.Message, o.GetName()) {
			return e
		}
	}
	return nil
}

// orphaned reports whether all owners of an object are known to be gone.
func (w *world) orphaned(ctx context.Context, namespace string, owners []metav1.OwnerReference) bool {
	return !slices.ContainsFunc(owners, func(ref metav1.OwnerReference) bool {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		m, err := w.mapper.Mapping(ctx, kind)
		if err != nil {
			return true
		}
		at := namespace
		if !m.Namespaced {
			at = ""
		}
		o, is := w.get(ctx, kind, at, ref.Name)
		return is == unknown || is == present && o.GetUID() == ref.UID
	})
}

// What the namespace controller writes into the conditions of a namespace: "widgets.example.com has 2 resource
// instances".
var (
	remaining    = regexp.MustCompile(`([a-z0-9]+)\.([a-z0-9.-]*) has \d+ resource instances`)
	undiscovered = regexp.MustCompile(`([a-z0-9.-]+\.[a-z0-9.-]+)/(v[a-z0-9]+):`)
)

// emptying is a verdict on a namespace that is being deleted.
func (w *world) emptying(ctx context.Context, n *corev1.Namespace, v *verdict) *verdict {
	conditions := map[corev1.NamespaceConditionType]corev1.NamespaceCondition{}
	for _, c := range n.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			conditions[c.Type] = c
		}
	}
	v.reason = "NamespaceNotEmpty"
	for _, t := range []corev1.NamespaceConditionType{
		corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionGVParsingFailure,
		corev1.NamespaceDeletionContentFailure,
	} {
		if c, failed := conditions[t]; failed {
			return v.adding(c.Message).through(w.unservedAPI(c))
		}
	}
	if c, remains := conditions[corev1.NamespaceFinalizersRemaining]; remains {
		v.says += "; " + c.Message
	}
	if c, remains := conditions[corev1.NamespaceContentRemaining]; remains {
		v.says += "; " + c.Message
		return v.through(w.remains(ctx, n.Name, c.Message))
	}
	for _, f := range n.Spec.Finalizers {
		if f != corev1.FinalizerKubernetes {
			v.reason = "Finalizer"
			v.says += fmt.Sprintf("; finalizer %s of its spec holds it", f)
			return v.until("whoever has set the finalizer %s removes it", f)
		}
	}
	return v.through(w.leader(ctx))
}

// adding returns the verdict with one more thing that it says.
func (v *verdict) adding(more string) *verdict {
	v.says += "; " + more
	return v
}

// remains is a verdict on an object that a namespace still has, of those that a condition counts.
func (w *world) remains(ctx context.Context, namespace, message string) (held *verdict) {
	for _, m := range remaining.FindAllStringSubmatch(message, -1) {
		kind, ok := w.kindOf(ctx, schema.GroupResource{Resource: m[1], Group: m[2]})
		if !ok {
			continue
		}
		for _, o := range w.listAny(ctx, kind, namespace) {
			v := w.explain(ctx, o)
			if v == nil {
				continue
			}
			if held == nil || len(o.GetFinalizers()) > 0 && v.because == nil {
				held = v
			}
		}
	}
	return held
}

// unservedAPI is a verdict on an API whose objects cannot be listed.
func (w *world) unservedAPI(c corev1.NamespaceCondition) *verdict {
	m := undiscovered.FindStringSubmatch(c.Message)
	if m == nil {
		return nil
	}
	return &verdict{
		object: Ref{"apiregistration.k8s.io/v1", "APIService", "", m[2] + "." +
			m[1]}, state: Failing, reason: "NotServed",
		says: "its API server does not answer, so nobody knows what the namespace still has of it",
		ends: "the API server behind it answers, or the APIService is deleted",
	}
}

func (w *world) namespace(ctx context.Context, n *corev1.Namespace) *verdict {
	if v := w.worstIn(ctx, n.Name); v != nil {
		top := fails(n, "NotAsWanted", "not all in it is as wanted")
		return top.through(v)
	}
	return fine(n, "all workloads, claims, Services and autoscalers in it are as wanted")
}

// selected are the pods in a namespace that a selector matches.
func (w *world) selected(ctx context.Context, namespace string, selector *metav1.LabelSelector) []*corev1.Pod {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		s = labels.Nothing()
	}
	return list[*corev1.Pod](ctx, w, namespace, s)
}
