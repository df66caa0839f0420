package statefulset

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// statusOf is what is reported, nil if nothing is.
func statusOf(s snapshot, did plan.Outcome) (*appsv1.StatefulSetStatus, plan.Plan) {
	p := reported(plantest.Epoch.Add(10*time.Second), s, did)
	for _, step := range p.Steps {
		if change, ok := step.(plan.Change); ok {
			return &change.New.(*appsv1.StatefulSet).Status, p
		}
	}
	return nil, p
}

func TestStatus(t *testing.T) {
	base := web(4)
	v1, v2 := revision("v1", 1, base), revision("v2", 2, base)
	current := func(set *appsv1.StatefulSet) { set.Status.CurrentRevision = v1.Name }
	noPhase := func(p *corev1.Pod) { p.Status.Phase = "" }
	for _, c := range []struct {
		name    string
		set     *appsv1.StatefulSet
		pods    []*corev1.Pod
		deleted int // that many of the pods, from the last, are deleted by the plan
		want    appsv1.StatefulSetStatus
	}{
		{
			"STS-60 an update on its way", web(4, image("v2"), current),
			[]*corev1.Pod{pod(base, 0, "v1"), pod(base, 1, "v1", unready), pod(base, 2, "v1", plantest.Terminating),
				pod(base, 3, "v2", noPhase)}, 0,
			appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 1,
				CurrentRevision: v1.Name, UpdateRevision: v2.Name},
		},
		{
			"STS-60c ready, but not for long enough", web(1, image("v2"), minReady(30), current), []*corev1.Pod{pod(base, 0, "v2")}, 0,
			appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 0, CurrentReplicas: 1, UpdatedReplicas: 1,
				CurrentRevision: v2.Name, UpdateRevision: v2.Name},
		},
		{
			"STS-61 a pod that was deleted for the update does not count any more", web(2, image("v2"), current),
			[]*corev1.Pod{pod(base, 0, "v1"), pod(base, 1, "v1")}, 1,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 1, CurrentRevision: v1.Name,
				UpdateRevision: v2.Name},
		},
		{
			"STS-62 the update is complete", web(2, image("v2"), current), []*corev1.Pod{pod(base, 0, "v2"), pod(base, 1, "v2")}, 0,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 2,
				CurrentRevision: v2.Name, UpdateRevision: v2.Name},
		},
		{
			"STS-62 with a partition it never is", web(2, image("v2"), current, partition(1)),
			[]*corev1.Pod{pod(base, 0, "v1"), pod(base, 1, "v2")}, 0,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 1, UpdatedReplicas: 1,
				CurrentRevision: v1.Name, UpdateRevision: v2.Name},
		},
		{
			"STS-62 on deletion, too", web(2, image("v2"), current, onDelete), []*corev1.Pod{pod(base, 0, "v2"), pod(base, 1, "v2")}, 0,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 2,
				CurrentRevision: v2.Name, UpdateRevision: v2.Name},
		},
		{
			"STS-62 on deletion while a pod is outdated", web(2, image("v2"), current, onDelete),
			[]*corev1.Pod{pod(base, 0, "v1"), pod(base, 1, "v2")}, 0,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 1, UpdatedReplicas: 1,
				CurrentRevision: v1.Name, UpdateRevision: v2.Name},
		},
		{
			"STS-61 pods of a third revision do not count", web(3, parallel, image("v2"), current),
			[]*corev1.Pod{pod(base, 0, "v1"), pod(base, 1, "v3"), pod(base, 2, "v3")}, 2,
			appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, CurrentReplicas: 1, CurrentRevision: v1.Name,
				UpdateRevision: v2.Name},
		},
		{
			"STS-6 a set that is being deleted is counted", web(2, image("v2"), deleted), []*corev1.Pod{pod(base, 0, "v2")}, 0,
			appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1,
				CurrentRevision: v2.Name, UpdateRevision: v2.Name},
		},
		{
			"STS-6 the new template of a set that is being deleted gets no revision, and none is named",
			web(2, image("v3"), current, deleted, func(set *appsv1.StatefulSet) { set.Status.UpdateRevision = v2.Name }),
			[]*corev1.Pod{pod(base, 0, "v2"), pod(base, 1, "v1")}, 0,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 1, UpdatedReplicas: 1,
				CurrentRevision: v1.Name, UpdateRevision: v2.Name},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := []plan.Object{v1, v2}
			for _, p := range c.pods {
				objects = append(objects, p)
			}
			did := plan.Outcome{}
			for _, p := range c.pods[len(c.pods)-c.deleted:] {
				did.Results = append(did.Results, plan.Result{Verb: plan.Deleted, Object: p})
			}
			c.want.ObservedGeneration, c.want.CollisionCount = 1, ptr.To[int32](0) // STS-60f
			got, p := statusOf(see(c.set, objects...), did)
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if wait := 20 * time.Second; c.set.Spec.MinReadySeconds > 0 && p.Requeue != wait {
				t.Errorf("STS-7 looks again in %v", p.Requeue)
			}
			if got == nil {
				return
			}
			c.set.Status = *got
			if again, _ := statusOf(see(c.set, objects...), did); again != nil {
				t.Errorf("STS-63 written again without a difference")
			}
		})
	}
}

// V37-44: the condition Progressing of a set that recreates its pods.
func TestProgressing(t *testing.T) {
	base := web(2)
	v1, v2 := revision("v1", 1, base), revision("v2", 2, base)
	has := func(current, status, reason string) edit {
		return func(set *appsv1.StatefulSet) {
			set.Status.CurrentRevision = current
			foreign := appsv1.StatefulSetCondition{Type: "Foreign", Status: corev1.ConditionTrue}
			set.Status.Conditions = []appsv1.StatefulSetCondition{foreign}
			if status != "" {
				set.Status.Conditions = append(set.Status.Conditions, appsv1.StatefulSetCondition{
					Type: appsv1.StatefulSetProgressing, Status: corev1.ConditionStatus(status), Reason: reason,
					LastTransitionTime: metav1.NewTime(plantest.Epoch)})
			}
		}
	}
	const going, deleting, waiting = "True RecreateInProgress", "Deleting old revision pods", "Waiting for new-revision pods to be created"
	const completed = "False RecreateCompleted All pods recreated successfully"
	for _, c := range []struct {
		name string
		set  *appsv1.StatefulSet
		pods []*corev1.Pod
		want string
		same bool // the time of the last transition is that of before
	}{
		{"STS-76 old pods are being deleted", web(2, recreate, image("v2"), has(v1.Name, "", "")),
			[]*corev1.Pod{pod(base, 0, "v1", plantest.Terminating)}, going + " " + deleting, false},
		{"STS-76 after an earlier one", web(2, recreate, image("v2"), has(v1.Name, "False", "RecreateCompleted")),
			[]*corev1.Pod{pod(base, 0, "v1")}, going + " " + deleting, false},
		{"STS-76 all are gone", web(2, recreate, image("v2"), has(v1.Name, "True", "RecreateInProgress")), nil, going + " " + waiting,
			true},
		{"STS-76 some are back", web(2, recreate, image("v2"), has(v1.Name, "True", "RecreateInProgress")),
			[]*corev1.Pod{pod(base, 0, "v2")}, going + " " + waiting, true},
		{"STS-76 nobody saw the old ones go", web(2, recreate, image("v2"), has(v1.Name, "", "")), nil, going + " " + waiting, false},
		{"STS-76 back to the current revision", web(2, recreate, image("v1"), has(v1.Name, "True", "RecreateInProgress")), nil,
			going + " " + waiting, true},
		{"STS-76 all are back", web(2, recreate, image("v2"), has(v1.Name, "True", "RecreateInProgress")),
			[]*corev1.Pod{pod(base, 0, "v2"), pod(base, 1, "v2")}, completed, false},
		{"STS-76 and later", web(2, recreate, image("v2"), has(v2.Name, "False", "RecreateCompleted")),
			[]*corev1.Pod{pod(base, 0, "v2"), pod(base, 1, "v2")}, completed, true},
		{"STS-76 the first pods of a new set", web(2, recreate, image("v2"), has("", "", "")), []*corev1.Pod{pod(base, 0, "v2")}, "",
			false},
		{"STS-76 a set that is scaled", web(3, recreate, image("v2"), has(v2.Name, "False", "RecreateCompleted")),
			[]*corev1.Pod{pod(base, 0, "v2"), pod(base, 1, "v2")}, "False RecreateCompleted ", true},
		{"STS-64 other strategies", web(2, image("v2"), has(v1.Name, "True", "RecreateInProgress")), []*corev1.Pod{pod(base, 0, "v1")},
			going + " ", true},
		{"STS-64 set none", web(2, image("v2"), has(v1.Name, "", "")), []*corev1.Pod{pod(base, 0, "v1")}, "", false},
		{"STS-6 a set that is being deleted", web(2, recreate, image("v2"), deleted, has(v1.Name, "", "")),
			[]*corev1.Pod{pod(base, 0, "v1")}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := []plan.Object{v1, v2}
			for _, p := range c.pods {
				objects = append(objects, p)
			}
			before := c.set.DeepCopy()
			got, p := statusOf(see(c.set, objects...), plan.Outcome{})
			said := ""
			for _, condition := range got.Conditions[1:] {
				said += fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message)
				if same := condition.LastTransitionTime.Time.Equal(plantest.Epoch); same != c.same {
					t.Errorf("the transition was at %v", condition.LastTransitionTime)
				}
			}
			if got.Conditions[0].Type != "Foreign" || said != c.want {
				t.Errorf("%q, want %q", said, c.want)
			}
			if p.When.Quiet > 100*time.Millisecond && !cmp.Equal(got.Conditions, before.Status.Conditions) {
				t.Errorf("it may wait for %v", p.When.Quiet)
			}
			if !cmp.Equal(before, c.set) {
				t.Error("what was observed has changed")
			}
		})
	}
}

func TestReportAfterFailures(t *testing.T) {
	set := web(1, claims("data"))
	refused := errors.New("no room")
	created := func(o plan.Object, err error) plan.Outcome {
		return plan.Outcome{Results: []plan.Result{{Verb: plan.Created, Object: o, Err: err}}, Err: err}
	}
	changed := func(o plan.Object) plan.Outcome {
		return plan.Outcome{Results: []plan.Result{{Verb: plan.Changed, Object: o, Err: refused}}, Err: refused}
	}
	s := see(set, revision("v1", 1, set))
	for _, c := range []struct {
		name   string
		did    plan.Outcome
		status bool
		event  string
	}{
		{"STS-63 written also if a pod could not be created", created(pod(set, 0, "v1"), refused), true, ""},
		{
			"STS-21 a claim that could not be created has an event about its pod", created(claim("data-web-0"), refused), true,
			"Warning FailedCreate: Create Pod web-0 in StatefulSet web failed error: no room",
		},
		{"STS-75 a name that is taken has none", created(claim("data-web-0"), plan.ErrStale), true, ""},
		{"not if a revision could not be written", created(revision("v1", 1, set), refused), false, ""},
		{"not if a revision could not get a new number", changed(revision("v1", 2, set)), false, ""},
		{"not if a pod could not be released", changed(pod(set, 0, "v1", orphan)), false, ""},
		{"STS-63 written also if a pod could not get back its labels", changed(pod(set, 0, "v1")), true, ""},
		{"STS-63 written also if a claim could not get its owner", changed(claim("data-web-0")), true, ""},
		{"not in a namespace that is being deleted", plan.Outcome{Stopped: true}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, p := statusOf(s, c.did)
			if (status != nil) != c.status {
				t.Errorf("status: %+v", status)
			}
			var event string
			for _, step := range p.Steps {
				if e, ok := step.(plan.RecordEvent); ok {
					event = line(e)
				}
			}
			if event != c.event {
				t.Errorf("event %q", event)
			}
		})
	}
}

// TestOrdinalOfClaim: names are taken apart, so that the number of wanted pods does not matter.
func TestOrdinalOfClaim(t *testing.T) {
	set := web(math.MaxInt32, claims("data", "data-web", "logs"), from(3))
	for name, want := range map[string]int{
		"data-web-3": 3, "logs-web-2000000000": 2_000_000_000, "data-web-web-7": 7,
		"data-web-2": -1, "other-web-3": -1, "data-db-3": -1, "data-web-03": -1, "web-3": -1, "data": -1, "": -1,
	} {
		got, ok := ordinalOfClaim(set, name)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("STS-20 %q: %d, want %d", name, got, want)
		}
	}
	failed := plan.Result{Verb: plan.Created, Object: claim("logs-web-2000000000"), Err: errors.New("no room")}
	_, p := statusOf(see(set, revision("v1", 1, set)), plan.Outcome{Results: []plan.Result{failed}, Err: failed.Err})
	if got := line(p.Steps[0]); got != "Warning FailedCreate: Create Pod web-2000000000 in StatefulSet web failed error: no room" {
		t.Errorf("STS-21 %s", got)
	}
}

func TestDebounce(t *testing.T) {
	base := web(2)
	v1 := revision("v1", 1, base)
	known := func(set *appsv1.StatefulSet) {
		set.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: 1, Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1,
			CurrentRevision: v1.Name, UpdateRevision: v1.Name, CollisionCount: ptr.To[int32](0),
		}
	}
	wrote := plan.Outcome{Results: []plan.Result{{Verb: plan.Created, Object: pod(base, 1, "v1")}}}
	for _, c := range []struct {
		name     string
		set      *appsv1.StatefulSet
		pods     []plan.Object
		did      plan.Outcome
		min, max time.Duration
	}{
		{"all pods are there", web(2, known), []plan.Object{pod(base, 0, "v1"), pod(base, 1, "v1")}, plan.Outcome{}, 0, 0},
		{"progress waits", web(2, known), []plan.Object{pod(base, 0, "v1"), pod(base, 1, "v1", unready)}, plan.Outcome{},
			50 * time.Millisecond, time.Second},
		{"names of revisions do not wait for long", web(2), nil, wrote, 0, plan.Soon().Longest},
		{"nor does a spec that was seen", web(2, known, func(set *appsv1.StatefulSet) { set.Generation = 2 }),
			[]plan.Object{pod(base, 0, "v1")}, wrote, 0, plan.Soon().Longest},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, p := statusOf(see(c.set, append(c.pods, v1)...), c.did)
			if status == nil || p.When.Quiet < c.min || p.When.Longest > c.max {
				t.Errorf("%+v waits for %v, at most %v", status, p.When.Quiet, p.When.Longest)
			}
		})
	}
}
