package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/metricsapi"
)

// autoscaled is a namespace with autoscalers and what their metrics are.
type autoscaled struct {
	*bench
	metrics *metricsapi.Server
	load    atomic.Int64 // in thousandths
}

// setLoad says how much there is to do.
func (a *autoscaled) setLoad(s string) { q := resource.MustParse(s); a.load.Store(q.MilliValue()) }

// total is the load as a metric.
func (a *autoscaled) total(time.Time) (resource.Quantity, bool) {
	return *resource.NewMilliQuantity(a.load.Load(), resource.DecimalSI), true
}

// share is the part of the load that each running pod has.
func (a *autoscaled) share(time.Time) (resource.Quantity, bool) {
	pods, _ := a.metrics.Pods().Pods(a.ns).List(everything)
	running := int64(0)
	for _, p := range pods {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			running++
		}
	}
	return *resource.NewMilliQuantity(a.load.Load()/max(running, 1), resource.DecimalSI), true
}

// uses lets the containers of a name have their part of the load as CPU time, and the others none.
func (a *autoscaled) uses(container string) {
	a.metrics.Usage(a.ns, func(_ *corev1.Pod, name string, now time.Time) corev1.ResourceList {
		used := resource.Quantity{}
		if name == container {
			used, _ = a.share(now)
		}
		return corev1.ResourceList{corev1.ResourceCPU: used}
	})
}

// requests gives a Deployment's pods a container "web" and another "proxy", each with a request for CPU time.
func requests(d *appsv1.Deployment) {
	cpu := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1", Resources: cpu},
		{Name: "proxy", Image: "proxy:1", Resources: cpu}}
}

// autoscaler makes one for the Deployment "web".
func (a *autoscaled) autoscaler(least, most int32, edit func(*autoscalingv2.HorizontalPodAutoscalerSpec),
	metrics ...autoscalingv2.MetricSpec) {
	a.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	h.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		MinReplicas:    &least, MaxReplicas: most, Metrics: metrics,
	}
	if edit != nil {
		edit(&h.Spec)
	}
	all := a.Client.AutoscalingV2().HorizontalPodAutoscalers(a.ns)
	if _, err := all.Create(a.Context(), h, metav1.CreateOptions{}); err != nil {
		a.Fatal(err)
	}
}

func (a *autoscaled) status() autoscalingv2.HorizontalPodAutoscalerStatus {
	a.Helper()
	h, err := a.Client.AutoscalingV2().HorizontalPodAutoscalers(a.ns).Get(a.Context(), "web", metav1.GetOptions{})
	if err != nil {
		a.Fatal(err)
	}
	return h.Status
}

// waitReplicas waits until the Deployment has been told to have so many, and has them.
func (a *autoscaled) waitReplicas(want int32) {
	a.Helper()
	a.wait(fmt.Sprintf("the Deployment has %d replicas", want), func() error {
		d := a.get("web")
		if *d.Spec.Replicas != want || d.Status.ReadyReplicas != want {
			return fmt.Errorf("it wants %d and has %d: %s", *d.Spec.Replicas, d.Status.ReadyReplicas, shown(a.status()))
		}
		return nil
	})
}

// waitSays waits until a condition has a status, a reason and a message that begins so.
func (a *autoscaled) waitSays(condition, want string) {
	a.Helper()
	a.wait(fmt.Sprintf("%s is %s", condition, want), func() error {
		st := a.status()
		for _, c := range st.Conditions {
			if string(c.Type) == condition && strings.HasPrefix(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), want) {
				return nil
			}
		}
		return fmt.Errorf("%s", shown(st))
	})
}

// waitEvent waits for an event about the autoscaler.
func (a *autoscaled) waitEvent(want string) {
	a.Helper()
	a.wait("the event "+want, func() error {
		if found := events(a.Context(), a.T, a.Client, a.ns, "web"); !slices.Contains(found, want) {
			return fmt.Errorf("there are %q", found)
		}
		return nil
	})
}

func shown(s autoscalingv2.HorizontalPodAutoscalerStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "current %d, desired %d, metrics %q", s.CurrentReplicas, s.DesiredReplicas, values(s))
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, "; %s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

// values are those of the metrics in a status. One that could not be read has neither a type nor a value, because clients that
// know the type look for the value.
func values(s autoscalingv2.HorizontalPodAutoscalerStatus) (all []string) {
	for _, m := range s.CurrentMetrics {
		var now autoscalingv2.MetricValueStatus
		switch {
		case m.Resource != nil:
			now = m.Resource.Current
		case m.ContainerResource != nil:
			now = m.ContainerResource.Current
		case m.Pods != nil:
			now = m.Pods.Current
		case m.Object != nil:
			now = m.Object.Current
		case m.External != nil:
			now = m.External.Current
		default:
			all = append(all, string(m.Type)+"?")
			continue
		}
		all = append(all, valuesOf(now))
	}
	return all
}

func valuesOf(now autoscalingv2.MetricValueStatus) string {
	var parts []string
	if now.Value != nil {
		parts = append(parts, "value "+now.Value.String())
	}
	if now.AverageValue != nil {
		parts = append(parts, "average "+now.AverageValue.String())
	}
	if now.AverageUtilization != nil {
		parts = append(parts, fmt.Sprintf("%d%%", *now.AverageUtilization))
	}
	return strings.Join(parts, ", ")
}

func utilization(percent int32) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}
}

func average(s string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse(s))}
}

func total(s string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: new(resource.MustParse(s))}
}

func identified(name string, selector map[string]string) autoscalingv2.MetricIdentifier {
	id := autoscalingv2.MetricIdentifier{Name: name}
	if selector != nil {
		id.Selector = &metav1.LabelSelector{MatchLabels: selector}
	}
	return id
}

func ofResource(target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: target}}
}

func ofContainer(container string, target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType,
		ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceCPU, Container: container, Target: target}}
}

func ofPods(id autoscalingv2.MetricIdentifier, target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType,
		Pods: &autoscalingv2.PodsMetricSource{Metric: id, Target: target}}
}

func ofObject(apiVersion, kind, name string, id autoscalingv2.MetricIdentifier,
	target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	o := autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType,
		Object: &autoscalingv2.ObjectMetricSource{DescribedObject: o, Metric: id, Target: target}}
}

func ofExternal(id autoscalingv2.MetricIdentifier, target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{Metric: id, Target: target}}
}

// source is a metric by which a Deployment is scaled up from one to three replicas, and then down again.
type source struct {
	name   string
	metric autoscalingv2.MetricSpec
	script func(*autoscaled)
	named  string // as messages name it; the original names one in a way that it need not be (HPA-61)
	status string // of the metric, with three replicas
}

var everything = labels.Everything()

var get = metricsapi.Metric{Name: "requests", Labels: map[string]string{"verb": "GET"}}

func sources() []source {
	return []source{
		{"resource utilization", ofResource(utilization(25)), func(a *autoscaled) { a.uses("web") },
			"cpu resource utilization (percentage of request)", "average 100m, 25%"},
		{"resource average", ofResource(average("100m")), func(a *autoscaled) { a.uses("web") }, "cpu resource", "average 100m"},
		{"container utilization", ofContainer("proxy", utilization(50)), func(a *autoscaled) { a.uses("proxy") },
			"cpu container resource utilization (percentage of request)", "average 100m, 50%"},
		{"container average", ofContainer("proxy", average("100m")), func(a *autoscaled) { a.uses("proxy") }, "cpu resource",
			"average 100m"},
		{"pods", ofPods(identified("requests", get.Labels), average("100m")), func(a *autoscaled) {
			a.metrics.Object(a.ns, "pods", metricsapi.AllObjects, get, a.share)
			a.metrics.Object(a.ns, "pods", metricsapi.AllObjects,
				metricsapi.Metric{Name: "requests", Labels: map[string]string{"verb": "PUT"}}, metricsapi.Constant("1k"))
		}, "pods metric requests", "average 100m"},
		{"value of a Service", ofObject("v1", "Service", "web", identified("requests", get.Labels), total("100m")), func(a *autoscaled) {
			a.metrics.Object(a.ns, "services", "web", get, a.share)
		}, "Service metric requests", "value 100m"},
		{"average of a Deployment", ofObject("apps/v1", "Deployment", "web", identified("requests", nil), average("100m")),
			func(a *autoscaled) {
				a.metrics.Object(a.ns, "deployments.apps", "web", get, a.total)
			}, "", "average 100m"},
		{"value of the namespace", ofObject("v1", "Namespace", "whatever", identified("requests", nil), total("100m")),
			func(a *autoscaled) {
				a.metrics.Object("", "namespaces", a.ns, get, a.share)
			}, "Namespace metric requests", "value 100m"},
		{"external average", ofExternal(identified("requests", get.Labels), average("100m")), func(a *autoscaled) {
			a.metrics.External(a.ns, get, a.total)
			a.metrics.External(a.ns, metricsapi.Metric{Name: "requests", Labels: map[string]string{"verb": "GET", "zone": "b"}},
				metricsapi.Constant("0"))
			a.metrics.External(a.ns, metricsapi.Metric{Name: "requests"}, metricsapi.Constant("1k"))
		}, "external metric requests(&LabelSelector{MatchLabels:map[string]string{verb: GET,},MatchExpressions:[]LabelSelectorRequirement{},})", "average 100m"},
		{"external value", ofExternal(identified("requests", nil), total("100m")), func(a *autoscaled) {
			a.metrics.External(a.ns, get, a.share)
		}, "external metric requests(nil)", "value 100m"},
	}
}

// TestHorizontalPodAutoscalers has the server for metrics.
func TestHorizontalPodAutoscalers(t *testing.T) {
	c := share(t).Cluster
	withMetrics(t, c, metricsapi.Options{}, func(run func(string, func(*autoscaled))) {
		for _, s := range sources() {
			run(s.name, func(a *autoscaled) { a.followsLoad(s) })
		}
		for name, test := range map[string]func(*autoscaled){
			"limits": (*autoscaled).keepsLimits, "paused": (*autoscaled).canBePaused, "behavior": (*autoscaled).keepsRates,
			"window":          (*autoscaled).waitsForWindow,
			"failing metrics": (*autoscaled).needsMetrics, "errors": (*autoscaled).namesErrors, "missing target": (*autoscaled).needsTarget,
			"missing requests": (*autoscaled).needsRequests,
			"shared pods":      (*autoscaled).sharesNoPods, "unready": (*autoscaled).leavesOutUnready,
			"any kind": (*autoscaled).scalesAnyKind,
		} {
			run(name, test)
		}
	})
	// HPA-26c: of custom metrics, the version that the server has is used.
	withMetrics(t, c, metricsapi.Options{CustomVersions: []string{"v1beta1"}}, func(run func(string, func(*autoscaled))) {
		for _, s := range sources() {
			if s.metric.Pods != nil || s.name == "value of a Service" {
				run(s.name+" in v1beta1", func(a *autoscaled) { a.followsLoad(s) })
			}
		}
	})
}

// withMetrics runs tests in parallel with a server for metrics, which ends with them.
func withMetrics(t *testing.T, c *cluster.Cluster, o metricsapi.Options, do func(run func(name string, test func(*autoscaled)))) {
	metrics, err := metricsapi.Start(t.Context(), c.RESTConfig, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := metrics.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Run("metrics", func(t *testing.T) {
		do(func(name string, test func(*autoscaled)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(&autoscaled{bench: &bench{t, c, c.Namespace(t)}, metrics: metrics})
			})
		})
	})
}

// HPA-26 to HPA-41, HPA-50 to HPA-52, HPA-56, HPA-61: the number of replicas follows the load, and the status says by which metric.
func (a *autoscaled) followsLoad(s source) {
	a.setLoad("300m")
	s.script(a)
	a.create(deployment("web", 1, requests))
	a.waitComplete("web")
	a.autoscaler(1, 5, nil, s.metric)
	a.waitReplicas(3)
	a.waitSays("AbleToScale", "True ReadyForNewScale: recommended size matches current size")
	a.waitSays("ScalingActive", "True ValidMetricFound: the HPA was able to successfully calculate a replica count from "+s.named)
	a.waitSays("ScalingLimited", "False DesiredWithinRange: the desired count is within the acceptable range")
	if s.named != "" {
		a.waitEvent("SuccessfulRescale: New size: 3; reason: " + s.named + " above target")
	}
	a.wait("the status says "+s.status, func() error {
		st := a.status()
		if !slices.Equal(values(st), []string{s.status}) || st.CurrentReplicas != 3 || st.DesiredReplicas != 3 || st.LastScaleTime == nil {
			return fmt.Errorf("%s", shown(st))
		}
		return nil
	})
	a.setLoad("100m")
	a.waitReplicas(1)
	a.waitEvent("SuccessfulRescale: New size: 1; reason: All metrics below target")
}
