package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// The names of what the Job of the tests has.
var (
	sumWorkload = workloadName(sum(0))
	sumGroup    = podGroupName("job", sumWorkload, "sum-pgt-0")
)

// gang lets a Job be scheduled as a whole; without a size it is that of the Job.
func gang(size ...int32) jobEdit {
	return func(j *batchv1.Job) {
		of := &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{}
		if len(size) > 0 {
			of.MinCount = &size[0]
		}
		j.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{
			SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{Gang: of},
		}
	}
}

func controlledBy(kind string) jobEdit {
	return func(j *batchv1.Job) {
		owner := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: kind, Name: "train", UID: "train", Controller: ptr.To(true)}
		j.OwnerReferences = []metav1.OwnerReference{owner}
	}
}

func annotated(pairs ...string) jobEdit {
	return func(j *batchv1.Job) {
		for i := 0; i < len(pairs); i += 2 {
			j.Annotations = with(j.Annotations, pairs[i], pairs[i+1])
		}
	}
}

func ownGroup(j *batchv1.Job) {
	j.Spec.Template.Spec.SchedulingGroup = inGroup("theirs").Spec.SchedulingGroup
}

func inGroup(name string) *corev1.Pod { return pod("x", grouped(name)) }

func grouped(name string) podEdit {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
}

// made is what the controller makes for the Job: the objects are as the edits leave them.
func made(t testing.TB, j *batchv1.Job, edits ...func(*scheduling)) *scheduling {
	t.Helper()
	w, err := newWorkload(j)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newPodGroup(j, w)
	if err != nil {
		t.Fatal(err)
	}
	w.UID, g.UID = "workload", "group"
	s := &scheduling{Workload: w, PodGroup: g}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func noWorkload(s *scheduling) { s.Workload = nil }

func noPodGroup(s *scheduling) { s.PodGroup = nil }

func dyingPodGroup(s *scheduling) { s.PodGroup.DeletionTimestamp = ptr.To(ago(0)) }

// theirs is a Workload of somebody else with a template for gangs of three.
func theirs() *schedulingv1beta1.Workload {
	return &schedulingv1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "train"},
		Spec: schedulingv1beta1.WorkloadSpec{PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{
			{Name: "driver"},
			{Name: "worker", SchedulingPolicy: gangOf(3), PriorityClassName: "high"},
		}},
	}
}

func gangOf(n int32) schedulingv1beta1.PodGroupSchedulingPolicy {
	return schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: n}}
}

func TestPlanGroup(t *testing.T) {
	fresh := func(edits ...jobEdit) *batchv1.Job { return sum(4, append([]jobEdit{notStarted}, edits...)...) }
	begun := func(edits ...jobEdit) *batchv1.Job { return sum(4, edits...) }
	byName := annotated(workloadNameAnnotation, "train", groupTemplateAnnotation, "worker")
	byOwner := func(j *batchv1.Job) { controlledBy("TrainJob")(j); annotated(groupTemplateAnnotation, "worker")(j) }
	theirGroup := podGroupName("job", "train", "worker")
	mine, others := pod("a", grouped(sumGroup)), pod("b")
	in := func(n int, group string) string { return fmt.Sprintf("create %d in %s", n, group) }
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		has  *scheduling
		pods []*corev1.Pod
		want []string
	}{
		{"JOB-111 without the gate: pods alone", fresh(), nil, nil, []string{"create 4"}},
		{"JOB-130 no API: pods alone", fresh(), &scheduling{Unserved: true}, nil, []string{"create 4"}},
		{"also where some run", begun(gang()), &scheduling{Unserved: true}, list(others), []string{"create 3"}},
		{"JOB-134 but none for a Job that asks for a group", fresh(gang()), &scheduling{Unserved: true}, nil,
			[]string{"event FailedPodGroupCreate"}},
		{"nor for one that has pods of a group", begun(), &scheduling{Unserved: true}, list(mine), []string{"event FailedPodGroupCreate"}},
		{"JOB-134 a new Job: the Workload, the PodGroup, and then pods that belong to it", fresh(), &scheduling{}, nil,
			[]string{"create Workload", "create PodGroup", in(4, sumGroup)}},
		{"JOB-132 a gang", fresh(gang()), &scheduling{}, nil,
			[]string{"create Workload of 4", "create PodGroup of 4", in(4, sumGroup)}},
		{"JOB-132 of a size that is given", fresh(gang(2)), &scheduling{}, nil,
			[]string{"create Workload of 2", "create PodGroup of 2", in(4, sumGroup)}},
		{"JOB-132 of the pods that may run at a time", fresh(gang(), parallel(3)), &scheduling{}, nil,
			[]string{"create Workload of 3", "create PodGroup of 3", in(3, sumGroup)}},
		{"JOB-139 no larger than the Job will ever be", fresh(gang(), parallel(9)), &scheduling{}, nil,
			[]string{"create Workload of 4", "create PodGroup of 4", in(4, sumGroup)}},
		{"JOB-132 at least one", fresh(gang(), parallel(0)), &scheduling{}, nil,
			[]string{"create Workload of 1", "create PodGroup of 1"}},
		{"JOB-132 the size follows parallelism", begun(gang()), made(t, begun(gang(), parallel(3))), list(mine),
			[]string{"resize Workload of 4", "resize PodGroup of 4", in(3, sumGroup)}},
		{"JOB-132 also downwards", begun(gang(), parallel(1)), made(t, begun(gang())), list(mine),
			[]string{"resize Workload of 1", "resize PodGroup of 1"}},
		{"JOB-132 a PodGroup that is being deleted is left alone", begun(gang()), made(t, begun(gang(), parallel(3)), dyingPodGroup),
			list(mine), []string{"resize Workload of 4", in(3, sumGroup)}},
		{"JOB-132 nothing has changed", begun(gang()), made(t, begun(gang())), list(mine), []string{in(3, sumGroup)}},
		{"a process that died after the Workload", fresh(gang()), made(t, begun(gang()), noPodGroup), nil,
			[]string{"create PodGroup of 4", in(4, sumGroup)}},
		{"a Workload that somebody has deleted comes back", begun(), made(t, begun(), noWorkload), list(mine),
			[]string{"create Workload", in(3, sumGroup)}},
		{"so does a PodGroup that pods belong to", begun(), made(t, begun(), noPodGroup), list(mine),
			[]string{"create PodGroup", in(3, sumGroup)}},
		{"one of another name, as another manager has made it", begun(),
			made(t, begun(), func(s *scheduling) { s.PodGroup.Name = "other" }), list(mine), []string{in(3, "other")}},

		{"JOB-130 somebody else controls the Job: pods alone", fresh(controlledBy("JobSet")), &scheduling{}, nil, []string{"create 4"}},
		{"JOB-130 unless it asks for a group", fresh(controlledBy("JobSet"), gang()), &scheduling{}, nil,
			[]string{"create Workload of 4", "create PodGroup of 4", in(4, sumGroup)}},
		{"JOB-130 the template has a group: that is left as it is", fresh(ownGroup), &scheduling{}, nil, []string{in(4, "theirs")}},
		{"JOB-130 a Job that has begun without a group goes on so", begun(), &scheduling{}, list(others), []string{"create 3"}},
		{"also if it asks for one: none has pods of both kinds", begun(gang()), &scheduling{}, list(mine, others), []string{"create 2"}},
		{"a PodGroup that its pods have not got is not used", begun(gang()), made(t, begun(gang())), list(others), []string{"create 3"}},
		{"and if its pods are gone", sum(4, counters(1, 0, batchv1.UncountedTerminatedPods{})), &scheduling{}, nil, []string{"create 3"}},
		{"but if it asks for one and no pod runs, it has one",
			sum(4, gang(), counters(1, 0, batchv1.UncountedTerminatedPods{})), &scheduling{}, nil,
			[]string{"create Workload of 4", "create PodGroup of 4", in(3, sumGroup)}},

		{"JOB-133 somebody else's Workload by name: the PodGroup alone", fresh(byName), &scheduling{Workload: theirs()}, nil,
			[]string{"create PodGroup of 3", in(4, theirGroup)}},
		{"JOB-133 or by who controls the Job", fresh(byOwner), &scheduling{Workload: theirs()}, nil,
			[]string{"create PodGroup of 3", in(4, theirGroup)}},
		{"JOB-133 its size follows the template", begun(byName),
			&scheduling{Workload: theirs(), PodGroup: &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: theirGroup},
				Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gangOf(7)}}}, list(pod("a", grouped(theirGroup))),
			[]string{"resize PodGroup of 3", in(3, theirGroup)}},
		{"a Workload that is gone is not needed any more", begun(byName), made(t, begun(), noWorkload), nil,
			[]string{in(4, sumGroup)}},
		{"nor is its template", begun(annotated(workloadNameAnnotation, "train", groupTemplateAnnotation, "cook")),
			made(t, begun(), func(s *scheduling) { s.Workload = theirs() }), nil, []string{in(4, sumGroup)}},
		{"JOB-133 there is no such Workload: no pod", fresh(byName), &scheduling{}, nil, []string{"event FailedPodGroupCreate"}},
		{"JOB-133 it has no such template: no pod",
			fresh(annotated(workloadNameAnnotation, "train", groupTemplateAnnotation, "cook")), &scheduling{Workload: theirs()}, nil,
			[]string{"event FailedPodGroupCreate"}},
		{"JOB-133 no template is called so: no pod",
			fresh(annotated(workloadNameAnnotation, "train", groupTemplateAnnotation, strings.Repeat("x", 64))),
			&scheduling{Workload: theirs()}, nil, []string{"event FailedPodGroupCreate"}},
		{"JOB-133 the name of a template alone means nothing to a Job that nobody controls",
			fresh(annotated(groupTemplateAnnotation, "worker")), &scheduling{}, nil,
			[]string{"create Workload", "create PodGroup", in(4, sumGroup)}},

		{"JOB-135 an object that the Job does not control is not used: no pod", fresh(), &scheduling{WorkloadTaken: true}, nil,
			[]string{"event FailedWorkloadCreate"}},
		{"JOB-135 nor a PodGroup", fresh(), made(t, begun(), noPodGroup, func(s *scheduling) { s.PodGroupTaken = true }), nil,
			[]string{"event FailedPodGroupCreate"}},
		{"a Workload that somebody has given a second template: no pod", fresh(), made(t, begun(), noPodGroup, func(s *scheduling) {
			s.Workload.Spec.PodGroupTemplates = append(s.Workload.Spec.PodGroupTemplates, theirs().Spec.PodGroupTemplates...)
		}), nil, []string{"event FailedPodGroupCreate"}},

		{"JOB-137 a suspended Job makes nothing yet", fresh(gang(), suspend), &scheduling{}, nil, nil},
		{"nor does one that is being deleted", fresh(gang(), dying), &scheduling{}, nil, nil},
		{"nor one that has ended", fresh(gang(), condTrue(batchv1.JobFailureTarget, "x")), &scheduling{}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newView(now, snapshot{Job: c.job, Pods: c.pods, Scheduling: c.has})
			p := planPods(now, s)
			if got := lines(p.Steps); !slices.Equal(got, c.want) {
				t.Error(cmp.Diff(c.want, got))
			}
			if lacks := len(c.want) == 1 && strings.HasPrefix(c.want[0], "event"); lacks && !strings.Contains(p.Why, " pods are missing, but ") {
				t.Errorf("why: %s", p.Why)
			}
		})
	}
}

// The pods of an Indexed Job belong to the PodGroup, too.
func TestJOB130IndexedPodsHaveTheGroup(t *testing.T) {
	s := newView(now, snapshot{Job: sum(2, notStarted, byIndex), Scheduling: &scheduling{}})
	steps := planPods(now, s).Steps
	for _, o := range steps[len(steps)-1].(plan.CreateAll).Objects {
		if g := o.(*corev1.Pod).Spec.SchedulingGroup; g == nil || *g.PodGroupName != sumGroup {
			t.Errorf("%s: %v", o.GetGenerateName(), g)
		}
	}
}

// What the Job says of its scheduling is what the Workload and the PodGroup say.
func TestJOB132WorkloadAndPodGroup(t *testing.T) {
	j := sum(4, gang(), annotated(parentGroupAnnotation, "cluster"), func(j *batchv1.Job) {
		j.Spec.Scheduling.SchedulingConstraints = &schedulingv1alpha3.WorkloadPodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha3.TopologyConstraint{{Key: "example.com/rack"}}}
		j.Spec.Scheduling.DisruptionMode = &schedulingv1alpha3.WorkloadPodGroupDisruptionMode{
			All: &schedulingv1alpha3.WorkloadPodGroupAllDisruptionMode{}}
		j.Spec.Scheduling.ResourceClaims = []schedulingv1alpha3.WorkloadPodGroupResourceClaim{
			{Name: "net", ResourceClaimTemplateName: ptr.To("fabric")}}
		j.Spec.Template.Spec.PriorityClassName = "high"
	})
	constraints := &schedulingv1beta1.PodGroupSchedulingConstraints{
		Topology: []schedulingv1beta1.TopologyConstraint{{Key: "example.com/rack"}}}
	mode := &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	claims := []schedulingv1beta1.PodGroupResourceClaim{{Name: "net", ResourceClaimTemplateName: ptr.To("fabric")}}
	owners := []metav1.OwnerReference{*metav1.NewControllerRef(j, jobKind)}
	got := made(t, j)
	if diff := cmp.Diff(&scheduling{
		Workload: &schedulingv1beta1.Workload{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: sumWorkload, UID: "workload", OwnerReferences: owners},
			Spec: schedulingv1beta1.WorkloadSpec{
				ControllerRef: &schedulingv1beta1.TypedLocalObjectReference{APIGroup: "batch", Kind: "Job", Name: "sum"},
				PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{{
					Name: "sum-pgt-0", SchedulingPolicy: gangOf(4), SchedulingConstraints: constraints, DisruptionMode: mode,
					ResourceClaims: claims, PriorityClassName: "high",
				}},
			},
		},
		PodGroup: &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: sumGroup, UID: "group", OwnerReferences: owners},
			Spec: schedulingv1beta1.PodGroupSpec{
				ParentCompositePodGroupName: ptr.To("cluster"),
				WorkloadRef:                 &schedulingv1beta1.WorkloadReference{WorkloadName: sumWorkload, TemplateName: "sum-pgt-0"},
				SchedulingPolicy:            gangOf(4), SchedulingConstraints: constraints, DisruptionMode: mode, ResourceClaims: claims,
				PriorityClassName: "high",
			},
		},
	}, got); diff != "" {
		t.Error(diff)
	}
}

// Only pods count as pods: what they are scheduled by is neither active nor in doubt.
func TestReportAfterGroupWrites(t *testing.T) {
	s := newView(now, snapshot{Job: sum(1, notStarted), Scheduling: &scheduling{}})
	group := made(t, sum(1))
	refused := errors.New("no")
	did := plan.Outcome{Err: refused, Results: []plan.Result{
		{Verb: plan.Created, Object: group.Workload}, {Verb: plan.Changed, Object: group.PodGroup, Err: refused},
	}}
	if got, want := lines(reportStatus(now, s, did).Steps), []string{"status started=true"}; !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}
