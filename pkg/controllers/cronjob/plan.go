package cronjob

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// planJobs says what is worth a warning, creates the Job that is due, and deletes those beyond the history limits.
// The latter two do not hinder one another (CJ-61). The warnings come first, because they are remembered as given
// whatever becomes of the rest.
func planJobs(now time.Time, s snapshot) (decision, plan.Plan) {
	if s.CronJob == nil {
		return decision{}, plan.Plan{Why: "the CronJob is gone"}
	}
	d := decide(now, s)
	p := plan.Plan{Why: d.Why, Requeue: d.requeue(now)}
	for _, w := range d.Warnings {
		if !slices.Contains(s.Memory.Reported, w.State) {
			p.Steps = append(p.Steps, plan.RecordEvent{Object: s.CronJob, Event: w.Event})
		}
	}
	var sequences [][]plan.Step
	if run := s.planRun(d); len(run) > 0 {
		sequences = append(sequences, run)
	}
	if surplus := s.surplus(); len(surplus) > 0 {
		sequences = append(sequences, []plan.Step{deleteJobs(surplus, "more finished Jobs than the history limit")})
	}
	switch len(sequences) {
	case 0:
	case 1:
		p.Steps = append(p.Steps, sequences[0]...)
	default:
		p.Steps = append(p.Steps, plan.Each{Sequences: sequences})
	}
	return d, p
}

// planRun creates the Job that is due, if one is to be created.
func (s snapshot) planRun(d decision) (steps []plan.Step) {
	if d.Run.IsZero() {
		return nil
	}
	if victims := s.replaced(); len(victims) > 0 {
		steps = append(steps, deleteJobs(victims, "replaced by the next run"))
	}
	return append(steps, plan.Create{
		Object: newJob(s.CronJob, d.Run, s.Zone),
		Events: plan.Events{
			Done: plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulCreate", Message: "Created job {name}"},
			Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedCreate",
				Message: "Error creating job: {error}"},
		},
		Why: "it is due",
	})
}

// replaced are the Jobs that give way to the next one (CJ-42).
func (s snapshot) replaced() []*batchv1.Job {
	if s.CronJob.Spec.ConcurrencyPolicy != batchv1.ReplaceConcurrent {
		return nil
	}
	active, _ := s.active()
	return slices.DeleteFunc(active, func(job *batchv1.Job) bool { return job.DeletionTimestamp != nil })
}

// deleteJobs deletes Jobs and their pods.
func deleteJobs(jobs []*batchv1.Job, why string) plan.Delete {
	d := plan.Delete{
		Propagation: metav1.DeletePropagationBackground,
		Events: plan.Events{
			Done:   plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulDelete", Message: "Deleted job {name}"},
			Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedDelete", Message: "Deleted job: {error}"},
		},
		Why: why,
	}
	for _, job := range jobs {
		d.Objects = append(d.Objects, job)
	}
	return d
}
