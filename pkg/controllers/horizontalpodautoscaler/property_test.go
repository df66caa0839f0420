package horizontalpodautoscaler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// anySnapshot draws a snapshot of an autoscaler that a server may have.
func anySnapshot(t *rapid.T) snapshot {
	n := rapid.Int32Range(0, 12).Draw(t, "replicas")
	s := at(n, rapid.Int64Range(0, 200).Draw(t, "use"))
	s.Settings.ToZero = rapid.Bool().Draw(t, "gate")
	s.Known = rapid.Bool().Draw(t, "known")
	s.Target.Observed = rapid.Int32Range(0, 12).Draw(t, "observed")
	most := rapid.Int32Range(1, 12).Draw(t, "max")
	least := rapid.Int32Range(0, most).Draw(t, "min")
	between(least, most)(s.Autoscaler)
	s.Autoscaler.Spec.Metrics = append(s.Autoscaler.Spec.Metrics, rapid.SampledFrom([][]autoscalingv2.MetricSpec{
		nil, {used(corev1.ResourceCPU, "60m")}, {ofPods("hits", "70m")}, {external("queue", averaging("10"), nil)},
		{ofObject("Service", "web", valued("10"))},
	}).Draw(t, "metric")...)
	for i := 1; i < len(s.Autoscaler.Spec.Metrics); i++ {
		r := s.Readings[0]
		r.Sum = rapid.Int64Range(0, 200_000).Draw(t, "sum")
		if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
			r.Err = "gone"
		}
		s.Readings = append(s.Readings, r)
	}
	if rapid.Bool().Draw(t, "behavior") {
		behaving(anyRules(t), anyRules(t))(s.Autoscaler)
	}
	if rapid.Bool().Draw(t, "said") {
		conditioned(atZero, rapid.SampledFrom([]corev1.ConditionStatus{conditionTrue, conditionFalse}).Draw(t, "is"))(s.Autoscaler)
	}
	for range rapid.IntRange(0, 4).Draw(t, "recommendations") {
		recommended(ago(t), rapid.Int32Range(0, 20).Draw(t, "of"))(&s)
	}
	for range rapid.IntRange(0, 3).Draw(t, "rescales") {
		scaledUp(ago(t), rapid.Int32Range(1, 5).Draw(t, "up"))(&s)
		scaledDown(ago(t), rapid.Int32Range(1, 5).Draw(t, "down"))(&s)
	}
	for i := range s.Pods {
		switch rapid.IntRange(0, 9).Draw(t, "pod") {
		case 0:
			phase(rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded}).Draw(t,
				"phase"))(s.Pods[i])
		case 1:
			terminating(s.Pods[i])
		case 2:
			ready(corev1.ConditionFalse, ago(t))(s.Pods[i])
			started(ago(t))(s.Pods[i])
		case 3:
			unmeasured(i)(&s)
		}
	}
	return s
}

func ago(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(0, 400).Draw(t, "ago")) * time.Second
}

func anyRules(t *rapid.T) *autoscalingv2.HPAScalingRules {
	if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
		return nil
	}
	r := rulesWith(rapid.Int32Range(0, 400).Draw(t, "window"), rapid.SampledFrom([]autoscalingv2.ScalingPolicySelect{
		autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect}).Draw(t, "choice"))
	for range rapid.IntRange(0, 2).Draw(t, "policies") {
		r.Policies = append(r.Policies,
			policy(rapid.SampledFrom([]autoscalingv2.HPAScalingPolicyType{autoscalingv2.PodsScalingPolicy,
				autoscalingv2.PercentScalingPolicy}).Draw(t, "kind"),
				rapid.Int32Range(1, 100).Draw(t, "value"), rapid.Int32Range(1, 1800).Draw(t, "seconds")))
	}
	return r
}

// Whatever the state is: a target is never scaled out of its limits, nor at all if it was switched off or the metrics fail; deciding
// changes nothing that it was given; and what was written leaves nothing to write.
func TestPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		copied := plantest.Restored(t, s)
		p := planned(now, s)
		did := carriedOut(p)
		report := reported(now, s, did)
		m := remembered(now, s, did)
		if diff := cmp.Diff(copied, plantest.Restored(t, s), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("LeavesInputAlone: %s", diff)
		}
		if step := scaledBy(p); step != nil {
			to, from := step.New.(*autoscalingv1.Scale).Spec.Replicas, s.Target.Replicas
			if to < s.minReplicas() || to > s.Autoscaler.Spec.MaxReplicas {
				t.Fatalf("KeepsLimits: %d", to)
			}
			if from == 0 && !s.wakes() { // HPA-17
				t.Fatal("WakesNobody")
			}
			if d := decide(now, s); d.Failed || to == from {
				t.Fatalf("ScalesWithReason: %+v", d)
			}
			if to == 0 && !isTrue(s.Autoscaler.Status.Conditions, atZero) { // HPA-21
				t.Fatal("SaysThatItIsScaledToZero")
			}
		}
		status := writtenBy(report)
		if status == nil {
			return
		}
		after := s
		after.Autoscaler = s.Autoscaler.DeepCopy()
		after.Autoscaler.Status, after.Known, after.History = *status, true, m.History
		if scaledBy(p) == nil && !decide(now, s).Prepare {
			if more := reported(now, after, plan.Outcome{}); !more.Empty() && writtenBy(more).DesiredReplicas != status.DesiredReplicas {
				t.Fatalf("RepeatedReportIsEmpty: %s", cmp.Diff(*status, *writtenBy(more)))
			}
		}
	})
}

// More load never asks for fewer replicas (HPA-33..35), in a world in which nothing else differs.
func TestMoreLoadNeverAsksForFewer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 9).Draw(t, "replicas")
		less := rapid.Int64Range(0, 200).Draw(t, "less")
		more := less + rapid.Int64Range(0, 100).Draw(t, "more")
		if a, b := *decide(now, at(n, less)).Asked, *decide(now, at(n, more)).Asked; a > b {
			t.Fatalf("%d for %d, and %d for %d", a, less, b, more)
		}
	})
}

// HPA-38: how many pods a rollout has at a moment is no reason to scale.
func TestSizeOfARolloutIsNoReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		s.Target.Observed = rapid.Int32Range(1, 12).Draw(t, "before")
		before := decide(now, s)
		s.Target.Observed = rapid.Int32Range(1, 12).Draw(t, "meanwhile")
		if meanwhile := decide(now, s); meanwhile.Desired != before.Desired {
			t.Fatalf("%d, and %d of %d pods", before.Desired, meanwhile.Desired, s.Target.Observed)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		restored := plantest.Restored(t, s)
		a, b := planned(now, s), planned(now, restored)
		if a.Why != b.Why || eventsOf(a) != eventsOf(b) ||
			!cmp.Equal(writtenBy(reported(now, s, plan.Outcome{})), writtenBy(reported(now, restored, plan.Outcome{}))) {
			t.Errorf("%s, and %s after it was stored", a.Why, b.Why)
		}
	})
}

// The caches keep of pods and targets only what the controller declares.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		whole, thin := newBench(t, web()), newBench(t, web())
		d := deployment("web", rapid.Int32Range(1, 4).Draw(t, "replicas"))
		d.Status.ReadyReplicas, d.Spec.Paused = 1, true
		o, err := kept.Project(d)
		if err != nil {
			t.Fatal(err)
		}
		whole.put(t, d)
		thin.put(t, o.(plan.Object))
		use := map[string]int64{}
		always := corev1.ContainerRestartPolicyAlways
		for i := range rapid.IntRange(1, 4).Draw(t, "pods") {
			p := projectiontest.FullPod(fmt.Sprint("web-", i))
			full := p.DeepCopy()
			p = pod(i)
			p.Spec.Volumes, p.Spec.NodeName, p.Status.Message = full.Spec.Volumes, full.Spec.NodeName, "hello"
			p.Spec.InitContainers = []corev1.Container{container("sidecar", "10m")}
			p.Spec.InitContainers[0].RestartPolicy = &always
			p.Spec.Containers[0].Image = "web:1"
			if rapid.IntRange(0, 4).Draw(t, "bare") == 0 { // HPA-31: its container requests nothing, or one of its containers
				p.Spec.Containers = append(p.Spec.Containers,
					corev1.Container{Name: "bare", Image: "bare:1"})[rapid.IntRange(0, 1).Draw(t, "only"):]
			}
			if rapid.Bool().Draw(t, "starting") {
				started(time.Minute)(p)
				ready(corev1.ConditionFalse, time.Minute)(p)
			}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
			use[p.Name] = rapid.Int64Range(0, 300).Draw(t, "use")
			whole.put(t, p)
			thin.put(t, kept.ProjectPod(p))
		}
		whole.raw[podMetricsPath], thin.raw[podMetricsPath] = podMetrics(use), podMetrics(use)
		a, b := whole.observed(t, now, webKey, nil), thin.observed(t, now, webKey, nil)
		if x, y := planned(now, a), planned(now, b); x.Why != y.Why || eventsOf(x) != eventsOf(y) {
			t.Errorf("%s with all fields, %s with the cached ones", x.Why, y.Why)
		}
		if x, y := writtenBy(reported(now, a, plan.Outcome{})), writtenBy(reported(now, b, plan.Outcome{})); !cmp.Equal(x, y) {
			t.Error(cmp.Diff(x, y))
		}
	})
}
