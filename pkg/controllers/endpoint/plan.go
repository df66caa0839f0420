package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	managedByLabel = "endpoints.kubernetes.io/managed-by"
	managedBy      = "endpoint-controller"
	capacity       = 1000 // addresses that one object may hold (EP-32)
	leaderRecord   = "control-plane.alpha.kubernetes.io/leader"
	triggerTime    = endpoints.TriggerTime
	overCapacity   = "endpoints.kubernetes.io/over-capacity"
	truncated      = "truncated"
)

// snapshot is a service, its Endpoints and its pods, as one reconcile has observed them. Observe fills it,
// and planEndpoints reads it. The objects belong to shared caches.
type snapshot struct {
	Key       plan.Key
	Service   *corev1.Service   // nil: there is none
	Endpoints *corev1.Endpoints // nil: there are none
	Pods      []*corev1.Pod     // at least those that the service selects, but for pods that Others stand for
	Others    found             // what was found of pods that have not changed since
	// when the first change that no write has reported took place (EP-31); zero if there is none
	Trigger time.Time
}

// planEndpoints decides what the service's Endpoints must be (EP-8..36). It also returns what it has found of the pods.
func planEndpoints(_ time.Time, s snapshot) (found, plan.Plan) {
	switch {
	case s.Service == nil:
		return nil, planLeftOver(s)
	case s.Service.Spec.Type == corev1.ServiceTypeExternalName:
		return nil, plan.Plan{Why: "left alone: the service is of type ExternalName"}
	case s.Service.Spec.Selector == nil:
		return nil, plan.Plan{Why: "left alone: the service has no selector"}
	}
	pods := findAddresses(s)
	return pods, planSubsets(s, want(s, pods, capacity))
}

// planSubsets decides how the object gets the subsets that are wanted.
func planSubsets(s snapshot, w wanted) plan.Plan {
	after := &corev1.Endpoints{}
	if s.Endpoints != nil {
		after.TypeMeta, after.ObjectMeta = s.Endpoints.TypeMeta, *s.Endpoints.ObjectMeta.DeepCopy()
	} else {
		after.Namespace, after.Name = s.Key.Namespace, s.Key.Name // EP-28: nothing else
	}
	after.Labels = labelsFor(s.Service)
	after.Annotations = annotate(after.Annotations, s.Trigger, w.all > w.kept)
	after.Subsets = w.subsets
	if s.Endpoints == nil {
		return plan.Plan{Why: "create: " + w.String(), Steps: []plan.Step{plan.Create{
			Object: after, Unowned: true, // EP-28: nothing controls Endpoints
			Events: events(s, w, "FailedToCreateEndpoint", "create endpoint for service"), Why: "there are none yet",
		}}}
	}
	why := difference(s.Endpoints, after)
	if why == "" {
		return plan.Plan{Why: "up to date: " + w.String()}
	}
	return plan.Plan{Why: "change: " + w.String(), Steps: []plan.Step{plan.Change{
		Old: s.Endpoints, New: after, Events: events(s, w, "FailedToUpdateEndpoint", "update endpoint"), Why: why,
	}}}
}

// planLeftOver deletes Endpoints whose service is gone (EP-8), but no record of an old leader election (EP-7).
func planLeftOver(s snapshot) plan.Plan {
	if s.Endpoints == nil {
		return plan.Plan{}
	}
	if isLeaderRecord(s.Endpoints) {
		return plan.Plan{Why: "left alone: a record of leader election"}
	}
	return plan.Plan{Why: "delete: there is no such service", Steps: []plan.Step{
		plan.Delete{Objects: []plan.Object{s.Endpoints}, Why: "there is no such service"},
	}}
}

// endpointsToDelete returns those of the listed Endpoints that are to go when the controller is switched off: its
// own, but no record of an old leader election. What is being deleted already needs no further deletion.
func endpointsToDelete(listed []metav1.PartialObjectMetadata) (all []plan.Object) {
	for i := range listed {
		if o := &listed[i]; o.Labels[managedByLabel] == managedBy && o.DeletionTimestamp == nil && !isLeaderRecord(o) {
			one := &metav1.PartialObjectMetadata{ObjectMeta: o.ObjectMeta}
			// as an item of a list it does not say
			one.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Endpoints"))
			all = append(all, one)
		}
	}
	return all
}

// isLeaderRecord reports whether Endpoints are the record of an old leader election, which others keep.
func isLeaderRecord(o metav1.Object) bool {
	_, is := o.GetAnnotations()[leaderRecord]
	return is
}

// wanted is what the subsets of Endpoints must be.
type wanted struct {
	subsets   []corev1.EndpointSubset
	all, kept int // addresses before and after the object was cut to its capacity
	homeless  int // pods that have no address of the service's family (EP-14)
	pods      int // that are in the subsets
}

// String says in words, for the explanation, how many pods and addresses there are, and what is left out.
func (w wanted) String() string {
	text := fmt.Sprintf("%d pods, %d addresses", w.pods, w.kept)
	if w.kept < w.all {
		text += fmt.Sprintf(" of %d: no more than %d fit", w.all, capacity)
	}
	if w.homeless > 0 {
		text += fmt.Sprintf("; %d pods have no IP of the service's family", w.homeless)
	}
	return text
}

// want makes the subsets from what was found of the pods, with so many addresses at most.
func want(s snapshot, pods found, most int) (w wanted) {
	w.homeless = pods.homeless()
	placed := pods[w.homeless:]
	full := endpoints.Grouped(placed)
	w.pods, w.all = len(placed), full.Size()
	if w.kept = w.all; w.all > most {
		full = endpoints.Grouped(fitting(most, placed, full, s.Endpoints))
		w.kept = full.Size()
	}
	w.subsets = full.Subsets()
	return w
}

// labelsFor are the service's labels and our own (EP-25).
func labelsFor(service *corev1.Service) map[string]string {
	labels := make(map[string]string, len(service.Labels)+2)
	maps.Copy(labels, service.Labels)
	delete(labels, corev1.IsHeadlessService)
	labels[managedByLabel] = managedBy
	if ip := service.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone {
		labels[corev1.IsHeadlessService] = ""
	}
	return labels
}

// annotate sets our two annotations, and keeps all others (EP-26, EP-30, EP-32). The map is its own to change.
func annotate(annotations map[string]string, trigger time.Time, cut bool) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	endpoints.SetTriggerTime(annotations, trigger)
	delete(annotations, overCapacity)
	if cut {
		annotations[overCapacity] = truncated
	}
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}

// difference says why the object must be written, "" if it need not be (EP-27). A trigger time alone is no reason
// (EP-30).
func difference(before, after *corev1.Endpoints) string {
	was, noted := before.Annotations[overCapacity]
	is, note := after.Annotations[overCapacity]
	switch {
	case !endpoints.SameSubsets(before.Subsets, after.Subsets):
		return "the addresses have changed"
	case !maps.Equal(before.Labels, after.Labels):
		return "the labels have changed"
	case noted != note || was != is:
		return "whether all addresses fit has changed"
	}
	return ""
}

// events are those of EP-38, and one for the write that begins to leave addresses out.
func events(s snapshot, w wanted, failed, verb string) (e plan.Events) {
	name := s.Key.Namespace + "/" + s.Key.Name
	e.Failed = plan.Event{Type: corev1.EventTypeWarning, Reason: failed,
		Message: "Failed to " + verb + " " + name + ": {error}"}
	if known := s.Endpoints != nil && s.Endpoints.Annotations[overCapacity] != ""; w.kept < w.all && !known {
		e.Done = plan.Event{Type: corev1.EventTypeWarning, Reason: "TruncatedEndpoints", Message: fmt.Sprintf(
			"Endpoints hold %d of %d addresses: no more than %d fit. EndpointSlices have them all.", w.kept, w.all,
			capacity)}
	}
	return e
}
