package disruption

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var (
	now    = plantest.Epoch.Add(time.Hour)
	webKey = plan.Key{Namespace: plantest.Namespace, Name: "web"}
)

type (
	budgetEdit = func(*policyv1.PodDisruptionBudget)
	podEdit    = func(*corev1.Pod)
)

// web is a budget for the pods with the label app=web, of which one may be unavailable.
func web(edits ...budgetEdit) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: plantest.Namespace, Name: "web", UID: "uid-web-budget", ResourceVersion: "1",
			Generation: 2},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	for _, edit := range edits {
		edit(b)
	}
	return b
}

func called(name string) budgetEdit {
	return func(b *policyv1.PodDisruptionBudget) { b.Name, b.UID = name, types.UID("uid-"+name) }
}

// minAvailable and maxUnavailable take what kubectl does; empty for neither.
func minAvailable(v string) budgetEdit {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Spec.MaxUnavailable, b.Spec.MinAvailable = nil, nil
		if v != "" {
			parsed := intstr.Parse(v)
			b.Spec.MinAvailable = &parsed
		}
	}
}

func maxUnavailable(v string) budgetEdit {
	return func(b *policyv1.PodDisruptionBudget) {
		parsed := intstr.Parse(v)
		b.Spec.MaxUnavailable, b.Spec.MinAvailable = &parsed, nil
	}
}

// selecting takes what kubectl does; "all" is the empty selector, and "none" is no selector.
func selecting(text string) budgetEdit {
	return func(b *policyv1.PodDisruptionBudget) {
		switch text {
		case "all":
			b.Spec.Selector = &metav1.LabelSelector{}
		case "none":
			b.Spec.Selector = nil
		default:
			parsed, err := metav1.ParseToLabelSelector(text)
			if err != nil {
				parsed = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: text, Operator: "Perhaps"}}}
			}
			b.Spec.Selector = parsed
		}
	}
}

// disruptedAgo adds an entry to disruptedPods.
func disruptedAgo(name string, ago time.Duration) budgetEdit {
	return func(b *policyv1.PodDisruptionBudget) {
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[name] = metav1.NewTime(now.Add(-ago))
	}
}

func status(allowed, current, desired, expected int32) budgetEdit {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptionsAllowed, b.Status.CurrentHealthy = allowed, current
		b.Status.DesiredHealthy, b.Status.ExpectedPods = desired, expected
		b.Status.ObservedGeneration = b.Generation
	}
}

// podsOf are n ready pods of a ReplicaSet, of which there is one for each name. Edits are for all of them.
func podsOf(set *appsv1.ReplicaSet, n int, edits ...podEdit) []*corev1.Pod {
	return plantest.Pods(set, 0, n, append([]podEdit{plantest.Ready(plantest.Epoch)}, edits...)...)
}

func unready(p *corev1.Pod)     { p.Status.Conditions = nil }
func terminating(p *corev1.Pod) { plantest.Terminating(p) }
func bare(p *corev1.Pod)        { p.OwnerReferences = nil }
func labeled(app string) podEdit {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

// ownedBy makes an object of any kind the controller. Its uid is "uid-" and its name.
func ownedBy(apiVersion, kind, name string) podEdit {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID("uid-" + name),
			Controller: new(true)}}
	}
}

func disruptedSince(ago time.Duration, reason string) podEdit {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: reason, Message: "said the API server", LastTransitionTime: metav1.NewTime(now.Add(-ago))})
	}
}

// set is a ReplicaSet of the app web without an owner.
func set(name string, replicas int32, edits ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	return plantest.ReplicaSet(name, replicas, plantest.Template("web", "v1"), edits...)
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
	Fatal(...any)
}

// bench is the controller's caches, and a server.
type bench struct {
	*caches
	*clienttest.Server
	scaleless map[string]bool // resources without the subresource scale
	reads     int             // of scales
	failing   error           // what reads of scales fail with
}

func newBench(t failer, objects ...plan.Object) *bench {
	t.Helper()
	k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0))
	if err != nil {
		t.Fatalf("%v", err)
	}
	b := &bench{caches: k, Server: clienttest.NewServer(), scaleless: map[string]bool{"daemonsets": true}}
	k.mapper = b
	b.put(t, objects...)
	return b
}

// Mapping implements mapper. Widgets are a kind of its own that has a scale.
func (b *bench) Mapping(ctx context.Context, kind schema.GroupVersionKind) (client.Mapping, error) {
	if kind.Kind == "Widget" {
		return client.Mapping{GroupVersionKind: kind, Resource: "widgets", Namespaced: true}, nil
	}
	m, err := client.BuiltIns{}.Mapping(ctx, kind)
	if err != nil {
		return m, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	return m, nil
}

// HasSubresource implements mapper.
func (b *bench) HasSubresource(_ context.Context, of client.Mapping, name string) (bool, error) {
	return name == "scale" && !b.scaleless[of.Resource], nil
}

// put puts objects into the caches.
func (b *bench) put(t failer, objects ...plan.Object) {
	t.Helper()
	for _, o := range objects {
		if err := b.store(o).Add(o); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

func (b *bench) remove(t failer, o plan.Object) {
	t.Helper()
	if err := b.store(o).Delete(o); err != nil {
		t.Fatalf("%v", err)
	}
}

func (b *bench) store(o plan.Object) cache.Indexer {
	switch o.(type) {
	case *policyv1.PodDisruptionBudget:
		return b.budgets.Informer().GetIndexer()
	case *corev1.ReplicationController:
		return b.workloads.ReplicationControllers.Informer().GetIndexer()
	case *appsv1.ReplicaSet:
		return b.workloads.ReplicaSets.Informer().GetIndexer()
	case *appsv1.Deployment:
		return b.workloads.Deployments.Informer().GetIndexer()
	case *appsv1.StatefulSet:
		return b.workloads.StatefulSets.Informer().GetIndexer()
	}
	return b.pods.Informer().GetIndexer()
}

func objects[T plan.Object](all []T) (o []plan.Object) {
	for _, one := range all {
		o = append(o, one)
	}
	return o
}

// observed observes web as it is for the first time.
func (b *bench) observed(t failer) snapshot {
	t.Helper()
	o, err := b.observe(context.Background(), request{Key: webKey, Now: now, Reader: b})
	if err != nil || !o.Exists {
		t.Fatalf("exists: %v, %v", o.Exists, err)
	}
	return o.Snapshot
}

// numbers are the numbers of a status: disruptions that are allowed, healthy pods, desired ones, expected ones.
func numbers(s policyv1.PodDisruptionBudgetStatus) string {
	return fmt.Sprint(s.DisruptionsAllowed, " ", s.CurrentHealthy, " ", s.DesiredHealthy, " ", s.ExpectedPods)
}

// written returns the status that a report writes; nil if it writes none.
func written(p plan.Plan) *policyv1.PodDisruptionBudgetStatus {
	for _, s := range p.Steps {
		if c, ok := s.(plan.Change); ok {
			return &c.New.(*policyv1.PodDisruptionBudget).Status
		}
	}
	return nil
}

// events are the events of a plan, in words.
func events(p plan.Plan) string {
	var all []string
	for _, s := range p.Steps {
		if e, ok := s.(plan.RecordEvent); ok {
			all = append(all, fmt.Sprintf("%s: %s %s %s", e.Object.GetName(), e.Event.Type, e.Event.Reason, e.Event.Message))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// condition is the condition of a status, in words.
func condition(s policyv1.PodDisruptionBudgetStatus) string {
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	if c == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
}

// GetScale counts the reads.
func (b *bench) GetScale(ctx context.Context, m client.Mapping, key plan.Key) (*autoscalingv1.Scale, error) {
	b.reads++
	if b.failing != nil {
		return nil, b.failing
	}
	return b.Server.GetScale(ctx, m, key)
}

type podRequest = reconcile.Request[podMemory]

// planned is the plan for what was observed, without the decision.
func planned(now time.Time, s snapshot) plan.Plan {
	_, p := planEvents(now, s)
	return p
}

// remembered is what is remembered of what was observed.
func remembered(o observation) *memory {
	reported, _ := planEvents(now, o.Snapshot)
	m, _ := remember(now, o.Snapshot, reported, o.Memory, plan.Outcome{}, plan.Outcome{})
	return m
}
