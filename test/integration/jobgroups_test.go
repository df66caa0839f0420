package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/suite"
)

// Jobs have a Workload and a PodGroup, and their pods belong to it. Where the API server does not serve these kinds, Jobs run without.
func TestJobsAreScheduledAsGroups(t *testing.T) { // JOB-111, JOB-130 to JOB-136
	b := alone(t)
	b.Manager(t, suite.GatesFlag)
	if !serves(t, b.Cluster, schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")) {
		b.createJob("plain", 2)
		if names := b.groupsOfPods("plain", 2); len(names) > 0 {
			t.Errorf("pods belong to %v", names)
		}
		return
	}
	b.livesOfGangs()
}

// livesOfGangs runs Jobs as gangs: one that grows and goes, one that takes its PodGroup from somebody else's Workload, and one that asks
// for nothing.
func (b *bench) livesOfGangs() {
	b.Helper()
	if !serves(b.T, b.Cluster, schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")) {
		return // it was not there, or is not enabled
	}
	b.createJob("gang", 2, func(j *batchv1.Job) {
		j.Spec.Completions = ptr.To[int32](6)
		j.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{}}}
	})
	b.ofOneGroup("gang", 2, 2)
	b.eventsOfGroups("gang")
	if _, err := b.Client.BatchV1().Jobs(b.ns).Patch(b.Context(), "gang", types.MergePatchType, []byte(`{"spec":{"parallelism":3}}`),
		metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	b.ofOneGroup("gang", 3, 3)

	if _, err := b.Client.SchedulingV1beta1().Workloads(b.ns).Create(b.Context(), &schedulingv1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: schedulingv1beta1.WorkloadSpec{
			PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{{Name: "worker",
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
					Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1}}}},
		}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.createJob("worker", 2, func(j *batchv1.Job) {
		j.Annotations = map[string]string{
			"scheduling.k8s.io/workload-name": "train", "scheduling.k8s.io/group-template-name": "worker"}
	})
	b.ofOneGroup("worker", 2, 1)
	b.createJob("plain", 1)
	b.ofOneGroup("plain", 1, 0)

	for _, name := range []string{"gang", "worker", "plain"} {
		if err := b.Client.BatchV1().Jobs(b.ns).Delete(b.Context(), name,
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}); err != nil {
			b.Fatal(err)
		}
	}
	b.wait("JOB-135: nothing is left but the Workload of somebody else", func() error {
		workloads, err := b.Client.SchedulingV1beta1().Workloads(b.ns).List(b.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		groups, err := b.Client.SchedulingV1beta1().PodGroups(b.ns).List(b.Context(), metav1.ListOptions{})
		if err == nil && (len(workloads.Items) != 1 || len(groups.Items) != 0) {
			err = fmt.Errorf("there are %d and %d", len(workloads.Items), len(groups.Items))
		}
		return err
	})
}

// groupsOfPods waits until n pods of a Job run, and returns how many of them name which PodGroup.
func (b *bench) groupsOfPods(job string, n int) map[string]int {
	b.Helper()
	names := map[string]int{}
	for _, p := range b.podsOfJob(job, n) {
		if s := p.Spec.SchedulingGroup; s != nil {
			names[*s.PodGroupName]++
		}
	}
	return names
}

// ofOneGroup waits until n pods of a Job run, and its PodGroup is a gang of that size, or none if that is 0. All pods belong to it.
func (b *bench) ofOneGroup(job string, n int, size int32) {
	b.Helper()
	names := b.groupsOfPods(job, n)
	name := slices.Collect(maps.Keys(names))
	if len(name) != 1 || names[name[0]] != n {
		b.Fatalf("JOB-130: pods of %s belong to %v", job, names)
	}
	b.wait("JOB-132: the PodGroup of "+job+" has its size", func() error {
		g, err := b.Client.SchedulingV1beta1().PodGroups(b.ns).Get(b.Context(), name[0], metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ref := metav1.GetControllerOf(g); ref == nil || ref.Name != job {
			b.Fatalf("JOB-135: the PodGroup of %s has the owners %v", job, g.OwnerReferences)
		}
		if gang := g.Spec.SchedulingPolicy.Gang; size == 0 && gang != nil || size > 0 && (gang == nil || gang.MinCount != size) {
			return fmt.Errorf("it is %v", g.Spec.SchedulingPolicy)
		}
		return nil
	})
}

// eventsOfGroups waits for the events about what a Job is scheduled by.
func (b *bench) eventsOfGroups(job string) {
	b.Helper()
	b.wait("JOB-136: there are events about what "+job+" is scheduled by", func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(b.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Job,involvedObject.name=" + job + ",source=job-controller"})
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, e := range list.Items {
			seen[e.Type+" "+e.Reason] = true
		}
		for _, want := range []string{"Normal WorkloadCreated", "Normal PodGroupCreated"} {
			if !seen[want] {
				return fmt.Errorf("there is no %s among %v", want, seen)
			}
		}
		return nil
	})
}
