package horizontalpodautoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	now    = plantest.Epoch.Add(time.Hour)
	webKey = plan.Key{Namespace: plantest.Namespace, Name: "web"}
)

type (
	autoscalerEdit = func(*autoscalingv2.HorizontalPodAutoscaler)
	edit           = func(*snapshot)
	podEdit        = func(*corev1.Pod)
)

// web is an autoscaler of the Deployment web: from 1 to 10 replicas, half of the CPU that they request.
func web(edits ...autoscalerEdit) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: plantest.Namespace, Name: "web", UID: "uid-hpa", ResourceVersion: "1", Generation: 2},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(1)), MaxReplicas: 10,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Metrics:        []autoscalingv2.MetricSpec{utilized(corev1.ResourceCPU, 50)},
		},
	}
	for _, e := range edits {
		e(h)
	}
	return h
}

func utilized(name corev1.ResourceName, percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: name, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}}}
}

func averaging(value string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantityOf(value)}
}

func valued(value string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: quantityOf(value)}
}

func quantityOf(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

func used(name corev1.ResourceName, value string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: averaging(value)}}
}

func usedByContainer(container string, percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType,
		ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: corev1.ResourceCPU, Container: container,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}}}
}

func ofPods(name, value string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: name}, Target: averaging(value)}}
}

func ofObject(kind, name string, target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: name},
		Metric:          autoscalingv2.MetricIdentifier{Name: "requests"}, Target: target}}
}

func external(name string, target autoscalingv2.MetricTarget, pairs map[string]string) autoscalingv2.MetricSpec {
	m := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: name}, Target: target}}
	if pairs != nil {
		m.External.Metric.Selector = &metav1.LabelSelector{MatchLabels: pairs}
	}
	return m
}

func measuring(all ...autoscalingv2.MetricSpec) autoscalerEdit {
	return func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.Metrics = all }
}

func between(least, most int32) autoscalerEdit {
	return func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MinReplicas, h.Spec.MaxReplicas = &least, most }
}

func behaving(up, down *autoscalingv2.HPAScalingRules) autoscalerEdit {
	return func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: up, ScaleDown: down}
	}
}

func conditioned(t autoscalingv2.HorizontalPodAutoscalerConditionType, is corev1.ConditionStatus) autoscalerEdit {
	return func(h *autoscalingv2.HorizontalPodAutoscaler) {
		reason := map[corev1.ConditionStatus]string{corev1.ConditionTrue: "ScaledToZero", corev1.ConditionFalse: "NotScaledToZero"}[is]
		h.Status.Conditions = append(h.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
			Type: t, Status: is, Reason: reason, LastTransitionTime: metav1.NewTime(plantest.Epoch)})
	}
}

// pod is a ready pod of the app web that has run for half an hour and requests 100m of CPU and 100Mi of memory.
func pod(i int, edits ...podEdit) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: plantest.Namespace, Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("uid-web-", i)),
			Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{container("main", "100m")}},
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.StartTime = &metav1.Time{Time: now.Add(-30 * time.Minute)}
	ready(corev1.ConditionTrue, 29*time.Minute)(p)
	for _, e := range edits {
		e(p)
	}
	return p
}

func container(name, cpu string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("100Mi")}}}
}

func ready(is corev1.ConditionStatus, ago time.Duration) podEdit {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
	}
}

func started(ago time.Duration) podEdit {
	return func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: now.Add(-ago)} }
}

func phase(is corev1.PodPhase) podEdit { return func(p *corev1.Pod) { p.Status.Phase = is } }
func terminating(p *corev1.Pod)        { p.DeletionTimestamp = &metav1.Time{Time: now} }

// defaultOptions are those of a controller of which nothing was set.
func defaultOptions() *Options { return New(Options{}).Flags.(*Options) }

// at is a snapshot of a target of so many replicas, all of which are ready pods that use so much of the CPU, in thousandths.
func at(replicas int32, use int64, edits ...edit) snapshot {
	s := snapshot{
		Autoscaler: web(), Settings: defaultOptions().settings(func(gate string) bool { return gate != "HPAScaleToZero" }), Began: now,
		Next: 15 * time.Second,
		Target: &target{
			Kind: deploymentKind(), UID: "uid-web", Version: "7", Replicas: replicas, Observed: replicas, Labels: "app=web",
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Known: true,
	}
	r := reading{Pods: map[string]sample{}}
	for i := range int(replicas) {
		p := pod(i)
		s.Pods = append(s.Pods, p)
		r.Pods[p.Name] = sample{use, now.Add(-20 * time.Second), time.Minute}
	}
	s.Readings = []reading{r}
	for _, e := range edits {
		e(&s)
	}
	return s
}

// by changes the autoscaler of a snapshot.
func by(edits ...autoscalerEdit) edit {
	return func(s *snapshot) {
		for _, e := range edits {
			e(s.Autoscaler)
		}
	}
}

// having changes one pod of a snapshot.
func having(i int, edits ...podEdit) edit {
	return func(s *snapshot) {
		for _, e := range edits {
			e(s.Pods[i])
		}
	}
}

// unmeasured takes away what is known of pods.
func unmeasured(pods ...int) edit {
	return func(s *snapshot) {
		for _, i := range pods {
			delete(s.Readings[0].Pods, fmt.Sprint("web-", i))
		}
	}
}

// reads sets what the metrics APIs have answered.
func answered(all ...reading) edit { return func(s *snapshot) { s.Readings = all } }

func recommended(ago time.Duration, replicas int32) edit {
	return func(s *snapshot) {
		s.History.Recommendations = append(s.History.Recommendations, recommendation{now.Add(-ago), replicas})
	}
}

func scaledUp(ago time.Duration, n int32) edit {
	return func(s *snapshot) { s.History.Ups = append(s.History.Ups, rescale{now.Add(-ago), n}) }
}

func scaledDown(ago time.Duration, n int32) edit {
	return func(s *snapshot) { s.History.Downs = append(s.History.Downs, rescale{now.Add(-ago), n}) }
}

func toZero(s *snapshot) { s.Settings.ToZero = true }

// reasonOf is what a status says in a condition, "True ValidMetricFound" for example; empty if it has none.
func reasonOf(s autoscalingv2.HorizontalPodAutoscalerStatus, t autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == t {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func messageOf(s autoscalingv2.HorizontalPodAutoscalerStatus, t autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == t {
			return c.Message
		}
	}
	return ""
}

// eventsOf are the events of a plan, one a line.
func eventsOf(p plan.Plan) string {
	var all []string
	for _, s := range p.Steps {
		if e, ok := s.(plan.RecordEvent); ok {
			all = append(all, e.Event.Type+" "+e.Event.Reason+": "+e.Event.Message)
		}
	}
	return strings.Join(all, "\n")
}

// scaledBy returns the change of the scale in a plan, nil if there is none.
func scaledBy(p plan.Plan) *plan.Change {
	for _, s := range p.Steps {
		if c, ok := s.(plan.Change); ok && c.Subresource == scaleSubresource {
			return &c
		}
	}
	return nil
}

// carriedOut is the outcome of a plan when nothing goes wrong.
func carriedOut(p plan.Plan) plan.Outcome {
	if c := scaledBy(p); c != nil {
		return plan.Outcome{Results: []plan.Result{{Verb: plan.Changed, Object: c.New, Subresource: scaleSubresource, UID: c.New.GetUID(),
			Version: "8"}}}
	}
	return plan.Outcome{}
}

// writtenBy is the status that a report writes, nil if it writes none.
func writtenBy(p plan.Plan) *autoscalingv2.HorizontalPodAutoscalerStatus {
	for _, s := range p.Steps {
		if c, ok := s.(plan.Change); ok {
			return &c.New.(*autoscalingv2.HorizontalPodAutoscaler).Status
		}
	}
	return nil
}

// bench has caches, and answers as an API server does.
type bench struct {
	*caches
	client.Reader

	mu     sync.Mutex
	raw    map[string]any // answers to GetRaw by path, or errors
	scales map[string]*autoscalingv1.Scale
	gone   []string // versions of kinds that the server does not serve any more
	asked  []string // what was asked live
}

func newBench(t interface{ Fatal(...any) }, objects ...plan.Object) *bench {
	k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0), schedule{15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{caches: k, raw: map[string]any{}, scales: map[string]*autoscalingv1.Scale{}}
	k.settings = at(1, 0).Settings
	k.mapper = toyMapper{}
	b.put(t, objects...)
	return b
}

func (b *bench) indexer(o plan.Object) cache.Indexer {
	switch o.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		return b.autoscalers.Informer().GetIndexer()
	case *corev1.Pod:
		return b.pods.Informer().GetIndexer()
	case *appsv1.Deployment:
		return b.workloads.Deployments.Informer().GetIndexer()
	case *appsv1.ReplicaSet:
		return b.workloads.ReplicaSets.Informer().GetIndexer()
	case *appsv1.StatefulSet:
		return b.workloads.StatefulSets.Informer().GetIndexer()
	}
	return b.workloads.ReplicationControllers.Informer().GetIndexer()
}

func (b *bench) put(t interface{ Fatal(...any) }, objects ...plan.Object) {
	for _, o := range objects {
		if err := b.indexer(o).Add(o); err != nil {
			t.Fatal(err)
		}
	}
}

// observed is the snapshot of an autoscaler at a time.
func (b *bench) observed(t interface{ Fatal(...any) }, at time.Time, key plan.Key, m *memory) snapshot {
	o, err := b.observe(context.Background(), request{Key: key, Now: at, Reader: b, Memory: m})
	if err != nil || !o.Exists {
		t.Fatal(o.Exists, err)
	}
	return o.Snapshot
}

func (b *bench) GetRaw(_ context.Context, path string, query url.Values) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := path
	if len(query) > 0 {
		q, _ := url.QueryUnescape(query.Encode())
		text += "?" + q
	}
	b.asked = append(b.asked, text)
	switch a := b.raw[path].(type) {
	case nil:
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{}, "", "", 0, true)
	case error:
		return nil, a
	case string:
		return []byte(a), nil
	default:
		return json.Marshal(a)
	}
}

func (b *bench) GetScale(_ context.Context, m client.Mapping, key plan.Key) (*autoscalingv1.Scale, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, "scale of "+m.Resource+" "+key.String())
	if slices.Contains(b.gone, m.Version) {
		return nil,
			apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{}, "", "404 page not found", 0, true)
	}
	if s := b.scales[m.Resource+"/"+key.Name]; s != nil {
		return s, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: m.Group, Resource: m.Resource}, key.Name)
}

func deploymentKind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("Deployment")
}

// toyMapper knows the built-in kinds, Widgets and, cluster-scoped, Gadgets.
type toyMapper struct{}

func (toyMapper) Mapping(_ context.Context, kind schema.GroupVersionKind) (client.Mapping, error) {
	if m, ok := client.BuiltIn(kind); ok {
		return m, nil
	}
	if !slices.Contains([]string{"Widget", "Gadget"}, kind.Kind) {
		return client.Mapping{}, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	return client.Mapping{GroupVersionKind: kind, Resource: strings.ToLower(kind.Kind) + "s", Namespaced: kind.Kind == "Widget"}, nil
}

func (m toyMapper) Mappings(ctx context.Context, kind schema.GroupKind) (all []client.Mapping, err error) {
	for _, version := range []string{"v2", "v1"} {
		one, err := m.Mapping(ctx, kind.WithVersion(version))
		if err != nil {
			return nil, &meta.NoKindMatchError{GroupKind: kind}
		}
		all = append(all, one)
	}
	return all, nil
}

func (toyMapper) Refresh(context.Context) error { return nil }

// staleMapper knows Widgets in a version only that the server does not serve any more, until it looks anew.
type staleMapper struct {
	toyMapper
	refreshed int
	err       error // of a look
	current   bool
}

func (m *staleMapper) Mappings(ctx context.Context, kind schema.GroupKind) ([]client.Mapping, error) {
	if m.current {
		return m.toyMapper.Mappings(ctx, kind)
	}
	one, err := m.Mapping(ctx, kind.WithVersion("v1alpha1"))
	return []client.Mapping{one}, err
}

func (m *staleMapper) Refresh(context.Context) error {
	m.refreshed++
	m.current = m.err == nil
	return m.err
}

// podMetrics is what metrics.k8s.io answers: so much CPU for each pod.
func podMetrics(use map[string]int64) map[string]any {
	items := []any{}
	for name, milli := range use {
		items = append(items, map[string]any{
			"metadata": map[string]any{"name": name}, "timestamp": now.Format(time.RFC3339), "window": "30s",
			"containers": []any{map[string]any{"name": "main", "usage": map[string]any{"cpu": fmt.Sprint(milli, "m"), "memory": "50Mi"}}},
		})
	}
	return map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items}
}

// planned is the plan for what was observed, without the decision.
func planned(now time.Time, s snapshot) plan.Plan {
	_, p := planScale(now, s)
	return p
}

// reported is the report that follows from the decision on what was observed.
func reported(now time.Time, s snapshot, did plan.Outcome) plan.Plan {
	d, _ := planScale(now, s)
	return reportStatus(now, s, d, did)
}

// remembered is likewise what is remembered.
func remembered(now time.Time, s snapshot, did plan.Outcome) *memory {
	d, _ := planScale(now, s)
	return remember(now, s, d, did)
}

// countApplied counts what the controller did with what was observed.
func countApplied(c *collectors, ctx context.Context, s snapshot, did plan.Outcome) {
	d, _ := planScale(s.Began, s)
	c.applied(ctx, s, d, did, plan.Outcome{})
}
