package why

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Question is about one object.
type Question struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
}

// Ask answers a question by what the reader reads. What the reader may not read is named in the answer; it is an error
// only if the object itself cannot be read.
func Ask(ctx context.Context, r client.Reader, mapper Mapper, now time.Time, q Question) (Answer, error) {
	w := newWorld(r, mapper, now)
	o, is := w.get(ctx, q.Kind, q.Namespace, q.Name)
	switch is {
	case absent:
		return gone(q).answer(w), nil
	case unknown:
		for _, err := range w.unread {
			return Answer{}, err
		}
		return Answer{}, fmt.Errorf("the API server does not serve %s", q.Kind)
	}
	a := w.explain(ctx, o).answer(w)
	a.Deletion = w.deletion(ctx, o)
	return a, nil
}

// gone says that there is no such object.
func gone(q Question) *verdict {
	return &verdict{
		object: Ref{q.Kind.GroupVersion().String(), q.Kind.Kind, q.Namespace, q.Name}, state: NotFound,
		says: "does not exist", reason: "NotFound",
	}
}

// explain returns the verdict on an object. An object that is being explained already has none, so that no chain is a
// circle.
func (w *world) explain(ctx context.Context, o plan.Object) *verdict {
	ref := refOf(o)
	if w.asked[ref] {
		return nil
	}
	w.asked[ref] = true
	defer delete(w.asked, ref)
	if o.GetDeletionTimestamp() != nil {
		return w.deleting(ctx, o)
	}
	switch o := o.(type) {
	case *corev1.Pod:
		return w.pod(ctx, o)
	case *appsv1.Deployment:
		return w.deployment(ctx, o)
	case *appsv1.ReplicaSet:
		return w.replicaSet(ctx, o)
	case *corev1.ReplicationController:
		return w.replicationController(ctx, o)
	case *appsv1.StatefulSet:
		return w.statefulSet(ctx, o)
	case *appsv1.DaemonSet:
		return w.daemonSet(ctx, o)
	case *batchv1.Job:
		return w.job(ctx, o)
	case *batchv1.CronJob:
		return w.cronJob(ctx, o)
	}
	return w.explainOther(ctx, o)
}

// explainOther is explain for what is no workload.
func (w *world) explainOther(ctx context.Context, o plan.Object) *verdict {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		return w.claim(ctx, o)
	case *corev1.PersistentVolume:
		return w.volume(ctx, o)
	case *storagev1.VolumeAttachment:
		return w.attachment(o)
	case *corev1.Service:
		return w.service(ctx, o)
	case *networkingv1.Ingress:
		return w.ingress(ctx, o)
	case *corev1.Node:
		return w.node(ctx, o)
	case *corev1.Namespace:
		return w.namespace(ctx, o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		return w.autoscaler(ctx, o)
	case *policyv1.PodDisruptionBudget:
		return w.budget(ctx, o)
	case *corev1.ResourceQuota:
		return w.quota(o)
	case *resourcev1.ResourceClaim:
		return w.deviceClaim(ctx, o)
	}
	return w.other(ctx, o)
}

// Conditions of kinds of which nothing else is known: those that say that all is well if they are true, and those that
// say so if they are false.
var (
	good = []string{"Ready", "Available", "Healthy", "Synced", "Succeeded", "Established", "NamesAccepted", "Accepted",
		"Programmed", "Reconciled", "Valid"}
	bad = []string{"Failed", "Degraded", "Stalled", "Error"}
)

// other is a verdict on an object of which nothing is known but what all objects have: conditions and events.
func (w *world) other(ctx context.Context, o plan.Object) *verdict {
	all := conditionsOf(o)
	for _, c := range all {
		if c.Status == metav1.ConditionFalse && slices.Contains(good, c.Type) ||
			c.Status == metav1.ConditionTrue && slices.Contains(bad, c.Type) {
			return fails(o, c.Reason, "condition %s is %s: %s", c.Type, c.Status, c.Message)
		}
	}
	for _, c := range all {
		if c.Status == metav1.ConditionFalse && failing.MatchString(c.Reason) {
			return fails(o, c.Reason, "condition %s is %s: %s", c.Type, c.Status, c.Message).inferred()
		}
	}
	if events := w.warnings(ctx, o); len(events) > 0 {
		return fails(o, events[0].Reason, "%s", events[0].Message).inferred()
	}
	return fine(o, "no condition and no event says that something is wrong")
}

// failing matches reasons of conditions that say that something went wrong.
var failing = regexp.MustCompile(`(?i)fail|error|invalid|denied|missing|notfound`)

// conditionsOf returns the conditions of an object of any kind.
func conditionsOf(o plan.Object) (all []metav1.Condition) {
	var content map[string]any
	if u, ok := o.(*unstructured.Unstructured); ok {
		content = u.Object
	} else if converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o); err == nil {
		content = converted
	}
	list, _, _ := unstructured.NestedSlice(content, "status", "conditions")
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string { s, _ := fields[name].(string); return s }
		all = append(all, metav1.Condition{
			Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"),
			Message: text("message"),
		})
	}
	return all
}
