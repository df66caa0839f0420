package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestMEND8Metrics(t *testing.T) { // JOB-100..107
	c := newCollectors()
	registry := metrics.NewKubeRegistry()
	for _, m := range c.all() {
		registry.MustRegister(m)
	}
	s := snapshotOf(sum(1, limit(0), policy(onDisruption("Ignore"), onExit("Count", 1))), pod("a", failed), pod("b", failed, disrupted))
	s.Began = now
	reported := reportStatus(now, s, plan.Outcome{})
	var did plan.Outcome
	for _, o := range changedTo(reported.Steps) {
		did.Results = append(did.Results, plan.Result{Verb: plan.Changed, Object: o})
	}
	c.applied(t.Context(), s.snapshot, s.decision, plan.Outcome{Results: []plan.Result{
		{Verb: plan.Created, Object: newPod(s)}, {Verb: plan.Created, Object: newPod(s), Err: plan.ErrStale},
	}}, did)
	final := snapshotOf(sum(1, limit(0), counters(0, 0, failedList("a")), condTrue(batchv1.JobFailureTarget, "BackoffLimitExceeded")))
	final.Began = now
	did = plan.Outcome{}
	for _, o := range changedTo(reportStatus(now, final, plan.Outcome{}).Steps) {
		did.Results = append(did.Results, plan.Result{Verb: plan.Changed, Object: o})
	}
	c.applied(t.Context(), final.snapshot, final.decision, plan.Outcome{}, did)
	c.itself(nil, sum(1, managedBy("example.com/queue")))
	count := c.counting(func(_, _ plan.Object) []plan.Key { return nil })
	count(nil, pod("a", failed))
	count(pod("a", failed), pod("a", failed, untracked))
	count(pod("b"), pod("b", untracked)) // has not ended
	c.countStale(schema.GroupResource{Resource: "pods"})
	want := []string{
		`job_pods_creation_total recreate_failed failed 1`, `job_pods_creation_total recreate_failed succeeded 1`,
		`job_pods_finished_total NonIndexed failed 1`, `job_pods_finished_total NonIndexed succeeded 0`,
		`job_syncs_total pods_created NonIndexed success 1`, `job_syncs_total reconciling NonIndexed success 1`,
		`jobs_by_external_controller_total example.com/queue 1`,
		`jobs_finished_total NonIndexed BackoffLimitExceeded failed 1`,
		`pod_failures_handled_by_failure_policy_total Count 1`, `pod_failures_handled_by_failure_policy_total Ignore 1`,
		`stale_sync_skips_total  pods 1`,
		`terminated_pods_tracking_finalizer_total add 1`, `terminated_pods_tracking_finalizer_total delete 1`,
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := strings.TrimPrefix(f.GetName(), "job_controller_")
			for _, label := range m.GetLabel() {
				line += " " + label.GetValue()
			}
			if m.GetCounter() != nil {
				got = append(got, fmt.Sprintf("%s %v", line, m.GetCounter().GetValue()))
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

// changedTo returns the objects as steps leave them.
func changedTo(steps []plan.Step) (all []plan.Object) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Change:
			all = append(all, s.New)
		case plan.Each:
			for _, sequence := range s.Sequences {
				all = append(all, changedTo(sequence)...)
			}
		}
	}
	return all
}
