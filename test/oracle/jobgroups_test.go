package oracle

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/utils/ptr"
)

// aGang is a Job that asks to be scheduled as a whole; a size of 0 leaves that to the manager.
func aGang(parallelism, size int32) *batchv1.Job {
	j := aJob(parallelism)
	of := &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{}
	if size > 0 {
		of.MinCount = &size
	}
	j.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{
		SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{Gang: of}}
	return j
}

// group makes the Workload and the PodGroup of a Job.
func (s *scene) group(job Object, size int32) Object {
	w := &schedulingv1beta1.Workload{ObjectMeta: named("w")}
	ownedBy(w, Job, job)
	s.Manager().Create(w)
	return s.podGroup(job, "g", size)
}

func (s *scene) podGroup(job Object, name string, size int32) Object {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: named(name)}
	g.Spec.WorkloadRef = &schedulingv1beta1.WorkloadReference{WorkloadName: "w", TemplateName: "t"}
	if size > 0 {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: size}
	}
	ownedBy(g, Job, job)
	return s.Manager().Create(g)
}

// grouped is a new pod of a Job in a PodGroup.
func (s *scene) grouped(job Object, name string) Object {
	s.n++
	p := &corev1.Pod{ObjectMeta: named(name + "-pod"), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	p.Name += string(rune('a' + s.n))
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	ownedBy(p, Job, job)
	return s.Manager().Create(p)
}

func gangOf(n int32) func(Object) {
	return func(o Object) { o.(*schedulingv1beta1.PodGroup).Spec.SchedulingPolicy.Gang.MinCount = n }
}

func TestJobsGroupTheirPods(t *testing.T) { // S43
	parallel := func(n int32) func(Object) { return func(o Object) { o.(*batchv1.Job).Spec.Parallelism = ptr.To(n) } }
	run(t, JobsGroupTheirPods(), []history{
		{name: "JOB-130 the Workload, the PodGroup, and then pods in it", write: func(s *scene) {
			job := s.User().Create(aGang(2, 0))
			s.group(job, 2)
			s.grouped(job, "g")
			s.grouped(job, "g")
		}},
		{name: "JOB-130 a Job that asks for a group, and a pod in none", write: func(s *scene) {
			s.aPodOf(s.User().Create(aGang(2, 0)), -1)
		}, want: "created in no PodGroup"},
		{name: "a Job that does not ask, and has none", write: func(s *scene) { s.aPodOf(s.User().Create(aJob(2)), -1) }},
		{name: "one that does not ask, and has one", write: func(s *scene) {
			job := s.User().Create(aJob(2))
			s.group(job, 0)
			s.Wait(time.Minute)
			s.aPodOf(job, -1)
		}, want: "created in no PodGroup"},
		{name: "a pod in none is active: there are not both kinds", write: func(s *scene) {
			job := s.User().Create(aGang(2, 0))
			p := s.User().Create(&corev1.Pod{ObjectMeta: named("theirs"), Status: corev1.PodStatus{Phase: corev1.PodRunning}})
			s.Manager().Edit(p, func(o Object) { ownedBy(o, Job, job) })
			s.Wait(time.Minute)
			s.aPodOf(job, -1)
		}},
		{name: "the template has a group", write: func(s *scene) {
			job := aJob(2)
			job.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("theirs")}
			s.grouped(s.User().Create(job), "theirs")
		}},
		{name: "a PodGroup that never existed", write: func(s *scene) { s.grouped(s.User().Create(aGang(2, 0)), "g") },
			want: "does not exist"},
		{name: "one that is gone for a while", write: func(s *scene) {
			job := s.User().Create(aGang(2, 0))
			s.User().Delete(s.group(job, 2))
			s.Wait(time.Minute)
			s.grouped(job, "g")
		}, want: "does not exist"},
		{name: "one that has just gone", write: func(s *scene) {
			job := s.User().Create(aGang(2, 0))
			s.User().Delete(s.group(job, 2))
			s.grouped(job, "g")
		}},
		{name: "one of another Job", write: func(s *scene) {
			other := aJob(1)
			other.Name = "other"
			s.group(s.User().Create(other), 0)
			s.grouped(s.User().Create(aGang(2, 0)), "g")
		}, want: "is not the Job's"},
		{name: "JOB-132 a gang of another size", write: func(s *scene) {
			job := s.User().Create(aGang(2, 0))
			s.group(job, 3)
			s.grouped(job, "g")
		}, want: "created in a gang of 3"},
		{name: "JOB-132 of the size that it had a moment ago", write: func(s *scene) {
			job := s.User().Create(aGang(2, 0))
			s.group(job, 2)
			s.grouped(s.User().Edit(job, parallel(3)), "g")
		}},
		{name: "JOB-132 of the size that it had a minute ago", write: func(s *scene) {
			job := s.User().Create(aGang(2, 0))
			s.group(job, 2)
			job = s.User().Edit(job, parallel(3))
			s.Wait(time.Minute)
			s.grouped(job, "g")
		}, want: "created in a gang of 2"},
		{name: "JOB-132 the size follows", write: func(s *scene) {
			job := s.User().Create(aGang(2, 0))
			g := s.group(job, 2)
			job = s.User().Edit(job, parallel(3))
			s.Wait(time.Minute)
			s.Manager().Edit(g, gangOf(3))
			s.grouped(job, "g")
		}},
		{name: "JOB-132 as the Job says", write: func(s *scene) {
			job := s.User().Create(aGang(4, 2))
			s.group(job, 2)
			s.grouped(job, "g")
		}},
		{name: "JOB-132 more than the Job will ever run, or no more", write: func(s *scene) {
			for i, size := range []int32{9, 20} {
				job := aGang(20, 0)
				job.Name += string(rune('a' + i))
				made := s.User().Create(job)
				if i == 0 {
					s.group(made, size)
				} else {
					s.podGroup(made, "h", size)
				}
				s.grouped(made, string("gh"[i]))
			}
		}},
		{name: "JOB-134 the PodGroup before the Workload", write: func(s *scene) {
			s.podGroup(s.User().Create(aGang(2, 0)), "g", 2)
		}, want: "the Workload w does not exist"},
		{name: "JOB-133 another Workload than the Job names", write: func(s *scene) {
			job := aGang(2, 0)
			job.Annotations = map[string]string{workloadNameAnnotation: "theirs", groupTemplateAnnotation: "worker"}
			s.group(s.User().Create(job), 2)
		}, want: "the Job names theirs"},
		{name: "JOB-134 a second PodGroup", write: func(s *scene) {
			job := s.User().Create(aGang(2, 0))
			s.group(job, 2)
			s.Wait(time.Minute)
			s.podGroup(job, "h", 2)
		}, want: "the Job has the PodGroup g"},
	})
}
