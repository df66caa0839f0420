package oracle

import (
	"strconv"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func aJob(parallelism int32) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: named("sum"), Spec: batchv1.JobSpec{
		Parallelism: &parallelism, Completions: pointer[int32](9),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
}

func anIndexedJob(parallelism int32) *batchv1.Job {
	j := aJob(parallelism)
	j.Spec.CompletionMode = pointer(batchv1.IndexedCompletion)
	return j
}

// aPodOf is a new pod of a Job, for an index if that is not negative.
func (s *scene) aPodOf(job Object, index int) Object {
	s.n++
	p := &corev1.Pod{ObjectMeta: named("sum-" + strconv.Itoa(s.n)), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	p.Finalizers = []string{batchv1.JobTrackingFinalizer}
	if index >= 0 {
		p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(index)}
	}
	ownedBy(p, Job, job)
	return s.Manager().Create(p)
}

func counted(succeeded, failed int32, listed ...Object) func(Object) {
	return func(o Object) {
		var uids []types.UID
		for _, p := range listed {
			uids = append(uids, p.GetUID())
		}
		o.(*batchv1.Job).Status = batchv1.JobStatus{Succeeded: succeeded, Failed: failed,
			UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Succeeded: uids}}
	}
}

func over(o Object) {
	s := &o.(*batchv1.Job).Status
	s.Conditions = append(s.Conditions, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
}

// with is an object after a change.
func with(o Object, change func(Object)) Object {
	change(o)
	return o
}

func free(o Object) { o.SetFinalizers(nil) }

func TestJobsCountEachPodOnce(t *testing.T) { // S18
	run(t, JobsCountEachPodOnce(), []history{
		{name: "JOB-40 listed, freed, counted", write: func(s *scene) {
			job := s.User().Create(aJob(1))
			p := s.User().Edit(s.aPodOf(job, -1), succeed)
			job = s.Manager().Edit(job, counted(0, 0, p))
			s.Manager().Edit(p, free)
			s.Manager().Edit(job, all(counted(1, 0), over))
		}},
		{name: "a Job that had counted two pods before the recording began", write: func(s *scene) { // the soak's seed 7, epoch 15
			job := s.User().Create(with(aJob(3), counted(2, 0)))
			s.Revisions[len(s.Revisions)-1].Injected = true
			p := s.User().Edit(s.aPodOf(job, -1), succeed)
			s.Manager().Edit(s.Manager().Edit(job, counted(2, 0, p)), all(counted(3, 0), over))
		}},
		{name: "a Job that had counted two pods, and now counts four", write: func(s *scene) {
			job := s.User().Create(with(aJob(3), counted(2, 0)))
			s.Revisions[len(s.Revisions)-1].Injected = true
			s.User().Edit(s.aPodOf(job, -1), succeed)
			s.Manager().Edit(job, counted(4, 0))
		}, want: "4 pods are counted, but only 3 have ended"},
		{name: "a Job that had counted two pods, and is over without the third", write: func(s *scene) {
			job := s.User().Create(with(aJob(3), counted(2, 0)))
			s.Revisions[len(s.Revisions)-1].Injected = true
			s.User().Edit(s.aPodOf(job, -1), succeed)
			s.Manager().Edit(job, all(counted(2, 0), over))
		}, want: "2 pods are counted, but 3 have ended"},
		{name: "JOB-40 freed before it is listed", write: func(s *scene) {
			p := s.User().Edit(s.aPodOf(s.User().Create(aJob(1)), -1), succeed)
			s.Manager().Edit(p, free)
		}, want: "loses its finalizer before it is counted"},
		{name: "given up before it had ended", write: func(s *scene) {
			s.Manager().Edit(s.aPodOf(s.User().Create(aJob(1)), -1), free)
		}},
		{name: "JOB-6 of a Job that is gone", write: func(s *scene) {
			job := s.User().Create(aJob(1))
			p := s.User().Edit(s.aPodOf(job, -1), succeed)
			s.User().Delete(job)
			s.Manager().Edit(p, free)
		}},
		{name: "freed by somebody else", write: func(s *scene) {
			s.User().Edit(s.User().Edit(s.aPodOf(s.User().Create(aJob(1)), -1), succeed), free)
		}},
		{name: "counted twice", write: func(s *scene) {
			job := s.User().Create(aJob(1))
			p := s.User().Edit(s.aPodOf(job, -1), succeed)
			job = s.Manager().Edit(job, counted(0, 0, p))
			s.Manager().Edit(job, counted(1, 0, p))
		}, want: "2 pods are counted, but only 1 have ended"},
		{name: "counted twice, after somebody has given the Job a pod", write: func(s *scene) {
			job := s.User().Create(aJob(1))
			given := s.aPodOf(job, -1)
			given = s.User().Edit(given, func(o Object) { o.SetLabels(map[string]string{"app": "web", "x": "y"}) })
			p := s.User().Edit(given, succeed)
			job = s.Manager().Edit(job, counted(0, 0, p))
			s.Manager().Edit(job, counted(1, 0, p))
		}, want: "2 pods are counted, but only 1 have ended"},
		{name: "counted, and then somebody takes it away", write: func(s *scene) {
			job := s.User().Create(aJob(1))
			p := s.User().Edit(s.aPodOf(job, -1), succeed)
			job = s.Manager().Edit(job, counted(0, 0, p))
			s.User().Edit(p, orphaned)
			s.Manager().Edit(job, counted(1, 0))
		}},
		{name: "missed", write: func(s *scene) {
			job := s.User().Create(aJob(1))
			s.User().Edit(s.aPodOf(job, -1), succeed)
			s.Manager().Edit(job, over)
		}, want: "0 pods are counted, but 1 have ended"},
		{name: "JOB-42 too many are listed", write: func(s *scene) {
			job := s.User().Create(aJob(mostListed + 1))
			var pods []Object
			for range mostListed {
				pods = append(pods, s.User().Edit(s.aPodOf(job, -1), succeed))
			}
			job = s.Manager().Edit(job, counted(0, 0, pods...))
			s.Manager().Edit(job, counted(0, 0, append(pods, s.User().Edit(s.aPodOf(job, -1), succeed))...))
		}, want: "the status lists 501 pods"},
		{name: "the counters fall", write: func(s *scene) {
			job := s.User().Create(aJob(2))
			s.User().Edit(s.aPodOf(job, -1), succeed)
			s.Manager().Edit(s.Manager().Edit(job, counted(1, 0)), counted(0, 0))
		}, want: "the counters fall"},
		{name: "JOB-70 an index is counted by the status", write: func(s *scene) {
			job := s.User().Create(anIndexedJob(1))
			p := s.User().Edit(s.aPodOf(job, 0), succeed)
			s.Manager().Edit(job, func(o Object) { o.(*batchv1.Job).Status.CompletedIndexes, o.(*batchv1.Job).Status.Succeeded = "0", 1 })
			s.Manager().Edit(p, free)
		}},
		{name: "JOB-70 an index is not", write: func(s *scene) {
			p := s.User().Edit(s.aPodOf(s.User().Create(anIndexedJob(1)), 1), succeed)
			s.Manager().Edit(p, free)
		}, want: "loses its finalizer before it is counted"},
	})
}

func TestNoPodBeyondParallelism(t *testing.T) { // S19
	run(t, NoPodBeyondParallelism(), []history{
		{name: "JOB-20 as many as parallelism", write: func(s *scene) {
			job := s.User().Create(aJob(2))
			s.aPodOf(job, -1)
			s.User().Edit(s.aPodOf(job, -1), succeed)
			s.aPodOf(job, -1)
		}},
		{name: "JOB-20 one more", write: func(s *scene) {
			job := s.User().Create(aJob(1))
			s.aPodOf(job, -1)
			s.aPodOf(job, -1)
		}, want: "created while 1 pods are active, with parallelism 1"},
		{name: "parallelism was lowered a moment ago", write: func(s *scene) {
			job := s.User().Create(aJob(2))
			s.aPodOf(job, -1)
			s.User().Edit(job, func(o Object) { o.(*batchv1.Job).Spec.Parallelism = pointer[int32](1) })
			s.Wait(time.Second)
			s.aPodOf(job, -1)
		}},
		{name: "JOB-66 an index twice", write: func(s *scene) {
			job := s.User().Create(anIndexedJob(3))
			s.aPodOf(job, 0)
			s.aPodOf(job, 0)
		}, want: "created for index 0, which has the active pod"},
		{name: "JOB-66 a completed index", write: func(s *scene) {
			job := s.User().Create(anIndexedJob(3))
			s.Manager().Edit(job, func(o Object) { o.(*batchv1.Job).Status.CompletedIndexes = "0,2-4" })
			s.aPodOf(job, 3)
		}, want: "created for index 3, which is completed"},
	})
}
