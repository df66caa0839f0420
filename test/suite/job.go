package suite

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func jobEntry() Entry {
	return Entry{
		Controller: "job-controller",
		Operations: map[string]Operation{
			// NAME completions= parallelism= image= mode=indexed, per-index or late deadline= gang=NUMBER, of pods, or 0 for as many as
			// run at a time; workload=NAME, of somebody else
			"job": createJob,
			// NAME do=suspend, resume, scale, resize, gang, delete parallelism=, of scale, of resize, which sets the completions,
			// too, and of gang, the size of it; policy=
			"editjob":  disturbJob,
			"workload": planJobs,  // NAME size=, of gangs; do=resize, delete
			"jobgroup": takeGroup, // NAME do=podgroup, workload: takes it from the Job
		},
		Choices: []workload.Choice{
			{Weight: 2, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
				mode := workload.Pick(g, "", "", " mode=indexed", " mode=per-index", " mode=late", " deadline=20")
				g.Add(at, "job sum-%s completions=%d parallelism=%d image=%s:1%s", app, 1+g.IntN(8), 1+g.IntN(4),
					workload.Pick(g, actors.Done, actors.Done, actors.Flop), mode)
				g.Add(soon, "editjob sum-%s do=%s", app,
					workload.Pick(g, "scale parallelism=1", "scale parallelism=5", "delete", "delete policy=Foreground",
						"delete policy=Orphan"))
			}},
			{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
				g.Add(at, "job sum-%s completions=%d parallelism=3 image=%s:1", app, 2+g.IntN(8),
					workload.Pick(g, actors.Done, actors.Good))
				g.Add(at+time.Second+g.Early(), "editjob sum-%s do=suspend", app)
				if g.IntN(3) > 0 {
					g.Add(soon, "editjob sum-%s do=resume", app)
				}
			}},
			{Weight: 1, Add: gangs},
			{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
				g.Add(at, "pod sum-%s n=%d do=%s", app, g.IntN(5), workload.Pick(g, "delete", "evict"))
				g.Add(soon, "pod sum-%s n=%d do=%s", app, g.IntN(5), workload.Pick(g, "delete", "evict"))
			}},
		},
		Needs:     []string{"podgroup-protection-controller"}, // without which a Job in the foreground waits for its PodGroup for ever
		Settled:   unsettledJobs,
		Scenarios: append(jobScenarios, groupScenarios...),
		Malformed: jobMalformed,
		Mutants:   append(jobMutants, groupMutants...),
		Budgets:   append(jobBudgets, groupBudgets...),
	}
}

// createJob makes a Job. Its pods have the label app of its own name, so that no other app's service or quota counts them.
func createJob(u *User, l script.Line) error {
	completions, parallelism := int32(1), int32(1)
	if n, ok := l.Int("completions"); ok {
		completions = int32(n)
	}
	if n, ok := l.Int("parallelism"); ok {
		parallelism = int32(n)
	}
	image, _ := l.Get("image")
	j := newJob(l.Arg(0), image, completions, parallelism)
	if size, ok := l.Int("gang"); ok {
		j.Spec.Scheduling = schedulingOf(int32(size))
	}
	if name, ok := l.Get("workload"); ok {
		j.Annotations = map[string]string{workloadAnnotation: name, templateAnnotation: workerTemplate}
	}
	if seconds, ok := l.Int("deadline"); ok {
		j.Spec.ActiveDeadlineSeconds = ptr.To(int64(seconds))
	}
	switch mode, _ := l.Get("mode"); mode {
	case "indexed":
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	case "per-index":
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = ptr.To[int32](1), ptr.To[int32](2147483647)
	case "late":
		j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	}
	return create(u, j)
}

func newJob(name, image string, completions, parallelism int32) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		Completions: &completions, Parallelism: &parallelism, Template: Template(name, image),
	}}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return j
}

func disturbJob(u *User, l script.Line) error {
	n, _ := l.Int("parallelism")
	edits := map[string]func(*batchv1.Job){
		"suspend": func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) },
		"resume":  func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) },
		"scale":   func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To(int32(n)) },
		"resize":  func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr.To(int32(n)), ptr.To(int32(n)) },
		"gang": func(j *batchv1.Job) {
			if j.Spec.Scheduling != nil {
				j.Spec.Scheduling = schedulingOf(int32(n))
			}
		},
	}
	do, _ := l.Get("do")
	if do == "delete" {
		return removeAsToldBy[*batchv1.Job](u, l.Arg(0), l)
	}
	if edits[do] == nil {
		return fmt.Errorf("a Job can be suspended, resumed, scaled, resized, of another gang, and deleted, not %q", do)
	}
	return edit(u, l.Arg(0), edits[do])
}

// unsettledJobs returns what is wrong about Jobs and their pods in a world at rest.
func unsettledJobs(s *View) (wrong []string) {
	jobs, active, pods := map[types.UID]*batchv1.Job{}, map[types.UID]int{}, map[types.UID][]*corev1.Pod{}
	for _, j := range subjects[*batchv1.Job](s) {
		jobs[j.UID] = j
	}
	for _, p := range all[*corev1.Pod](s) {
		ref := metav1.GetControllerOf(p)
		tracked := slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer)
		over := ended(p)
		if ref == nil {
			if tracked {
				wrong = append(wrong, fmt.Sprintf("the pod %s belongs to nobody and has the finalizer of a Job", p.Name))
			}
			continue
		}
		if j := jobs[ref.UID]; tracked && (over || j == nil || jobOver(j)) && (j == nil || !heldForIndex(j, p)) {
			wrong = append(wrong,
				fmt.Sprintf("the pod %s of the Job %s still has the finalizer in phase %s", p.Name, ref.Name, p.Status.Phase))
		}
		if !over && p.DeletionTimestamp == nil {
			active[ref.UID]++
		}
		pods[ref.UID] = append(pods[ref.UID], p)
	}
	for uid, j := range jobs {
		problem := ""
		switch n := active[uid]; {
		case ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName: // JOB-13
		case int(j.Status.Active) != n:
			problem = fmt.Sprintf("its status says that %d pods are active, and %d are", j.Status.Active, n)
		case ptr.Deref(j.Spec.Suspend, false) && n > 0:
			problem = fmt.Sprintf("it is suspended, and %d pods are active", n)
		case !ptr.Deref(j.Spec.Suspend, false) && !jobOver(j) && n == 0 && *j.Spec.Parallelism > 0 && j.DeletionTimestamp == nil &&
			!inBackoff(s, j, pods[uid]):
			problem = "no pod is active, and it is not over"
		}
		if problem != "" {
			wrong = append(wrong, fmt.Sprintf("Job %s: %s", j.Name, problem))
		}
	}
	wrong = append(wrong, unsettledGroups(s, jobs)...)
	slices.Sort(wrong)
	return wrong
}

// heldForIndex reports whether a failed pod of a suspended Job may keep its finalizer until its index runs again (JOB-67).
func heldForIndex(j *batchv1.Job, p *corev1.Pod) bool {
	return j.Spec.BackoffLimitPerIndex != nil && ptr.Deref(j.Spec.Suspend, false) && !jobOver(j) && p.Status.Phase == corev1.PodFailed
}

// inBackoff reports whether a Job may still wait before it replaces its last failed pod, because so many have failed since the latest
// success (JOB-30, JOB-31), those included that were deleted since. Limits for each index are so low here that the delay is over before
// the world rests.
func inBackoff(s *View, j *batchv1.Job, pods []*corev1.Pod) bool {
	if j.Spec.BackoffLimitPerIndex != nil {
		return false
	}
	var success, last time.Time
	ended := map[types.UID]time.Time{}
	note := func(p *corev1.Pod) {
		if p.Status.Phase == corev1.PodFailed && p.DeletionTimestamp == nil {
			ended[p.UID] = podEnded(p)
		}
	}
	for _, c := range s.Changes("pods") {
		if p, ok := c.Object.(*corev1.Pod); ok && metav1.IsControlledBy(p, j) {
			note(p)
		}
	}
	for _, p := range pods {
		if note(p); p.Status.Phase == corev1.PodSucceeded && podEnded(p).After(success) {
			success = podEnded(p)
		}
	}
	failures := 0
	for _, at := range ended {
		if !at.After(success) {
			continue
		}
		failures++
		if at.After(last) {
			last = at
		}
	}
	return failures > 0 && time.Since(last) < min(10*time.Second<<min(failures-1, 10), 10*time.Minute)
}

// podEnded is when a pod that has ended became unready: the containers of the simulation do not tell when they ended (JOB-32).
func podEnded(p *corev1.Pod) time.Time {
	if c := readyCondition(p); c != nil && c.Status == corev1.ConditionFalse {
		return c.LastTransitionTime.Time
	}
	return p.CreationTimestamp.Time
}

// jobOver reports whether a Job is complete or has failed.
func jobOver(j *batchv1.Job) bool { return finishedJob(j) != nil }

var jobMutants = []Mutant{
	{
		Name: "pods lose the finalizer before they are listed",
		Edits: []Edit{{"pkg/controllers/job/plan_count.go",
			"case c.listed[p.UID]:", "case c.listed[p.UID] || p.Status.Phase == corev1.PodSucceeded:"}},
		Script: withoutElection + `
			at 1s   job sum completions=4 parallelism=2 image=done:1`,
		Oracle: "S18",
	},
	{
		Name: "pods are counted when they are listed and once more",
		Edits: []Edit{{"pkg/controllers/job/report.go",
			"r.status.Succeeded, r.status.Failed = r.succeeded, r.failed",
			"r.status.Succeeded, r.status.Failed = r.succeeded+int32(len(lists.Succeeded)), r.failed"}},
		Script: withoutElection + `
			at 1s   job sum completions=6 parallelism=3 image=done:1`,
		Oracle: "S18",
	},
	{
		Name: "the status lists all pods that have ended", // JOB-42
		Edits: []Edit{{"pkg/controllers/job/report.go",
			"room := max(0, burst-len(r.listed))", "room := max(9*burst, burst-len(r.listed))"},
			{"pkg/controllers/job/report.go", "succeeded := r.newSucceeded[:min(burst, len(r.newSucceeded))]",
				"succeeded := r.newSucceeded[:min(9*burst, len(r.newSucceeded))]"}},
		Script: withoutElection + `
			at 1s   job sum completions=900 parallelism=900 image=done:1
			at 2s   fault m0 pause for=30s`,
		Oracle: "S18",
	},
	{
		Name: "all completions are started at once",
		Edits: []Edit{{"pkg/controllers/job/plan.go",
			"return min(workloads.Parallelism(s.Job), max(0, workloads.Completions(s.Job)-succeeded))",
			"return max(0, workloads.Completions(s.Job)-succeeded)"}},
		Script: withoutElection + `
			at 1s   job sum completions=6 parallelism=2 image=done:1`,
		Oracle: "S19",
	},
	{
		Name: "completed indexes are run again",
		Edits: []Edit{{"pkg/controllers/job/plan_create.go",
			"if done, ok := s.completed.find(index); ok {", "if done, ok := s.completed[:0].find(index); ok {"}},
		Script: withoutElection + `
			at 1s   job sum completions=6 parallelism=2 image=done:1 mode=indexed
			at 40s  editjob sum do=delete`,
		Oracle: "S19",
	},
	{
		Name: "pods keep the finalizer when their Job is gone",
		Edits: []Edit{{"pkg/controllers/job/plan_orphans.go",
			"return isJob(ref) && (s.Job == nil || ", "return isJob(ref) && s.Job != nil && ("}},
		Script: withoutElection + `
			at 1s   job sum completions=2 parallelism=2 image=good:1
			at 20s  editjob sum do=delete`,
		Oracle: SettledOracle,
	},
	{
		Name: "a suspended Job keeps its pods",
		Edits: []Edit{{"pkg/controllers/job/plan.go",
			"case workloads.Suspended(s.Job):", "case workloads.Suspended(s.Job) && len(s.active) == 0:"}},
		Script: withoutElection + `
			at 1s   job sum completions=2 parallelism=2 image=good:1
			at 20s  editjob sum do=suspend`,
		Oracle: SettledOracle,
	},
}

var jobMalformed = map[string]string{
	"workloads/absurd": `{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"Workload","metadata":{"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job",
		"name":"absurd","uid":"jobs/absurd","controller":true}],${META}},"spec":{"controllerRef":{"kind":"","name":""},"podGroupTemplates":[{"name":"",
		"schedulingPolicy":{"basic":{},"gang":{"minCount":-1}}},{"name":"","schedulingPolicy":{}}]}}`,
	"jobs/no-selector": `{"apiVersion":"batch/v1","kind":"Job","metadata":${META},"spec":{"template":{}}}`,
	"jobs/absurd": `{"apiVersion":"batch/v1","kind":"Job","metadata":${META},"spec":{"parallelism":-3,"completions":-1,"backoffLimit":-7,"completionMode":"Indexed",
		"backoffLimitPerIndex":-1,"maxFailedIndexes":-1,"activeDeadlineSeconds":-9223372036854775808,"selector":{"matchLabels":{"job":"absurd"}},
		"podFailurePolicy":{"rules":[{"action":"Sing"},{"action":"FailJob","onExitCodes":{"operator":"In","values":[0]}}]},"successPolicy":{"rules":[{}]},
		"template":{"metadata":{"labels":{"job":"absurd"}},"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}},
		"status":{"active":-1,"succeeded":-5,"failed":-5,"completedIndexes":"9-1,x,-4,99999999999","failedIndexes":",,",
			"uncountedTerminatedPods":{"succeeded":["","gone"],"failed":["gone","gone"]},"conditions":[{"type":"Suspended","status":"Maybe"}]}}`,
	"jobs/no-mode": `{"apiVersion":"batch/v1","kind":"Job","metadata":${META},"spec":{"completionMode":"Sideways","selector":{"matchLabels":{"job":"no-mode"}},
		"template":{"metadata":{"labels":{"job":"no-mode"}}}}}`,
	"pods/no-index": `{"apiVersion":"v1","kind":"Pod","metadata":{"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"absurd","uid":"jobs/absurd","controller":true}],
		"labels":{"job":"absurd"},"finalizers":["batch.kubernetes.io/job-tracking"],"annotations":{"batch.kubernetes.io/job-completion-index":"-1",
		"batch.kubernetes.io/job-index-failure-count":"1e9"},${META}},"spec":{"nodeName":"nowhere","containers":[{"name":"a"}]},"status":{"phase":"Failed"}}`,
}

var jobScenarios = []Scenario{
	{Name: "run a Job", Play: func(u *User) {
		u.createJob("sum", 4, 2)
		u.endJobs(1, func(int) string { return "Succeeded" })
		u.waitJobCondition(1, batchv1.JobComplete)
	}},
}

var jobBudgets = []Budget{{
	Name: "run 20 Jobs of 5 pods", Floor: floor.Writes{Other: 200, Status: 60},
	Do: func(u *User) {
		u.Each(20, func(i int) error { u.createJob(fmt.Sprint("sum-", i), 5, 5); return nil })
		u.waitJobPods(100)
		u.endJobs(20, func(int) string { return "Succeeded" })
		u.waitJobCondition(20, batchv1.JobComplete)
	},
}}

// createJob makes a Job whose pods run until somebody ends them.
func (u *User) createJob(name string, completions, parallelism int32) {
	u.Helper()
	u.Create(endlessJob(name, completions, parallelism))
}

func endlessJob(name string, completions, parallelism int32) *batchv1.Job {
	j := newJob(name, "sum:1", completions, parallelism)
	j.Spec.Template.Annotations = map[string]string{cluster.NeverReady: "true"} // else they would end at once
	return j
}

// waitJobPods waits until so many pods of the namespace run.
func (u *User) waitJobPods(n int) {
	u.Helper()
	AwaitAll(u, n, func(p *corev1.Pod) error { return unless(p.Status.Phase == corev1.PodRunning, p.Status.Phase) })
}

// endJobs ends all pods that run, until n Jobs are about to end.
func (u *User) endJobs(n int, as func(i int) string) {
	u.Helper()
	u.Wait("the pods have ended", Patience, func() error {
		for i, p := range u.Pods() {
			if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
				continue
			}
			document := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":%q}}`, p.UID, as(i))
			if err := patch[*corev1.Pod](u.as("kubelet"), p.Name, document, "status"); ignoreNotFound(err) != nil {
				return err
			}
		}
		jobs, err := list[*batchv1.Job](u)
		over := 0
		for _, j := range jobs {
			if slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Status == corev1.ConditionTrue }) {
				over++
			}
		}
		if err == nil && over < n {
			err = fmt.Errorf("%d of %d Jobs are about to end", over, n)
		}
		return err
	})
}

// waitJobCondition waits until so many Jobs have the condition.
func (u *User) waitJobCondition(n int, t batchv1.JobConditionType) {
	u.Helper()
	AwaitAll(u, n, func(j *batchv1.Job) error { return unless(hasCondition(j, t), j.Status) })
}

func hasCondition(j *batchv1.Job, t batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions,
		func(c batchv1.JobCondition) bool { return c.Type == t && c.Status == corev1.ConditionTrue })
}
