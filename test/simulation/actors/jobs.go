package actors

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// JobManager is spec.managedBy of the Jobs that are finished here, without pods, unless the cluster has a pace: then users finish them.
// What becomes of one is in the name of its image: a good one completes, a slow one after half a minute, a bad one never, and a failing
// one fails.
const JobManager = "example.com/actor"

// noteJob makes an appointment for the end of a new Job.
func (c *Cluster) noteJob(e *apiserver.Event) {
	job := e.Object.(*batchv1.Job)
	if c.Pace > 0 || e.Before != nil || e.Type == watch.Deleted || job.Spec.ManagedBy == nil || *job.Spec.ManagedBy != JobManager {
		return
	}
	character := Character(&corev1.Pod{Spec: job.Spec.Template.Spec})
	least, most := 500*time.Millisecond, 10*time.Second
	switch character {
	case Bad:
		return
	case Slow:
		least, most = 20*time.Second, time.Minute // no longer than a world must be quiet to be at rest
	}
	c.after(c.delay("job", job.Name, least, most), func() {
		_, _ = Edit(c.server, "job-actor", job.Namespace, job.Name, "status", func(now *batchv1.Job) {
			if now.UID == job.UID {
				FinishJob(&now.Status, character == Failing, metav1.Now().Rfc3339Copy())
			}
		})
	})
}

// FinishJob makes the status that of a Job that has completed or failed.
func FinishJob(s *batchv1.JobStatus, failed bool, now metav1.Time) {
	before, kind := batchv1.JobSuccessCriteriaMet, batchv1.JobComplete
	if failed {
		before, kind = batchv1.JobFailureTarget, batchv1.JobFailed
	} else {
		s.CompletionTime = &now
	}
	s.StartTime = &now
	for _, t := range []batchv1.JobConditionType{before, kind} {
		s.Conditions = append(s.Conditions,
			batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now})
	}
}
