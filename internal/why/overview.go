package why

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Overview is what is not as wanted in a namespace, the worst first.
type Overview struct {
	metav1.TypeMeta `json:",inline"`

	Namespace string      `json:"namespace"`
	Summary   string      `json:"summary"`
	Answers   []Answer    `json:"answers"`
	Unread    []string    `json:"unread,omitempty"`
	Source    string      `json:"source"`
	Time      metav1.Time `json:"time"`
}

// AskNamespace answers for all in a namespace that is not as wanted. What could not be read is named in the answer; it
// is an error only if nothing could.
func AskNamespace(
	ctx context.Context, r client.Reader, mapper Mapper, now time.Time, namespace string,
) (Overview, error) {
	w := newWorld(r, mapper, now)
	o := Overview{TypeMeta: metav1.TypeMeta{APIVersion: Schema, Kind: "Overview"}, Namespace: namespace,
		Time: metav1.Time{Time: now}, Answers: []Answer{}}
	n, is := get[*corev1.Namespace](ctx, w, "", namespace)
	if is == absent {
		o.Summary = fmt.Sprintf("Namespace %s: does not exist", namespace)
		return o, nil
	}
	bad, checked := w.verdictsIn(ctx, namespace)
	if is == present && n.DeletionTimestamp != nil { // what keeps it may not be among those objects
		bad, checked = slices.Insert(bad, 0, w.explain(ctx, n)), checked+1
	}
	for _, v := range bad {
		o.Answers = append(o.Answers, v.answer(w))
	}
	o.Unread = w.unreadNames()
	o.Summary = fmt.Sprintf("Namespace %s: all is as wanted, of %s", namespace, count(checked, "object"))
	if n := len(o.Answers); n > 0 {
		o.Summary = fmt.Sprintf("Namespace %s: %d of %s are not as wanted", namespace, n, count(checked, "object"))
	}
	switch {
	case len(o.Unread) > 0 && checked == 0:
		o.Summary = fmt.Sprintf("Namespace %s: nothing in it could be read", namespace)
	case len(o.Unread) > 0:
		o.Summary += ", and some could not be read"
	}
	return o, w.blind()
}

// worstIn returns the worst verdict in a namespace; nil if all is as wanted.
func (w *world) worstIn(ctx context.Context, namespace string) *verdict {
	if bad, _ := w.verdictsIn(ctx, namespace); len(bad) > 0 {
		return bad[0]
	}
	return nil
}

// verdictsIn returns the verdicts on what is not as wanted in a namespace, the worst first, and how many objects it has
// looked at. What controllers have made is judged with its owner, if that is judged.
func (w *world) verdictsIn(ctx context.Context, namespace string) (bad []*verdict, checked int) {
	contents, judged := w.contents(ctx, namespace), map[types.UID]bool{}
	for _, o := range contents {
		judged[o.GetUID()] = true
	}
	for _, o := range contents {
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil && judged[owner.UID] {
			continue
		}
		checked++
		v := w.explain(ctx, o)
		if v == nil || v.state == AsWanted {
			continue
		}
		if last := v.last(); !last.moving && last.reason != scaledToZero && last.reason != usedUp {
			bad = append(bad, v)
		}
	}
	slices.SortStableFunc(bad, func(a, b *verdict) int {
		switch {
		case a.worse(b):
			return -1
		case b.worse(a):
			return 1
		}
		return 0
	})
	return bad, checked
}

// contents are the objects of a namespace that ask for something.
func (w *world) contents(ctx context.Context, namespace string) []plan.Object {
	return slices.Concat(
		plan.Objects(list[*appsv1.Deployment](ctx, w, namespace, nil)),
		plan.Objects(list[*appsv1.StatefulSet](ctx, w, namespace, nil)),
		plan.Objects(list[*appsv1.DaemonSet](ctx, w, namespace, nil)),
		plan.Objects(list[*appsv1.ReplicaSet](ctx, w, namespace, nil)),
		plan.Objects(list[*corev1.ReplicationController](ctx, w, namespace, nil)),
		plan.Objects(list[*batchv1.CronJob](ctx, w, namespace, nil)),
		plan.Objects(list[*batchv1.Job](ctx, w, namespace, nil)),
		plan.Objects(list[*corev1.Pod](ctx, w, namespace, nil)),
		plan.Objects(list[*corev1.PersistentVolumeClaim](ctx, w, namespace, nil)),
		plan.Objects(list[*corev1.Service](ctx, w, namespace, nil)),
		plan.Objects(list[*networkingv1.Ingress](ctx, w, namespace, nil)),
		plan.Objects(list[*autoscalingv2.HorizontalPodAutoscaler](ctx, w, namespace, nil)),
		plan.Objects(list[*policyv1.PodDisruptionBudget](ctx, w, namespace, nil)),
	)
}

// count returns a number of things in words, as in "1 object".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
