package suite

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func autoscalerEntry() Entry {
	return Entry{
		Controller: "horizontal-pod-autoscaler-controller",
		Needs:      []string{"deployment-controller"},
		Operations: map[string]Operation{
			// NAME min= max= window= external=true: of the Deployment NAME, by its load; again: changes it; delete=true
			"autoscale": autoscale,
			"load":      setLoad, // NAME milli=: what its pods use of the CPU, together
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "create auto-%s replicas=%d image=good:1", app, g.IntN(5))
			g.Add(at, "load auto-%s milli=%d", app, 100*g.IntN(10))
			g.Add(at, "autoscale auto-%s min=%d max=%d window=%d external=%v", app, 1+g.IntN(3), 3+g.IntN(6), 15*g.IntN(3), g.IntN(3) == 0)
			switch g.IntN(4) {
			case 0:
				g.Add(at+40*time.Second, "edit auto-%s replicas=%d", app, g.IntN(4)*3)
			case 1:
				g.Add(soon, "autoscale auto-%s delete=true", app)
			default:
				g.Add(at+time.Duration(20+g.IntN(60))*time.Second, "load auto-%s milli=%d", app, 100*g.IntN(10))
			}
		}}},
		Settled:   settledAutoscalers,
		Scenarios: autoscalerScenarios,
		Malformed: map[string]string{
			"horizontalpodautoscalers/empty": `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":${META}}`,
			"horizontalpodautoscalers/absurd": `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":${META},
				"spec":{"minReplicas":-5,"maxReplicas":-9,"scaleTargetRef":{"apiVersion":"a/b/c","kind":"","name":"../x"},
					"metrics":[{"type":""},{"type":"Resource"},{"type":"Object","object":{"metric":{"name":"../../pods"},"target":{"type":"Value","value":"0"},"describedObject":{"kind":"Namespace","name":"x"}}},
						{"type":"External","external":{"metric":{"name":"","selector":{"matchExpressions":[{"key":"","operator":"Perhaps"}]}},"target":{"type":"AverageValue","averageValue":"-1"}}}],
					"behavior":{"scaleUp":{"selectPolicy":"Perhaps","stabilizationWindowSeconds":-1,"policies":[{"type":"Pods","value":-2147483648,"periodSeconds":-1}]},"scaleDown":{"policies":[]}}},
				"status":{"currentReplicas":-1,"desiredReplicas":-1,"conditions":[{"type":"AbleToScale"},{"type":"AbleToScale","status":"Perhaps"}],"currentMetrics":[{"type":""}]}}`,
		},
		Mutants: autoscalerMutants,
		Budgets: []Budget{{
			Name: "50 autoscalers of Deployments that are switched off", Floor: floor.Writes{Status: 50},
			Prepare: func(u *User) {
				u.createDeployments(50, 0)
				AwaitAll(u, 50, Complete)
			},
			Do: func(u *User) {
				u.Each(50, func(i int) error { return create(u, newAutoscaler(fmt.Sprint("web-", i), 1, 3)) })
				AwaitAll(u, 50, func(h *autoscalingv2.HorizontalPodAutoscaler) error {
					return unless(slices.ContainsFunc(h.Status.Conditions,
						func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Reason == "ScalingDisabled" }), h.Status)
				})
			},
		}},
	}
}

// newAutoscaler is one that wants a pod for each 100m of the load.
func newAutoscaler(name string, least, most int32) *autoscalingv2.HorizontalPodAutoscaler {
	each := resource.MustParse("100m")
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MinReplicas: &least, MaxReplicas: most,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name:   corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &each},
				}}},
		},
	}
}

// autoscalerScenarios need no metrics: what is outside the limits is brought within them.
var autoscalerScenarios = []Scenario{{Name: "an autoscaler keeps its limits", Play: func(u *User) {
	u.Create(Deployment("web", 1))
	u.WaitComplete("web")
	u.Create(newAutoscaler("web", 3, 5))
	Await(u, "web", func(d *appsv1.Deployment) error { return unless(*d.Spec.Replicas == 3, d.Spec) })
	u.Patch("web", `{"spec":{"replicas":7}}`)
	Await(u, "web", func(d *appsv1.Deployment) error { return unless(*d.Spec.Replicas == 5, d.Spec) })
	// Otherwise it scales down when its window has gone by, which a manager that begins anew does not know the beginning of.
	Patch[*autoscalingv2.HorizontalPodAutoscaler](u, "web", `{"spec":{"minReplicas":5}}`)
	u.WaitComplete("web")
}}}

// autoscale makes, changes or deletes an autoscaler.
func autoscale(u *User, l script.Line) error {
	name := l.Arg(0)
	if says(l, "delete") {
		return removeAsToldBy[*autoscalingv2.HorizontalPodAutoscaler](u, name, l)
	}
	least, _ := l.Int("min")
	most, _ := l.Int("max")
	window, _ := l.Int("window")
	h := newAutoscaler(name, int32(least), int32(max(least, most)))
	h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To(int32(window))}}
	if says(l, "external") {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
			External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: name}, Target: h.Spec.Metrics[0].Resource.Target,
			}}}
	}
	return apply(u, h.DeepCopy(), func(old *autoscalingv2.HorizontalPodAutoscaler) { old.Spec = h.Spec })
}

// setLoad changes the load. An annotation of the Deployment tells it, so that the oracles know that somebody has done something.
func setLoad(u *User, l script.Line) error {
	n, _ := l.Int("milli")
	if err := u.machines().SetLoad(l.Arg(0), int64(n)); err != nil {
		return err
	}
	return edit(u, l.Arg(0), func(d *appsv1.Deployment) { metav1.SetMetaDataAnnotation(&d.ObjectMeta, loadAnnotation, fmt.Sprint(n)) })
}

// loadAnnotation is that of Deployments whose load was set.
const loadAnnotation = "example.com/load"

// settledAutoscalers checks that each target has the size that its load asks for, that the status says so, and that no autoscaler has
// scaled what was switched off.
func settledAutoscalers(s *View) (wrong []string) {
	for _, h := range subjects[*autoscalingv2.HorizontalPodAutoscaler](s) {
		d := one[*appsv1.Deployment](s, h.Namespace, h.Spec.ScaleTargetRef.Name)
		if d == nil {
			continue
		}
		load, err := strconv.Atoi(d.Annotations[loadAnnotation])
		if err != nil {
			continue // nobody has set it
		}
		got, want := *d.Spec.Replicas, int32((load+99)/100)
		want = min(max(want, *h.Spec.MinReplicas), h.Spec.MaxReplicas)
		if got == 0 { // HPA-17
			want = 0
		}
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s has %d replicas, and its load of %d asks for %d: %+v", d.Name, got, load, want, h.Status))
		}
		if h.Status.CurrentReplicas != got || h.Status.DesiredReplicas != got || len(h.Status.Conditions) < 2 {
			wrong = append(wrong, fmt.Sprintf("%s has %d replicas, and the status says %+v", d.Name, got, h.Status))
		}
	}
	for _, e := range s.writes("deployments") {
		before, ok := e.Before.(*appsv1.Deployment)
		if d := e.Object.(*appsv1.Deployment); ok && *before.Spec.Replicas == 0 && *d.Spec.Replicas != 0 {
			wrong = append(wrong, fmt.Sprintf("%s was switched off, and was scaled to %d", d.Name, *d.Spec.Replicas))
		}
	}
	return wrong
}

const autoscalerFolder = "pkg/controllers/horizontalpodautoscaler/"

var autoscalerMutants = []Mutant{
	{
		Name:  "an autoscaler scales what was switched off",
		Edits: []Edit{{autoscalerFolder + "plan.go", "case current == 0 && !s.wakes():", "case current < 0 && !s.wakes():"}},
		Script: withoutElection + `
			at 1s   create auto-web replicas=0 image=good:1
			at 1s   load auto-web milli=300
			at 2s   autoscale auto-web min=1 max=5`,
		Oracle: SettledOracle,
	},
	{
		Name: "the largest size is not kept",
		Edits: []Edit{{autoscalerFolder + "plan_limits.go",
			"		most, why := s.Autoscaler.Spec.MaxReplicas, tooMany\n		if fastest := max(s.scaleUpTo",
			"		most, why := s.Autoscaler.Spec.MaxReplicas+1, tooMany\n		if fastest := max(s.scaleUpTo"}},
		Script: withoutElection + `
			at 1s   create auto-web replicas=2 image=good:1
			at 1s   load auto-web milli=800
			at 2s   autoscale auto-web min=1 max=4`,
		Oracle: "L1",
	},
	{
		Name: "values that an earlier period has brought are taken for present ones",
		Edits: []Edit{{autoscalerFolder + "observe_answers.go", "if known != nil && (known.slot == slot ||",
			"if known != nil && (known.slot <= slot ||"},
			{autoscalerFolder + "observe_answers.go", "if known.slot < slot-1 &&", "if known.slot < 0 &&"}},
		Script: withoutElection + `
			at 1s   create auto-web replicas=2 image=good:1
			at 1s   load auto-web milli=200
			at 2s   autoscale auto-web min=1 max=5
			at 60s  load auto-web milli=500`,
		Oracle: SettledOracle,
	},
	{
		Name: "the status does not follow",
		Edits: []Edit{{autoscalerFolder + "report.go", "if equality.Semantic.DeepEqual(h.Status, status) || !s.written(now, status) {",
			"if status.LastScaleTime != nil || !s.written(now, status) {"}},
		Script: withoutElection + `
			at 1s   create auto-web replicas=2 image=good:1
			at 1s   load auto-web milli=400
			at 2s   autoscale auto-web min=1 max=5`,
		Oracle: SettledOracle,
	},
}
