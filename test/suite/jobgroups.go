package suite

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// How a Job takes its PodGroup from a Workload of somebody else.
const (
	workloadAnnotation = "scheduling.k8s.io/workload-name"
	templateAnnotation = "scheduling.k8s.io/group-template-name"
	workerTemplate     = "worker"
)

// gangs is what users do with Jobs whose pods are scheduled as groups. Without the gate nobody asks for that: a server that does not have
// it drops the wish.
func gangs(g *workload.Generator, app string, at, soon time.Duration) {
	if g.Settings["groups"] != "1" {
		return
	}
	parallelism := 1 + g.IntN(5)
	size, of := g.IntN(2)*parallelism, ""
	if g.IntN(4) == 0 {
		of = " workload=plan-" + app
		g.Add(at+g.Early(), "workload plan-%s size=%d", app, 1+g.IntN(4))
		g.Add(soon, "workload plan-%s do=%s", app, workload.Pick(g, "resize size=1", "resize size=3", "delete"))
	} else {
		of = fmt.Sprintf(" gang=%d", size)
	}
	g.Add(at, "job gang-%s completions=%d parallelism=%d image=%s:1%s%s", app, parallelism+g.IntN(5), parallelism,
		workload.Pick(g, actors.Done, actors.Good, actors.Flop), workload.Pick(g, "", " mode=indexed"), of)
	for range 2 {
		g.Add(soon+g.Early(), "%s", workload.Pick(g,
			fmt.Sprintf("editjob gang-%s do=scale parallelism=%d", app, 1+g.IntN(6)),
			fmt.Sprintf("editjob gang-%s do=gang parallelism=%d", app, 1+g.IntN(4)),
			fmt.Sprintf("jobgroup gang-%s do=%s", app, workload.Pick(g, "podgroup", "workload")),
			fmt.Sprintf("pod gang-%s n=%d do=%s", app, g.IntN(5), workload.Pick(g, "delete", "evict")),
			fmt.Sprintf("editjob gang-%s do=delete", app)))
	}
}

// schedulingOf asks for a gang; a size of 0 leaves that to the controller.
func schedulingOf(size int32) *batchv1.JobSchedulingConfiguration {
	gang := &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{}
	if size > 0 {
		gang.MinCount = &size
	}
	return &batchv1.JobSchedulingConfiguration{SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{Gang: gang}}
}

// planJobs makes a Workload for Jobs that name it, changes the size of its gangs, or deletes it.
func planJobs(u *User, l script.Line) error {
	n, _ := l.Int("size")
	policy := schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(n)}}
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*schedulingv1beta1.Workload](u, l.Arg(0))
	case "resize":
		return edit(u, l.Arg(0), func(w *schedulingv1beta1.Workload) { w.Spec.PodGroupTemplates[0].SchedulingPolicy = policy })
	}
	return create(u, &schedulingv1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: l.Arg(0)}, Spec: schedulingv1beta1.WorkloadSpec{
		PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{{Name: workerTemplate, SchedulingPolicy: policy}},
	}})
}

// takeGroup deletes the PodGroup or the Workload of a Job, whoever protects it.
func takeGroup(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "workload" {
		return takeFrom[*schedulingv1beta1.Workload](u, l.Arg(0))
	}
	return takeFrom[*schedulingv1beta1.PodGroup](u, l.Arg(0))
}

// takeFrom deletes the objects of a kind that a Job controls.
func takeFrom[T Object](u *User, job string) error {
	objects, err := list[T](u)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if ref := metav1.GetControllerOf(o); ref == nil || ref.Name != job {
			continue
		}
		for _, err := range []error{
			edit(u, o.GetName(), func(o T) { o.SetFinalizers(nil) }), remove[T](u, o.GetName()),
		} {
			if ignoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}

// unsettledGroups returns what is wrong about the Workloads and PodGroups of Jobs in a world at rest.
func unsettledGroups(s *View, jobs map[types.UID]*batchv1.Job) (wrong []string) {
	judge := func(o Object, policy schedulingv1beta1.PodGroupSchedulingPolicy) {
		ref := metav1.GetControllerOf(o)
		if ref == nil || ref.Kind != "Job" || o.GetDeletionTimestamp() != nil {
			return
		}
		j := jobs[ref.UID]
		if j == nil {
			wrong = append(wrong, fmt.Sprintf("the %s %s is left of the Job %s", kindOf(o).Kind, o.GetName(), ref.Name))
		} else if want := gangSize(s, j); policy.Gang != nil && want > 0 && policy.Gang.MinCount != want {
			wrong = append(wrong, fmt.Sprintf("the gang of the %s %s is of %d, and that of the Job %s of %d", kindOf(o).Kind, o.GetName(),
				policy.Gang.MinCount, j.Name, want))
		}
	}
	for _, w := range all[*schedulingv1beta1.Workload](s) {
		if len(w.Spec.PodGroupTemplates) == 1 {
			judge(w, w.Spec.PodGroupTemplates[0].SchedulingPolicy)
		}
	}
	for _, g := range all[*schedulingv1beta1.PodGroup](s) {
		judge(g, g.Spec.SchedulingPolicy)
	}
	return wrong
}

// gangSize is how large the gang of a Job shall be; 0 if nobody looks after that.
func gangSize(s *View, j *batchv1.Job) int32 {
	if name := j.Annotations[workloadAnnotation]; name != "" {
		if w := one[*schedulingv1beta1.Workload](s, j.Namespace, name); w != nil {
			j = j.DeepCopy()
			j.Spec.Scheduling = schedulingOf(w.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang.MinCount)
		}
	}
	switch scheduling := j.Spec.Scheduling; {
	case scheduling == nil || jobOver(j) || ptr.Deref(j.Spec.Suspend, false) || j.DeletionTimestamp != nil:
		return 0
	case scheduling.SchedulingPolicy.Gang.MinCount != nil:
		return *scheduling.SchedulingPolicy.Gang.MinCount
	}
	return max(1, min(*j.Spec.Parallelism, ptr.Deref(j.Spec.Completions, *j.Spec.Parallelism)))
}

var groupMutants = []Mutant{
	{
		Name:  "pods of a gang are created outside of it",
		Edits: []Edit{{"pkg/controllers/job/plan_create.go", `if s.group.name != "" {`, `if s.group.name == "-" {`}},
		Script: withoutElection + `
			set groups 1
			at 1s   job sum completions=4 parallelism=2 image=done:1 gang=2`,
		Oracle: "S43",
	},
	{
		Name: "pods are created before their PodGroup",
		Edits: []Edit{{"pkg/controllers/job/plan.go",
			"p.Steps = slices.Concat(s.group.steps, p.Steps)", "p.Steps = slices.Concat(p.Steps, s.group.steps)"}},
		Script: withoutElection + `
			set groups 1
			at 1s   job sum completions=4 parallelism=2 image=done:1 gang=2`,
		Oracle: "S43",
	},
	{
		Name: "a gang keeps the size that it began with",
		Edits: []Edit{{"pkg/controllers/job/plan_group.go",
			"policy.Gang.MinCount == wanted.Gang.MinCount ||", "policy.Gang.MinCount > 0 ||"}},
		Script: withoutElection + `
			set groups 1
			at 1s   job sum completions=9 parallelism=2 image=good:1 gang=0
			at 20s  editjob sum do=scale parallelism=4`,
		Oracle: SettledOracle,
	},
	{
		Name: "the Workload that a Job names is ignored",
		Edits: []Edit{{"pkg/controllers/job/plan_group.go",
			`return j.Annotations[groupTemplateAnnotation] != "" &&`, `return j.Annotations[groupTemplateAnnotation] == "-" &&`}},
		Script: withoutElection + `
			set groups 1
			at 1s   workload plan size=2
			at 2s   job sum completions=4 parallelism=2 image=done:1 workload=plan`,
		Oracle: "S43",
	},
	{
		Name: "pods do not wait for the Workload that their Job names",
		Edits: []Edit{{"pkg/controllers/job/plan.go",
			`case missing > 0 && s.group.lacking != "":`, `case missing > 0 && s.group.lacking == "-":`}},
		Script: withoutElection + `
			set groups 1
			at 1s   job sum completions=4 parallelism=2 image=done:1 workload=plan
			at 30s  workload plan size=2`,
		Oracle: "S43",
	},
	{
		Name: "a PodGroup that is gone does not come back",
		Edits: []Edit{{"pkg/controllers/job/plan_group.go",
			"return !slices.ContainsFunc(s.active, ungrouped)", "return !slices.ContainsFunc(s.active, ungrouped) && len(s.active) > 99"}},
		Script: withoutElection + `
			set groups 1
			at 1s   job sum completions=6 parallelism=3 image=good:1 gang=2
			at 20s  jobgroup sum do=podgroup
			at 40s  pod sum n=0 do=delete`,
		Oracle: "S43",
	},
}

var groupScenarios = []Scenario{{
	Name: "run a gang that grows", Play: func(u *User) {
		u.createGang("gang", TerminatedThreshold, 2) // of more, podgc would delete some when its period is over
		u.waitJobPods(2)
		u.Try("scale the gang", func() error {
			return edit(u, "gang", func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](3) })
		})
		u.waitJobPods(3)
		AwaitAll(u, 1, func(g *schedulingv1beta1.PodGroup) error {
			return unless(g.Spec.SchedulingPolicy.Gang.MinCount == 3, g.Spec.SchedulingPolicy)
		})
		u.endJobs(1, func(int) string { return "Succeeded" })
		u.waitJobCondition(1, batchv1.JobComplete)
	},
}}

var groupBudgets = []Budget{{
	// of each Job its Workload and its PodGroup, besides its pods
	Name: "run 10 gangs of 5 pods", Floor: floor.Writes{Other: 120, Status: 30}, Flags: []string{"--feature-gates=WorkloadWithJob=true"},
	Do: func(u *User) {
		u.Each(10, func(i int) error { u.createGang(fmt.Sprint("gang-", i), 5, 5); return nil })
		u.waitJobPods(50)
		u.endJobs(10, func(int) string { return "Succeeded" })
		u.waitJobCondition(10, batchv1.JobComplete)
	},
}}

// createGang makes a Job that is scheduled as a whole, whose pods run until somebody ends them.
func (u *User) createGang(name string, completions, parallelism int32) {
	u.Helper()
	j := endlessJob(name, completions, parallelism)
	j.Spec.Scheduling = schedulingOf(0)
	u.Create(j)
}
