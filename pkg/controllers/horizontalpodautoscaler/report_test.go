package horizontalpodautoscaler

import (
	"errors"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestStatus(t *testing.T) {
	scaled := at(4, 100)
	done := writtenBy(reported(now, scaled, carriedOut(planned(now, scaled))))
	// HPA-51, HPA-67
	if done.CurrentReplicas != 4 || done.DesiredReplicas != 8 || !done.LastScaleTime.Time.Equal(now) || *done.ObservedGeneration != 2 {
		t.Errorf("%+v", done)
	}
	// HPA-50
	if reasonOf(*done, able) != "True SucceededRescale" ||
		messageOf(*done, able) != "the HPA controller was able to update the target scale to 8" {
		t.Errorf("%+v", done)
	}
	if got := conditionTypes(*done); got != "AbleToScale ScalingActive ScalingLimited" { // HPA-54
		t.Error(got)
	}
	first := decide(now, at(12, 50)).Status // above the limit, so that the metrics are not asked yet
	if got := conditionTypes(first); got != "AbleToScale" {
		t.Error(got)
	}
	if got := conditionTypes(decide(now,
		at(4, 50, by(
			func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Status = first }))).Status); got != "AbleToScale ScalingActive "+
		"ScalingLimited" {
		t.Error(got)
	}
	m := done.CurrentMetrics[0].Resource.Current
	if *m.AverageUtilization != 100 || m.AverageValue.String() != "100m" { // HPA-36, HPA-52
		t.Errorf("%+v", m)
	}
	failed := at(4, 100, by(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Status.CurrentReplicas = 3 }))
	no := plan.Outcome{Results: []plan.Result{{Verb: plan.Changed, Subresource: scaleSubresource, Err: errors.New("no")}},
		Err: errors.New("no")}
	after := writtenBy(reported(now, failed, no))
	// HPA-49, HPA-51
	if reasonOf(*after, able) != "False FailedUpdateScale" || after.CurrentReplicas != 4 || after.DesiredReplicas != 0 ||
		after.LastScaleTime != nil {
		t.Errorf("%+v", after)
	}
	vanished := plan.Outcome{Results: []plan.Result{{Verb: plan.Changed, Subresource: scaleSubresource}}} // not found
	if after := writtenBy(reported(now, failed, vanished)); after.DesiredReplicas != 0 || after.LastScaleTime != nil ||
		reasonOf(*after, able) == "True SucceededRescale" {
		t.Errorf("of a target that has gone: %+v", after)
	}
	memory := at(2, 50*1024*1024*1000, by(measuring(used(corev1.ResourceMemory, "50Mi"))))
	if got := decide(now, memory).Status.CurrentMetrics[0].Resource.Current.AverageValue.String(); got != "50Mi" { // HPA-52
		t.Error(got)
	}
}

// conditionTypes are the types of the conditions, in their order.
func conditionTypes(status autoscalingv2.HorizontalPodAutoscalerStatus) string {
	var all []string
	for _, c := range status.Conditions {
		all = append(all, string(c.Type))
	}
	return strings.Join(all, " ")
}

// HPA-50: the time of a rescale is said by the next status if the one after the rescale could not be written.
func TestTimeOfARescale(t *testing.T) {
	s := at(4, 100)
	began := now.Add(300 * time.Millisecond)
	m := remembered(began, s, carriedOut(planned(began, s)))
	next := func(status autoscalingv2.HorizontalPodAutoscalerStatus) snapshot {
		return at(8, 50, func(n *snapshot) { n.Autoscaler.Status, n.Scaled = status, m.Scaled })
	}
	lost := writtenBy(reported(now.Add(15*time.Second), next(s.Autoscaler.Status), plan.Outcome{}))
	if lost.LastScaleTime == nil || !lost.LastScaleTime.Time.Equal(now) {
		t.Errorf("%+v", lost)
	}
	if again := remembered(now.Add(15*time.Second), next(*lost), plan.Outcome{}); !again.Scaled.Equal(now) {
		t.Error(again.Scaled)
	}
	written := writtenBy(reported(began, s, carriedOut(planned(began, s))))
	later := metav1.NewTime(now.Add(time.Minute)) // by another leader
	for _, last := range []*metav1.Time{{Time: written.LastScaleTime.Truncate(time.Second)}, written.LastScaleTime, &later} {
		status := *lost
		status.LastScaleTime = last
		if p := reported(now.Add(15*time.Second), next(status), plan.Outcome{}); !p.Empty() {
			t.Error(p)
		}
	}
}

// What has been written leaves nothing to write, and the time of a condition changes with its status only.
func TestHPA55NothingNew(t *testing.T) {
	s := at(4, 50)
	first := reported(now, s, plan.Outcome{})
	if first.Steps[0].(plan.Change).Events.Failed != warning("FailedUpdateStatus", "{error}") { // HPA-58
		t.Error(first)
	}
	s.Autoscaler = s.Autoscaler.DeepCopy()
	s.Autoscaler.Status = *writtenBy(first)
	if p := reported(now.Add(15*time.Second), s, plan.Outcome{}); !p.Empty() {
		t.Error(p)
	}
	s.Readings[0].Err = "gone"
	later := writtenBy(reported(now.Add(15*time.Second), s, plan.Outcome{}))
	for _, c := range later.Conditions {
		if changed := c.LastTransitionTime.After(now); changed != (c.Type == active) { // HPA-54
			t.Errorf("%+v", c)
		}
	}
}

// A change of values by less than a tenth waits for the next evaluation, unless something else changes (HPA-55).
func TestSmallChanges(t *testing.T) {
	s := at(4, 50)
	s.Autoscaler.Status = *writtenBy(reported(now, s, plan.Outcome{}))
	next := func(use int64, unsaid time.Duration) snapshot {
		return at(4, use, func(n *snapshot) {
			if n.Autoscaler = s.Autoscaler; unsaid > 0 {
				n.StaleSince = now.Add(-unsaid)
			}
		})
	}
	for _, c := range []struct {
		name    string
		s       snapshot
		written bool
	}{
		{"a small change", next(52, 0), false},
		{"a tenth is small", next(45, 0), false},
		{"a larger change", next(44, 0), true},
		{"a second later, after a conflict", next(52, time.Second), false},
		{"at the next evaluation", next(52, 15*time.Second-3*time.Millisecond), true},
		{"no change", next(50, 15*time.Second), false},
	} {
		if p := reported(now, c.s, plan.Outcome{}); p.Empty() == c.written {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// Whatever the values are, and whether or not writes fail: what differs is shown at the second evaluation at which it does.
func TestSmallChangesAreShown(t *testing.T) {
	for _, c := range []struct {
		name    string
		use     []int64
		failing int // how many writes fail
		when    int // the evaluation at which the first write succeeds
	}{
		{"they stay", []int64{52, 52}, 0, 1},
		{"they change", []int64{52, 51}, 0, 1},
		{"they alternate", []int64{52, 50, 52}, 0, 2},
		{"writes fail", []int64{52, 52, 52, 52}, 2, 3},
		{"they alternate, and a write fails", []int64{52, 50, 52, 50, 52}, 1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := at(4, 50)
			h := s.Autoscaler
			h.Status = *writtenBy(reported(now, s, plan.Outcome{}))
			at, m := now, remembered(now, s, plan.Outcome{})
			for i, use := range c.use {
				at = at.Add(15 * time.Second)
				s := atSame(use, h, m)
				m = remembered(at, s, plan.Outcome{})
				status := writtenBy(reported(at, s, plan.Outcome{}))
				if status == nil {
					continue
				}
				if c.failing--; c.failing >= 0 {
					continue
				}
				if h = h.DeepCopy(); i != c.when {
					t.Errorf("written at %d", i)
				}
				h.Status = *status
				if !m.staleSince(h).IsZero() {
					t.Error("what was written waits still")
				}
				return
			}
			t.Error("it is not written")
		})
	}
}

// atSame is a snapshot of four replicas of an autoscaler of which something is remembered.
func atSame(use int64, h *autoscalingv2.HorizontalPodAutoscaler, m *memory) snapshot {
	return at(4, use, func(s *snapshot) { s.Autoscaler, s.History, s.StaleSince = h, m.History, m.staleSince(h) })
}
