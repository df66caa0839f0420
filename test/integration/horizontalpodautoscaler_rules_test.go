package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/metricsapi"
)

// scaled makes the Deployment "web" with so many replicas and an autoscaler from one to five, by CPU time.
func (a *autoscaled) scaled(replicas int32, load string, edit func(*autoscalingv2.HorizontalPodAutoscalerSpec)) {
	a.Helper()
	a.setLoad(load)
	a.uses("web")
	a.create(deployment("web", replicas, requests))
	a.waitComplete("web")
	a.autoscaler(1, 5, edit, ofResource(average("100m")))
}

func (a *autoscaled) scale(n int) {
	a.Helper()
	a.Kubectl(a.T, "-n", a.ns, "scale", "deployment", "web", fmt.Sprint("--replicas=", n))
}

func (a *autoscaled) change(document string) {
	a.Helper()
	a.Kubectl(a.T, "-n", a.ns, "patch", "hpa", "web", "--type=merge", "-p", document)
}

// stays is for as long as several periods take.
func (a *autoscaled) stays(replicas int32) {
	a.Helper()
	cluster.Always(a.T, 1500*time.Millisecond, fmt.Sprintf("the Deployment wants %d replicas", replicas), func() error {
		if got := *a.get("web").Spec.Replicas; got != replicas {
			return fmt.Errorf("it wants %d: %s", got, shown(a.status()))
		}
		return nil
	})
}

// HPA-18, HPA-19, HPA-41: limits are kept even without metrics.
func (a *autoscaled) keepsLimits() {
	a.scaled(7, "1", nil)
	a.waitReplicas(5)
	a.waitEvent("SuccessfulRescale: New size: 5; reason: Current number of replicas above Spec.MaxReplicas")
	a.waitSays("ScalingLimited", "True TooManyReplicas: the desired replica count is more than the maximum replica count")
	a.metrics.Refuse(metricsapi.ResourceGroup, a.ns, http.StatusServiceUnavailable)
	a.waitSays("ScalingActive",
		"False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu usage: unable to get metrics "+
			"for resource cpu: "+
			"unable to fetch metrics from resource metrics API: ")
	a.change(`{"spec":{"minReplicas":2}}`)
	a.scale(1)
	a.waitReplicas(2)
	a.waitEvent("SuccessfulRescale: New size: 2; reason: Current number of replicas below Spec.MinReplicas")
	a.stays(2)
	a.metrics.Refuse(metricsapi.ResourceGroup, a.ns, 0)
	a.setLoad("10m")
	a.waitSays("ScalingLimited", "True TooFewReplicas: the desired replica count is less than the minimum replica count")
	a.stays(2)
}

// HPA-17: without replicas, nothing is scaled until there are some again.
func (a *autoscaled) canBePaused() {
	a.scaled(2, "300m", nil)
	a.waitReplicas(3)
	a.scale(0)
	a.waitSays("ScalingActive", "False ScalingDisabled: scaling is disabled since the replica count of the target is zero")
	asked := a.metrics.Requests(metricsapi.ResourceGroup, a.ns)
	a.stays(0)
	if now := a.metrics.Requests(metricsapi.ResourceGroup, a.ns); now > asked+1 {
		a.Errorf("metrics were read %d times for nothing", now-asked)
	}
	a.scale(1)
	a.waitReplicas(3)
	a.waitSays("ScalingActive", "True ValidMetricFound: ")
}

// HPA-42, HPA-45 to HPA-47: no more replicas come and go in a time than policies allow.
func (a *autoscaled) keepsRates() {
	a.scaled(1, "1", func(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		s.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp: &autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy,
				Value: 2, PeriodSeconds: 600}}},
			ScaleDown: &autoscalingv2.HPAScalingRules{SelectPolicy: new(autoscalingv2.DisabledPolicySelect),
				StabilizationWindowSeconds: new(int32(0))},
		}
	})
	a.waitReplicas(3)
	a.waitSays("ScalingLimited", "True ScaleUpLimit: the desired replica count is increasing faster than the maximum scale rate")
	a.stays(3)
	a.setLoad("100m")
	a.waitSays("ScalingLimited", "True ScaleDownLimit: the desired replica count is decreasing faster than the maximum scale rate")
	a.stays(3)
	a.change(`{"spec":{"behavior":{"scaleDown":{"selectPolicy":"Max"}}}}`)
	a.waitReplicas(1)
}

// HPA-11, HPA-40, HPA-43, HPA-44: replicas go when they were not needed for the whole window.
func (a *autoscaled) waitsForWindow() {
	a.scaled(3, "100m", func(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		s.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(600))}}
	})
	a.waitSays("AbleToScale",
		"True ScaleDownStabilized: recent recommendations were higher than current one, applying the highest recent recommendation")
	a.stays(3)
	a.change(`{"spec":{"behavior":null}}`)
	a.waitReplicas(1)
}

// HPA-22, HPA-23, HPA-26f: with metrics that fail, replicas may come but not go.
func (a *autoscaled) needsMetrics() {
	one, other := metricsapi.Metric{Name: "one"}, metricsapi.Metric{Name: "other"}
	a.create(deployment("web", 2))
	a.waitComplete("web")
	create := func() {
		a.autoscaler(1, 5, nil, ofExternal(identified("one", nil), average("1")), ofExternal(identified("other", nil), average("1")))
	}
	create()
	none := "unable to get external metric " + a.ns + "/one/nil: no metrics returned from external metrics API"
	a.waitSays("ScalingActive", "False FailedGetExternalMetric: the HPA was unable to compute the replica count: "+none)
	a.waitSays("AbleToScale", "True SucceededGetScale: the HPA controller was able to get the target's current scale")
	a.waitEvent("FailedGetExternalMetric: " + none)
	a.waitEvent("FailedComputeMetricsReplicas: invalid metrics (2 invalid out of 2), first error is: failed to get one external metric " +
		"value: failed to get one external metric: " + none)
	a.metrics.External(a.ns, one, metricsapi.Constant("1"))
	a.deleteAutoscaler() // one object may have 25 events at once (CI-44), and each evaluation makes some
	create()
	none = strings.Replace(none, "/one/", "/other/", 1)
	a.waitSays("ScalingActive", "False FailedGetExternalMetric: the HPA was unable to compute the replica count: "+none)
	a.waitEvent("FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 2), first error is: failed to get other external metric " +
		"value: failed to get other external metric: " + none)
	a.stays(2)
	if st := a.status(); !slices.Equal(values(st), []string{"average 500m", "?"}) {
		a.Errorf("%s", shown(st))
	}
	a.metrics.External(a.ns, one, metricsapi.Constant("4"))
	a.waitReplicas(4)
	a.waitSays("ScalingActive",
		"True ValidMetricFound: the HPA was able to successfully calculate a replica count from external metric one(nil)")
	a.metrics.External(a.ns, one, metricsapi.Constant("2"))
	a.metrics.External(a.ns, other, metricsapi.Constant("3"))
	a.waitReplicas(3)
}

// HPA-26f, HPA-58, HPA-59: events say which metric fails, and why.
func (a *autoscaled) namesErrors() {
	a.create(deployment("web", 1, requests))
	a.waitComplete("web")
	const selector = "&LabelSelector{MatchLabels:map[string]string{verb: GET,},MatchExpressions:[]LabelSelectorRequirement{},}"
	noResources := "unable to get metrics for resource cpu: no metrics returned from resource metrics API"
	for _, c := range []struct {
		metric                autoscalingv2.MetricSpec
		reason, prefix, error string
	}{
		{ofResource(utilization(50)), "FailedGetResourceMetric", "failed to get cpu resource metric value: ",
			"failed to get cpu utilization: " + noResources},
		{ofResource(average("1")), "FailedGetResourceMetric", "failed to get cpu resource metric value: ",
			"failed to get cpu usage: " + noResources},
		{ofContainer("web", utilization(50)), "FailedGetContainerResourceMetric", "failed to get web container metric value: ",
			"failed to get cpu utilization: " + noResources},
		{ofPods(identified("requests", nil), average("1")), "FailedGetPodsMetric", "failed to get pods metric value: ",
			"unable to get metric requests: no metrics returned from custom metrics API"},
		{ofObject("v1", "Service", "web", identified("requests", nil), total("1")), "FailedGetObjectMetric",
			"failed to get object metric value: ",
			"unable to get metric requests on Service " + a.ns +
				"/web: unable to fetch metrics from custom metrics API: the metric requests of services web is not known"},
		{ofObject("v1", "Gadget", "web", identified("requests", nil), average("1")), "FailedGetObjectMetric",
			"failed to get object metric value: failed to get requests object metric: ",
			"unable to get metric requests on Gadget " + a.ns +
				`/web: unable to fetch metrics from custom metrics API: unable to map kind Gadget to resource: no matches for kind "Gadget" in group ""`},
		{ofExternal(identified("requests", get.Labels), total("1")), "FailedGetExternalMetric",
			"failed to get requests external metric value: failed to get external metric requests: ",
			"unable to get external metric " + a.ns + "/requests/" + selector + ": no metrics returned from external metrics API"},
	} {
		a.autoscaler(1, 5, nil, c.metric)
		a.waitEvent(c.reason + ": " + c.error)
		a.waitEvent("FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: " + c.prefix + c.error)
		a.waitSays("ScalingActive", "False "+c.reason+": the HPA was unable to compute the replica count: "+c.error)
		a.deleteAutoscaler()
	}
}

// HPA-12, HPA-13: the status says why there is nothing to scale.
func (a *autoscaled) needsTarget() {
	for _, c := range []struct{ target, error string }{
		{"", `deployments.apps "web" not found`},
		{`{"apiVersion":"example.com/v1","kind":"Gadget"}`, `no matches for kind "Gadget" in group "example.com"`},
		{`{"apiVersion":"batch/v1","kind":"Job"}`, "the server could not find the requested resource"},
	} {
		a.autoscaler(1, 5, nil, ofResource(average("100m")))
		if c.target != "" {
			a.change(`{"spec":{"scaleTargetRef":` + c.target + `}}`)
		}
		a.waitSays("AbleToScale", "False FailedGetScale: the HPA controller was unable to get the target's current scale: "+c.error)
		a.waitEvent("FailedGetScale: " + c.error)
		a.deleteAutoscaler() // one object may have 25 events at once (CI-44)
	}
}

func (a *autoscaled) deleteAutoscaler() { a.Kubectl(a.T, "-n", a.ns, "delete", "hpa", "web") }

// HPA-31: without requests there is no utilization.
func (a *autoscaled) needsRequests() {
	a.setLoad("300m")
	a.uses("web")
	a.create(deployment("web", 1))
	a.waitComplete("web")
	a.autoscaler(1, 5, nil, ofResource(utilization(50)))
	a.waitSays("ScalingActive",
		"False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: "+
			"missing request for cpu in container web of Pod "+a.pods()[0].Name)
}

// HPA-16: two autoscalers with the same pods do nothing.
func (a *autoscaled) sharesNoPods() {
	a.scaled(1, "200m", nil)
	a.waitReplicas(2)
	a.Kubectl(a.T, "-n", a.ns, "autoscale", "deployment", "web", "--name=other", "--max=4", "--cpu=50%")
	a.waitSays("ScalingActive", "False AmbiguousSelector: pods by selector app=web are controlled by more than one HPA (e.g. [")
	a.setLoad("400m")
	a.stays(2)
	a.wait("an event of the other one names both", func() error {
		all := events(a.Context(), a.T, a.Client, a.ns, "other")
		for _, e := range all {
			if strings.HasPrefix(e, "AmbiguousSelector: pods by selector app=web are controlled by more than one HPA (e.g. [") &&
				strings.Contains(e, a.ns+"/web") && strings.Contains(e, a.ns+"/other") {
				return nil
			}
		}
		return fmt.Errorf("there are %q", all)
	})
	a.Kubectl(a.T, "-n", a.ns, "delete", "hpa", "other")
	a.waitReplicas(4)
}

// HPA-28 to HPA-35: the metrics of pods that are not ready do not count, and these count as pods that use nothing.
func (a *autoscaled) leavesOutUnready() {
	a.setLoad("0")
	a.uses("web")
	a.create(deployment("web", 2, requests, annotated(cluster.NeverReady, "true")))
	a.wait("the pods run", func() error {
		if pods, err := a.metrics.Pods().Pods(a.ns).List(everything); err != nil || len(pods) != 2 || pods[0].Status.Phase != "Running" ||
			pods[1].Status.Phase != "Running" {
			return fmt.Errorf("there are %d, %v", len(pods), err)
		}
		return nil
	})
	a.autoscaler(1, 8, nil, ofResource(average("100m")))
	a.waitSays("ScalingActive", "False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu usage: "+
		"did not receive metrics for targeted pods (pods might be unready)")
	a.Kubectl(a.T, "-n", a.ns, "annotate", "pod", a.pods()[0].Name, cluster.NeverReady+"-")
	a.setLoad("600m") // 300m in each of the pods, of which one counts: 300m for two pods
	a.waitSays("ScalingActive", "True ValidMetricFound: ")
	a.wait("there are more pods, and all but one are not ready", func() error {
		d := a.get("web")
		if *d.Spec.Replicas != 3 && *d.Spec.Replicas != 2 {
			a.Errorf("%d are wanted: %s", *d.Spec.Replicas, shown(a.status()))
		}
		if *d.Spec.Replicas != 3 {
			return fmt.Errorf("%d are wanted: %s", *d.Spec.Replicas, shown(a.status()))
		}
		return nil
	})
	a.stays(3)
}

const gizmos = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.autoscaling.example.com}
spec:
  group: autoscaling.example.com
  scope: Namespaced
  names: {plural: gizmos, kind: Gizmo}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

var gizmo = autoscalingv2.CrossVersionObjectReference{APIVersion: "autoscaling.example.com/v1", Kind: "Gizmo", Name: "web"}

// gizmo makes the Gizmo "web" of one pod, whose scale has no selector.
func (a *autoscaled) gizmo() {
	a.Helper()
	a.Apply(a.T, a.ns,
		"apiVersion: autoscaling.example.com/v1\nkind: Gizmo\nmetadata: {name: web}\nspec: {replicas: 1}\nstatus: {replicas: 1}\n")
	a.loose("web-0", "web", metav1.OwnerReference{})
}

// HPA-12, HPA-15: whatever has a scale is scaled, if that has a selector.
func (a *autoscaled) scalesAnyKind() {
	a.gizmo()
	a.metrics.External(a.ns, metricsapi.Metric{Name: "queue"}, metricsapi.Constant("3"))
	a.autoscaler(1, 5, func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.ScaleTargetRef = gizmo },
		ofExternal(identified("queue", nil), average("1")))
	a.waitSays("ScalingActive", "False InvalidSelector: the HPA target's scale is missing a selector")
	a.waitEvent("SelectorRequired: selector is required")
	a.waitEvent("FailedComputeMetricsReplicas: selector is required")
	a.Kubectl(a.T, "-n", a.ns, "patch", "gizmo", "web", "--type=merge", "-p", `{"status":{"selector":"app=web"}}`)
	a.wait("the Gizmo is to have 3 replicas", func() error {
		if got := a.Kubectl(a.T, "-n", a.ns, "get", "gizmo", "web", "--output=jsonpath={.spec.replicas}"); got != "3" {
			return fmt.Errorf("it is to have %s: %s", got, shown(a.status()))
		}
		return nil
	})
}
