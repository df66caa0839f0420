package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	podMetricsPath = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
	customPath     = "/apis/custom.metrics.k8s.io"
	externalPath   = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/"
)

func deployment(name string, replicas int32) *appsv1.Deployment {
	d := plantest.Deployment(name, replicas)
	d.ResourceVersion, d.Status.Replicas = "7", replicas
	return d
}

func called(name, target string) autoscalerEdit {
	return func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Name, h.Spec.ScaleTargetRef.Name = name, target }
}

func targeting(apiVersion, kind, name string) autoscalerEdit {
	return func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}
	}
}

// A row is a sentence: the scale of such a target is found, or not.
func TestTargets(t *testing.T) { // HPA-12
	set := plantest.ReplicaSet("web-a", 2, plantest.Template("web", "v1"))
	stateful := &appsv1.StatefulSet{ObjectMeta: *set.ObjectMeta.DeepCopy(), Spec: appsv1.StatefulSetSpec{Selector: set.Spec.Selector}}
	rc := &corev1.ReplicationController{ObjectMeta: *set.ObjectMeta.DeepCopy(),
		Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(5)), Selector: map[string]string{"app": "web"}}}
	widget := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{UID: "uid-w", ResourceVersion: "3"},
		Spec:   autoscalingv1.ScaleSpec{Replicas: 6},
		Status: autoscalingv1.ScaleStatus{Replicas: 5, Selector: "app in (web),x!=y"}}
	for _, c := range []struct {
		name  string
		ref   autoscalerEdit
		want  string // kind, replicas, observed, selector; or the error
		asked string
	}{
		{"a Deployment from the cache", targeting("apps/v1", "Deployment", "web"), "Deployment 3 3 app=web", ""},
		{"whatever the version", targeting("apps/v1beta1", "Deployment", "web"), "Deployment 3 3 app=web", ""},
		{"a ReplicaSet", targeting("apps/v1", "ReplicaSet", "web-a"), "ReplicaSet 2 0 app=web,pod-template-hash=a", ""},
		{"a StatefulSet of one replica, as none are given", targeting("apps/v1", "StatefulSet", "web-a"),
			"StatefulSet 1 0 app=web,pod-template-hash=a", ""},
		{"a ReplicationController", targeting("v1", "ReplicationController", "web-a"), "ReplicationController 5 0 app=web", ""},
		{"a custom resource, live", targeting("example.com/v1", "Widget", "w"), "Widget 6 5 app in (web),x!=y", "scale of widgets shop/w"},
		{"HPA-13 a custom resource with a selector that cannot be read", targeting("example.com/v1", "Widget", "broken"),
			`received an object from a /scale endpoint which was not convertible to autoscaling Scale: ` +
				`failed to parse target selector: couldn't parse the selector string "a b": unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt`, "scale of widgets shop/broken\nscale of widgets shop/broken"},
		{"HPA-13 one with a selector that compares numbers", targeting("example.com/v1", "Widget", "large"),
			`received an object from a /scale endpoint which was not convertible to autoscaling Scale: ` +
				`failed to parse target selector: "gt" is not a valid label selector operator`,
			"scale of widgets shop/large\nscale of widgets shop/large"},
		{"HPA-13 a Deployment that is not there", targeting("apps/v1", "Deployment", "x"), `deployments.apps "x" not found`,
			"scale of deployments shop/x"},
		{"HPA-12 all versions are tried, and the first error counts", targeting("example.com/v1", "Widget", "x"),
			`widgets.example.com "x" not found`, "scale of widgets shop/x\nscale of widgets shop/x"},
		{"an unknown kind", targeting("example.com/v1", "Moon", "x"), `no matches for kind "Moon" in group "example.com"`, ""},
		{"what has no namespace is left alone", targeting("example.com/v1", "Gadget", "x"),
			"an autoscaler cannot scale what has no namespace", ""},
		{"HPA-13 a version that is none", targeting("a/b/c", "Deployment", "web"),
			"invalid API version in scale target reference: unexpected GroupVersion string: a/b/c", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, web(c.ref), deployment("web", 3), set, stateful, rc)
			b.scales["widgets/w"] = widget
			b.scales["widgets/broken"] = &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: "a b"}}
			b.scales["widgets/large"] = &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: "size>3"}}
			b.raw[podMetricsPath] = podMetrics(nil)
			s := b.observed(t, now, webKey, nil)
			got := s.TargetErr
			if s.Target != nil {
				got = fmt.Sprintf("%s %d %d %s", s.Target.Kind.Kind, s.Target.Replicas, s.Target.Observed, s.Target.Labels)
			}
			asked := strings.Join(slices.DeleteFunc(b.asked, func(q string) bool { return strings.HasPrefix(q, "/apis") }), "\n")
			if got != c.want || asked != c.asked {
				t.Errorf("%s, want %s; asked for %q", got, c.want, asked)
			}
			if s.Unparsable != strings.HasPrefix(c.want, "invalid API version") {
				t.Error("what is wrong is not the reference")
			}
		})
	}
}

// HPA-12: a custom resource that is not served any more in the version that is known is found in another one. The mapper looks anew at most
// once in 30 s.
func TestStaleKinds(t *testing.T) {
	b := newBench(t, web(targeting("example.com/v1", "Widget", "w")), pod(0))
	m := &staleMapper{err: errors.New("no")}
	b.mapper, b.gone = m, []string{"v1alpha1"}
	b.raw[podMetricsPath] = podMetrics(nil)
	b.scales["widgets/w"] = &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 6},
		Status: autoscalingv1.ScaleStatus{Selector: "app=web"}}
	for i, c := range []struct {
		after     time.Duration
		err       error
		found     string // the version
		refreshed int
	}{
		{0, errors.New("no"), "", 1},
		{15 * time.Second, nil, "", 1},
		{31 * time.Second, nil, "v2", 2},
		{46 * time.Second, nil, "v2", 2},
	} {
		m.err = c.err
		s := b.observed(t, now.Add(c.after), webKey, nil)
		found := ""
		if s.Target != nil {
			found = s.Target.Kind.Version
		}
		if found != c.found || m.refreshed != c.refreshed ||
			found == "" && s.TargetErr != "the server could not find the requested resource" {
			t.Errorf("%d: found %q, looked %d times: %s", i, found, m.refreshed, s.TargetErr)
		}
	}
	b.scales, m.refreshed = nil, 1 // what is not there is no reason to look
	if s := b.observed(t, now.Add(time.Hour), webKey, nil); m.refreshed != 1 || s.TargetErr != `widgets.example.com "w" not found` {
		t.Error(m.refreshed, s.TargetErr)
	}
}

// A row is a sentence: a metric is asked for like this, and this is read.
func TestReadings(t *testing.T) {
	group := func(versions ...string) map[string]any {
		g := map[string]any{"kind": "APIGroup", "name": "custom.metrics.k8s.io",
			"preferredVersion": map[string]any{"groupVersion": versions[0]}}
		var all []any
		for _, v := range versions {
			all = append(all, map[string]any{"groupVersion": v})
		}
		g["versions"] = all
		return g
	}
	value := func(name, v string) map[string]any {
		return map[string]any{"describedObject": map[string]any{"name": name}, "timestamp": now.Format(time.RFC3339), "value": v}
	}
	list := func(items ...any) map[string]any { return map[string]any{"items": items} }
	metered := ofPods("hits", "1")
	metered.Pods.Metric.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"verb": "GET"}}
	v2, v1 := customPath+"/v1beta2", customPath+"/v1beta1"
	for _, c := range []struct {
		name    string
		metric  autoscalingv2.MetricSpec
		answers map[string]any
		asked   string // the last question
		want    string
	}{
		{"HPA-26a the CPU of pods", used(corev1.ResourceCPU, "1"),
			map[string]any{podMetricsPath: podMetrics(map[string]int64{"web-0": 70, "web-1": 80, "other": 9})},
			podMetricsPath + "?labelSelector=app=web", "web-0=70/30s web-1=80/30s"},
		{"HPA-26a the memory", used(corev1.ResourceMemory, "1"), map[string]any{podMetricsPath: podMetrics(map[string]int64{"web-0": 70})},
			podMetricsPath + "?labelSelector=app=web", "web-0=52428800000/30s"},
		{"HPA-26a a resource that is not measured", used("moonlight", "1"),
			map[string]any{podMetricsPath: podMetrics(map[string]int64{"web-0": 70})}, podMetricsPath + "?labelSelector=app=web", ""},
		{"HPA-26a a pod without containers", used(corev1.ResourceCPU, "1"),
			map[string]any{podMetricsPath: list(map[string]any{"metadata": map[string]any{"name": "web-0"}})},
			podMetricsPath + "?labelSelector=app=web", ""},
		{"HPA-26b one container", usedByContainer("main", 50), map[string]any{podMetricsPath: podMetrics(map[string]int64{"web-0": 70})},
			podMetricsPath + "?labelSelector=app=web", "web-0=70/30s"},
		{"HPA-26b another container", usedByContainer("other", 50),
			map[string]any{podMetricsPath: podMetrics(map[string]int64{"web-0": 70})}, podMetricsPath + "?labelSelector=app=web", ""},
		{"HPA-26f no pod", used(corev1.ResourceCPU, "1"), map[string]any{podMetricsPath: podMetrics(nil)},
			podMetricsPath + "?labelSelector=app=web", "no metrics returned from resource metrics API"},
		{"HPA-26f no API", used(corev1.ResourceCPU, "1"), nil, podMetricsPath + "?labelSelector=app=web",
			"unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"},
		{"HPA-26f an answer that is none", used(corev1.ResourceCPU, "1"), map[string]any{podMetricsPath: "moon"},
			podMetricsPath + "?labelSelector=app=web",
			"unable to fetch metrics from resource metrics API: the answer cannot be read: invalid character 'm' looking for beginning of " +
				"value"},
		{"HPA-26c a metric of pods, in the version that the server prefers", metered,
			map[string]any{customPath: group("custom.metrics.k8s.io/v1beta2", "custom.metrics.k8s.io/v1beta1"),
				v2 + "/namespaces/shop/pods/*/hits": list(value("web-0", "5"), value("other", "7"))},
			v2 + "/namespaces/shop/pods/*/hits?labelSelector=app=web&metricLabelSelector=verb=GET", "web-0=5000/1m0s"},
		{"HPA-26c or in one that is known", metered,
			map[string]any{customPath: group("custom.metrics.k8s.io/v3", "custom.metrics.k8s.io/v1beta1"),
				v1 + "/namespaces/shop/pods/*/hits": list(value("web-0", "5"))},
			v1 + "/namespaces/shop/pods/*/hits?labelSelector=app=web&metricLabelSelector=verb=GET", "web-0=5000/1m0s"},
		{"HPA-26c or not at all", metered, map[string]any{customPath: group("custom.metrics.k8s.io/v3")}, customPath,
			"unable to fetch metrics from custom metrics API: no known available metric versions found"},
		{"HPA-26c no API", metered, nil, customPath,
			"unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"},
		{"HPA-26d an object", ofObject("Service", "web", valued("1")), map[string]any{customPath: group("custom.metrics.k8s.io/v1beta1"),
			v1 + "/namespaces/shop/services/web/requests": list(value("web", "1500m"))}, v1 + "/namespaces/shop/services/web/requests",
			"1500"},
		{"HPA-26d the namespace itself", ofObject("Namespace", "elsewhere", valued("1")),
			map[string]any{customPath: group("custom.metrics.k8s.io/v1beta1"),
				v1 + "/namespaces/shop/metrics/requests": list(value("shop", "2"))}, v1 + "/namespaces/shop/metrics/requests", "2000"},
		{"HPA-26d two answers", ofObject("Service", "web", valued("1")), map[string]any{customPath: group("custom.metrics.k8s.io/v1beta1"),
			v1 + "/namespaces/shop/services/web/requests": list(value("a", "1"), value("b", "1"))},
			v1 + "/namespaces/shop/services/web/requests",
			"unable to fetch metrics from custom metrics API: the custom metrics API server returned 2 results when we asked for exactly " +
				"one"},
		{"HPA-26d an unknown kind", ofObject("Moon", "web", valued("1")),
			map[string]any{customPath: group("custom.metrics.k8s.io/v1beta1")}, customPath,
			`unable to fetch metrics from custom metrics API: unable to map kind Moon to resource: no matches for kind "Moon" in group ""`},
		{"a name that leads elsewhere is not asked for", ofObject("Service", "..", valued("1")),
			map[string]any{customPath: group("custom.metrics.k8s.io/v1beta1")}, customPath,
			`unable to fetch metrics from custom metrics API: ".." in /apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/services/../requests is no name: may not be '..'`},
		{"HPA-26e the sum of an external metric", external("queue", valued("1"), map[string]string{"of": "web"}),
			map[string]any{externalPath + "queue": list(value("", "1"), value("", "2500m"))},
			externalPath + "queue?labelSelector=of=web", "3500"},
		{"HPA-26e HPA-38 which has a limit", external("queue", valued("1"), nil),
			map[string]any{externalPath + "queue": list(value("", "9223372036854775"), value("", "9223372036854775"))},
			externalPath + "queue", fmt.Sprint(math.MaxInt64)},
		{"HPA-38 and so has each value", external("queue", valued("1"), nil),
			map[string]any{externalPath + "queue": list(value("", "10P"), value("", "-1"))},
			externalPath + "queue", fmt.Sprint(math.MaxInt64 - 1000)},
		{"HPA-38 of either sign", external("queue", valued("1"), nil), map[string]any{externalPath + "queue": list(value("", "-20E"))},
			externalPath + "queue", fmt.Sprint(math.MinInt64)},
		{"HPA-26f nothing of it", external("queue", valued("1"), nil), map[string]any{externalPath + "queue": list()},
			externalPath + "queue", "no metrics returned from external metrics API"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, web(measuring(c.metric)), deployment("web", 2), pod(0), pod(1))
			b.raw = c.answers
			r := b.observed(t, now, webKey, nil).Readings[0]
			if got := shown(r, c.metric.Type); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := b.asked[len(b.asked)-1]; got != c.asked {
				t.Errorf("asked for %s, want %s", got, c.asked)
			}
		})
	}
}

// The metric of an object that is called "*" is asked for like that of all pods. Each gets what it needs of the answer.
func TestOneQuestionOfTwoKinds(t *testing.T) {
	path := customPath + "/v1beta1/namespaces/shop/pods/*/hits"
	all := ofObject("Pod", "*", valued("1"))
	all.Object.Metric.Name = "hits"
	b := newBench(t, web(measuring(ofPods("hits", "1"), all)), web(called("other", "x"), measuring(ofPods("hits", "1"))),
		deployment("web", 2), pod(0))
	b.raw = map[string]any{
		customPath: map[string]any{"preferredVersion": map[string]any{"groupVersion": "custom.metrics.k8s.io/v1beta1"}},
		path:       map[string]any{"items": []any{map[string]any{"describedObject": map[string]any{"name": "web-0"}, "value": "5"}}},
	}
	found := b.observed(t, now, webKey, nil).Readings
	if found[0].Pods["web-0"].Value != 5000 || found[1].Sum != 5000 || found[0].Err+found[1].Err != "" {
		t.Errorf("%+v", found)
	}
}

func shown(r reading, of autoscalingv2.MetricSourceType) string {
	if r.Err != "" {
		return r.Err
	}
	if of == autoscalingv2.ObjectMetricSourceType || of == autoscalingv2.ExternalMetricSourceType {
		return fmt.Sprint(r.Sum)
	}
	var all []string
	for name, s := range r.Pods {
		all = append(all, fmt.Sprintf("%s=%d/%v", name, s.Value, s.Window))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// HPA-16: who else selects the pods is found, for cached targets and for others.
func TestAmbiguousSelectors(t *testing.T) {
	b := newBench(t, web(), deployment("web", 1), pod(0), web(called("api", "api")), deployment("api", 1))
	b.raw[podMetricsPath] = podMetrics(map[string]int64{"web-0": 50})
	if s := b.observed(t, now, webKey, nil); s.Ambiguous != nil {
		t.Error(s.Ambiguous)
	}
	b.put(t, web(called("second", "web")), web(called("custom", "w"), targeting("example.com/v1", "Widget", "w")))
	b.scales["widgets/w"] = &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 1},
		Status: autoscalingv1.ScaleStatus{Selector: "app!=api"}}
	later := now.Add(15 * time.Second)
	if s := b.observed(t, later, webKey, nil); strings.Join(s.Ambiguous, " ") != "shop/second shop/web" {
		t.Error(s.Ambiguous)
	}
	b.observed(t, later, plan.Key{Namespace: "shop", Name: "custom"}, nil)
	later = later.Add(15 * time.Second)
	for name, want := range map[string]string{"web": "shop/custom shop/web", "second": "shop/custom shop/second",
		"custom": "shop/custom shop/second"} {
		if s := b.observed(t, later, plan.Key{Namespace: "shop", Name: name}, nil); strings.Join(s.Ambiguous, " ") != want {
			t.Error(name, s.Ambiguous)
		}
	}
	b.namespaces.forget(web(called("custom", "w"))) // HPA-10
	if s := b.observed(t, later, webKey, nil); strings.Join(s.Ambiguous, " ") != "shop/second shop/web" {
		t.Error(s.Ambiguous)
	}
}

// How long it takes to find out what autoscalers have to do with one another is up to tenants: neither other namespaces nor the handlers
// of events wait for it, and a selector is parsed once.
func TestNamespacesDoNotWaitForOneAnother(t *testing.T) {
	b := newBench(t, web(), deployment("web", 1), pod(0))
	b.namespaces.in("other").looking.Lock()
	first := b.namespaces.view(now, "shop")
	b.namespaces.changed("other")
	other := web()
	other.Namespace = "other"
	b.namespaces.forget(other)

	second := b.namespaces.view(now.Add(15*time.Second), "shop")
	if first == second || len(second.parsed) != 1 {
		t.Fatalf("%v, then %v", first, second)
	}
	for of, selector := range second.parsed {
		before, _ := first.parsed[of].Requirements()
		if after, _ := selector.Requirements(); &before[0] != &after[0] {
			t.Errorf("%s is parsed again", selector)
		}
	}
	if len(b.namespaces.each) != 1 {
		t.Errorf("%d namespaces are kept", len(b.namespaces.each))
	}
}

// HPA-16: of two autoscalers of targets that are read live, the second one sees the first one in the same period, also after a change of
// its selector.
func TestAmbiguousSelectorsOfLiveTargets(t *testing.T) {
	widget := func(name string) autoscalerEdit { return targeting("example.com/v1", "Widget", name) }
	b := newBench(t, web(called("a", "a"), widget("a")), web(called("b", "b"), widget("b")), pod(0))
	b.raw[podMetricsPath] = podMetrics(nil)
	selecting := func(selector string) *autoscalingv1.Scale {
		return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 1}, Status: autoscalingv1.ScaleStatus{Selector: selector}}
	}
	b.scales["widgets/a"], b.scales["widgets/b"] = selecting("app=web"), selecting("app=web")
	for i, c := range []struct{ a, selector, ofB string }{
		{"", "app=web", "shop/a shop/b"},          // at first sight, a does not know b
		{"shop/a shop/b", "app=other", ""},        // b does not select the pod any more
		{"", "app", "shop/a shop/b"},              // now it does again
		{"shop/a shop/b", "app", "shop/a shop/b"}, // nothing changes
	} {
		at := now.Add(time.Duration(i) * 15 * time.Second)
		if s := b.observed(t, at, plan.Key{Namespace: "shop", Name: "a"}, nil); strings.Join(s.Ambiguous, " ") != c.a {
			t.Error(i, s.Ambiguous)
		}
		b.scales["widgets/b"] = selecting(c.selector)
		if s := b.observed(t, at, plan.Key{Namespace: "shop", Name: "b"}, nil); strings.Join(s.Ambiguous, " ") != c.ofB {
			t.Error(i, s.Ambiguous)
		}
	}
}

// HPA-16: what a new autoscaler, or one that has got another target, has to do with others is seen in the same period.
func TestAmbiguousSelectorsWithinAPeriod(t *testing.T) {
	b := newBench(t, web(), deployment("web", 1), pod(0), deployment("api", 1))
	b.raw[podMetricsPath] = podMetrics(map[string]int64{"web-0": 50})
	enqueues := b.watches(newCollectors())[0].Enqueues
	steps := []struct {
		before, after plan.Object
		want          string
	}{
		{nil, web(), ""},
		{nil, web(called("second", "web")), "shop/second shop/web"},
		{web(called("second", "web")), web(called("second", "api")), ""},
	}
	for i, c := range steps {
		b.put(t, c.after)
		enqueues(c.before, c.after)
		if s := b.observed(t, now, webKey, nil); strings.Join(s.Ambiguous, " ") != c.want {
			t.Errorf("%d: %v, want %q", i, s.Ambiguous, c.want)
		}
	}
}

// A pod that is found twice, because it was relabelled meanwhile, counts once.
func TestAPodThatIsFoundTwice(t *testing.T) {
	s := at(4, 100)
	want := decide(now, s).Desired
	later := s.Pods[1].DeepCopy()
	later.ResourceVersion = "99"
	s.Pods = distinct(append(slices.Clone(s.Pods), later))
	if got := decide(now, s).Desired; got != want || len(s.Pods) != 4 {
		t.Errorf("%d replicas of %d pods, want %d", got, len(s.Pods), want)
	}
}

// HPA-10: what is remembered is forgotten with the autoscaler.
func TestAnotherOfTheName(t *testing.T) {
	b := newBench(t, web(), deployment("web", 4))
	b.raw[podMetricsPath] = podMetrics(nil)
	if s := b.observed(t, now, webKey, &memory{}); !s.Known {
		t.Error("it is not known")
	}
	o, err := newBench(t).observe(t.Context(), request{Key: webKey, Now: now})
	if err != nil || o.Exists {
		t.Error(o, err)
	}
}

// HPA-2, HPA-8: the autoscalers of a namespace are evaluated at the same times, a period apart, and those of others at other times.
func TestRhythm(t *testing.T) {
	r := schedule{15 * time.Second}
	phases := map[int64]bool{}
	for _, namespace := range []string{"shop", "bank", "a", "b", "c"} {
		phases[r.phase(namespace)] = true
		wait := r.wait(now, namespace)
		if wait <= r.early() || wait > r.Period+r.early() {
			t.Error(wait)
		}
		next := now.Add(wait)
		if r.slot(next, namespace) != r.slot(now, namespace)+1 || r.wait(next, namespace) != r.Period {
			t.Errorf("%s: %v", namespace, wait)
		}
		for before, want := range map[time.Duration]time.Duration{ // the clock has been set back
			r.early(): r.Period + r.early(), 3 * time.Millisecond: r.Period + 3*time.Millisecond, r.early() + 1: r.early() + 1,
		} {
			woken := next.Add(-before)
			if of := r.slot(woken, namespace); r.wait(woken, namespace) != want || (of == r.slot(next, namespace)) != (want > r.Period) {
				t.Errorf("%s: %v before the next period it waits for %v", namespace, before, r.wait(woken, namespace))
			}
		}
	}
	if len(phases) != 5 {
		t.Error(phases)
	}
}

// HPA-8: an autoscaler that is new, or whose spec has changed, is evaluated at once, whatever its generation says; all else waits.
func TestAtOnce(t *testing.T) {
	changed := func(edits ...func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
		return web(edits...)
	}
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          bool
	}{
		{"HPA-8 a new one", nil, web(), true},
		{"HPA-8 its spec has changed", web(), changed(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas++ }), true},
		{"HPA-8 its status has changed", web(), changed(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Status.CurrentReplicas++ }),
			false},
		{"HPA-8 its labels have changed", web(),
			changed(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Labels = map[string]string{"a": "b"} }), false},
		{"HPA-8 another one of its name", web(), changed(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.UID = "other" }), true},
		{"HPA-8 it is gone", web(), nil, false},
	} {
		watches := newBench(t).watches(newCollectors())
		if keys := watches[0].Enqueues(c.before, c.after); (len(keys) > 0) != c.want || watches[0].Delay != nil {
			t.Errorf("%s: %v", c.name, keys)
		}
		if keys := watches[1].Enqueues(c.before, c.after); len(keys) != 1 || watches[1].Delay(keys[0]) <= 0 {
			t.Errorf("%s, later: %v", c.name, keys)
		}
	}
}
