package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// cached are caches with these Jobs, Workloads and PodGroups.
func cached(t *testing.T, objects ...plan.Object) *caches {
	t.Helper()
	f := informers.NewFactory(fake.NewClientset(), 0)
	jobs, err := informers.Objects[*batchv1.Job](f)
	if err != nil {
		t.Fatal(err)
	}
	k := &caches{jobs: jobs}
	if k.groups, err = newGroupCaches(f); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		informer := k.jobs.Informer()
		switch o.(type) {
		case *schedulingv1beta1.Workload:
			informer = k.groups.workloads.Informer()
		case *schedulingv1beta1.PodGroup:
			informer = k.groups.podGroups.Informer()
		}
		if err := informer.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func workload(name string, owners ...metav1.OwnerReference) *schedulingv1beta1.Workload {
	return &schedulingv1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: owners}}
}

func podGroup(name string, owners ...metav1.OwnerReference) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: owners}}
}

func ofSum() metav1.OwnerReference { return *metav1.NewControllerRef(sum(0), jobKind) }

// ofTrain is a Workload of whoever controls a Job.
func ofTrain() *schedulingv1beta1.Workload {
	w := workload("train")
	w.Spec.ControllerRef = &schedulingv1beta1.TypedLocalObjectReference{APIGroup: "example.com", Kind: "TrainJob", Name: "train"}
	return w
}

// A row is a Job, what the caches have, and what of it the Job uses.
func TestSchedulingIsFound(t *testing.T) {
	byName := annotated(workloadNameAnnotation, "train", groupTemplateAnnotation, "worker")
	byOwner := func(j *batchv1.Job) { controlledBy("TrainJob")(j); annotated(groupTemplateAnnotation, "worker")(j) }
	theirGroup := podGroupName("job", "train", "worker")
	for _, c := range []struct {
		name               string
		job                *batchv1.Job
		has                []plan.Object
		workload, podGroup string
		taken              []bool
	}{
		{"nothing", sum(1), nil, "", "", []bool{false, false}},
		{"JOB-131 its own, by name", sum(1), []plan.Object{workload(sumWorkload, ofSum()), workload("a", ofSum()),
			podGroup(sumGroup, ofSum()), podGroup("a", ofSum())}, sumWorkload, sumGroup, []bool{false, false}},
		{"JOB-131 its own, of another name", sum(1), []plan.Object{workload("b", ofSum()), workload("a", ofSum()), podGroup("c", ofSum()),
			podGroup("a")}, "a", "c", []bool{false, false}},
		{"JOB-135 those of others have the names", sum(1), []plan.Object{workload(sumWorkload), podGroup(sumGroup)}, "", "",
			[]bool{true, true}},
		{"JOB-133 the Workload that it names", sum(1, byName), []plan.Object{workload("train"), podGroup(theirGroup, ofSum())}, "train",
			theirGroup, []bool{false, false}},
		{"JOB-133 which does not exist", sum(1, byName), []plan.Object{workload("x"), podGroup(theirGroup, ofSum())}, "", theirGroup,
			[]bool{false, false}},
		{"JOB-133 the Workload of its controller", sum(1, byOwner), []plan.Object{ofTrain(), workload("x")}, "train", "",
			[]bool{false, false}},
		{"JOB-133 that of another kind", sum(1, controlledBy("JobSet"), annotated(groupTemplateAnnotation, "worker")),
			[]plan.Object{ofTrain()}, "", "", []bool{false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := cached(t, c.has...).scheduling(c.job)
			workload, podGroup := "", ""
			if s.Workload != nil {
				workload = s.Workload.Name
			}
			if s.PodGroup != nil {
				podGroup = s.PodGroup.Name
			}
			if workload != c.workload || podGroup != c.podGroup || s.WorkloadTaken != c.taken[0] || s.PodGroupTaken != c.taken[1] {
				t.Errorf("%q, %q, %t, %t", workload, podGroup, s.WorkloadTaken, s.PodGroupTaken)
			}
		})
	}
	if s := cached(t).scheduling(sum(1, ownGroup)); s != nil {
		t.Errorf("JOB-130 a Job that does not take part has %v", s)
	}
	if s := (&caches{}).scheduling(sum(1)); s != nil {
		t.Errorf("JOB-111 without the gate there is %v", s)
	}
}

// A row is a change, and the Jobs that it concerns.
func TestJobsThatAreEnqueuedByGroups(t *testing.T) {
	named := func(name string, edits ...jobEdit) *batchv1.Job {
		j := sum(1, edits...)
		j.Name, j.UID = name, "uid of "+j.UID
		return j
	}
	byName := named("named", annotated(workloadNameAnnotation, "train", groupTemplateAnnotation, "worker"))
	byOwner := named("owned", controlledBy("TrainJob"), annotated(groupTemplateAnnotation, "worker"))
	over := named("over", annotated(workloadNameAnnotation, "train", groupTemplateAnnotation, "worker"),
		condTrue(batchv1.JobComplete, "x"))
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          []string
	}{
		{"its own", nil, workload(sumWorkload, ofSum()), []string{"sum"}},
		{"its own of any name", podGroup("x", ofSum()), podGroup("x", ofSum()), []string{"sum"}},
		{"its own is gone", podGroup(sumGroup, ofSum()), nil, []string{"sum"}},
		{"its own becomes nobody's", podGroup("x", ofSum()), podGroup("x"), []string{"sum"}},
		{"what has the name of its own", nil, podGroup(sumGroup), []string{"sum"}},
		{"which goes", workload(sumWorkload), nil, []string{"sum"}},
		{"JOB-133 the Workload that a Job names", nil, workload("train"), []string{"named"}},
		{"JOB-133 the Workload of a Job's controller, too", nil, ofTrain(), []string{"named", "owned"}},
		{"one that concerns nobody", nil, workload("x"), nil},
		{"a PodGroup of a Job that is gone", nil, podGroup("x", metav1.OwnerReference{Kind: "Job", Name: "gone", UID: "x"}), nil},
	} {
		objects := []plan.Object{sum(1), byName, byOwner, over, named("theirs", ownGroup)}
		if c.after != nil {
			objects = append(objects, c.after)
		}
		var names []string
		for _, key := range cached(t, objects...).jobsByGroup(c.before, c.after) {
			names = append(names, key.Name)
		}
		slices.Sort(names)
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// Of several Workloads of whoever controls a Job it is the same one each time, or its PodGroup would change without an end.
func TestOneOfSeveralWorkloadsDecides(t *testing.T) {
	j := sum(1, controlledBy("TrainJob"), annotated(groupTemplateAnnotation, "worker"))
	second := ofTrain()
	second.Name = "train-2"
	k := cached(t, j, second, ofTrain())
	for range 100 {
		if w := k.scheduling(j).Workload; w.Name != "train" {
			t.Fatal(w.Name)
		}
	}
}

// Tenants decide how many Jobs and Workloads a namespace has, and how long annotations are. A change of one Workload costs what it
// concerns.
func TestCostOfAWorkloadThatConcernsNobody(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		edit jobEdit
	}{
		"long annotations": {200, annotated(workloadNameAnnotation, "train", groupTemplateAnnotation, strings.Repeat("x", 200_000))},
		"many Workloads":   {2000, func(j *batchv1.Job) { controlledBy("TrainJob")(j); annotated(groupTemplateAnnotation, "worker")(j) }},
		"many Jobs":        {5000, func(*batchv1.Job) {}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []plan.Object
			for i := range c.n {
				j := sum(1, c.edit)
				j.Name, j.UID = fmt.Sprint("job-", i), types.UID(fmt.Sprint("uid-", i))
				all = append(all, j, workload(fmt.Sprint("w-", i)))
			}
			k := cached(t, all...)
			if took := costs.CPU(func() { k.jobsByGroup(nil, workload("nobody's")) }); costs.Exceeds(took, 5*time.Millisecond) {
				t.Errorf("took %s of CPU", took)
			}
		})
	}
}
