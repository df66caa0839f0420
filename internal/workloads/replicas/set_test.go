package replicas

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

type rcEdit = func(*corev1.ReplicationController)

// classic is a ReplicationController of the same content as web. What pods say of one, they say of the other, but for the kind.
func classic(size int32, edits ...rcEdit) *corev1.ReplicationController {
	rc := asController(web(size))
	for _, edit := range edits {
		edit(rc)
	}
	return rc
}

// asController is a ReplicationController of the same content as a ReplicaSet.
func asController(set *appsv1.ReplicaSet) *corev1.ReplicationController {
	set = set.DeepCopy()
	rc := &corev1.ReplicationController{
		ObjectMeta: set.ObjectMeta,
		Spec: corev1.ReplicationControllerSpec{
			Replicas: set.Spec.Replicas, MinReadySeconds: set.Spec.MinReadySeconds, Selector: set.Spec.Selector.MatchLabels,
			Template: &set.Spec.Template,
		},
		Status: corev1.ReplicationControllerStatus{
			Replicas: set.Status.Replicas, FullyLabeledReplicas: set.Status.FullyLabeledReplicas, ReadyReplicas: set.Status.ReadyReplicas,
			AvailableReplicas: set.Status.AvailableReplicas, ObservedGeneration: set.Status.ObservedGeneration,
		},
	}
	for _, c := range set.Status.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message})
	}
	return rc
}

func snapshotOfController(rc *corev1.ReplicationController, pods ...*corev1.Pod) view {
	s := newSnapshot(OfReplicationController(rc), pods)
	s.Disabled.TerminatingReplicas = true // as the controller has it (RC-14)
	return s
}

// statusWritten returns the status that a report writes, nil if it writes none. Nothing else of the object may change (RC-18).
func statusWritten(t *testing.T, p plan.Plan) *corev1.ReplicationControllerStatus {
	t.Helper()
	if len(p.Steps) == 0 {
		return nil
	}
	change := p.Steps[0].(plan.Change)
	before, after := change.Old.(*corev1.ReplicationController), change.New.(*corev1.ReplicationController)
	if diff := cmp.Diff(before, after, cmpopts.IgnoreFields(corev1.ReplicationController{}, "Status")); diff != "" ||
		change.Subresource != plan.Status {
		t.Errorf("RC-17, RC-18: the report changes more than the status, subresource %q:\n%s", change.Subresource, diff)
	}
	return &after.Status
}

func TestRC10toRC13PlansOfReplicationControllers(t *testing.T) {
	selecting := func(selector map[string]string) rcEdit {
		return func(rc *corev1.ReplicationController) { rc.Spec.Selector = selector }
	}
	noTemplate := func(rc *corev1.ReplicationController) { rc.Spec.Template = nil }
	noReplicas := func(rc *corev1.ReplicationController) { rc.Spec.Replicas = nil }
	deleted := func(rc *corev1.ReplicationController) { rc.DeletionTimestamp = ptr.To(ago(time.Second)) }
	namesake := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(
			&metav1.ObjectMeta{Name: "web", UID: "namesake"}, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	}
	check(t, []row{
		{"RC-10 orphans of which all labels are equal are adopted",
			snapshotOfController(classic(2), pod("a", orphan), pod("b", orphan, labeled("app=web", "x=y")),
				pod("c", orphan, labeled("app=x"))),
			[]string{"adopt a", "adopt b"}, ""},
		{"RC-10 each label counts",
			snapshotOfController(classic(0, selecting(map[string]string{"app": "web", "tier": "x"})), pods(1, orphan)...), nil, "all 0"},
		{"RC-10 a nil selector adopts nothing, and lets nothing go",
			snapshotOfController(classic(2, selecting(nil)), pod("a", orphan), pod("b")), nil, "left alone"},
		{"RC-10 nor does an empty one", snapshotOfController(classic(2, selecting(map[string]string{})), pod("a", orphan), pod("b")), nil,
			"left alone"},
		{"RC-10 one that no label can have matches nothing",
			snapshotOfController(classic(0, selecting(map[string]string{"-": "!"})), pods(1, orphan)...), nil, ""},
		{"RC-11 without a template nothing is created", snapshotOfController(classic(2, noTemplate)), nil, "no labels"},
		{"RC-11 what is too many goes all the same", snapshotOfController(classic(0, noTemplate), pods(1)...), []string{"delete p0"}, ""},
		{"RC-12 replicas defaults to 1", snapshotOfController(classic(0, noReplicas)), []string{"create 1"}, ""},
		{"RC-12 more are too many", snapshotOfController(classic(0, noReplicas), pod("a", ready(0)), pod("b")), []string{"delete a"}, ""},
		{"RC-4 pods of a ReplicaSet of the same name are no concern", snapshotOfController(classic(1), pods(2, namesake)...),
			[]string{"create 1"}, ""},
		{"RC-19 nothing is left to do for one that is being deleted", snapshotOfController(classic(3, deleted), pods(1)...), nil,
			"garbage collector"},
	})
}

func TestRC4OwnerReferences(t *testing.T) {
	want := []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ReplicationController", Name: "web", UID: "set", Controller: ptr.To(true),
		BlockOwnerDeletion: ptr.To(true),
	}}
	steps := planPods(now, snapshotOfController(classic(2), pod("a", orphan))).Steps
	adopted := steps[0].(plan.Each).Sequences[0][0].(plan.Change).New
	created := steps[1].(plan.Create).Object
	for what, o := range map[string]plan.Object{"adopted": adopted, "created": created} {
		if diff := cmp.Diff(want, o.GetOwnerReferences()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestRC14RC15StatusOfReplicationControllers(t *testing.T) {
	custom := corev1.ReplicationControllerCondition{Type: "Custom", Status: corev1.ConditionTrue, Reason: "R", Message: "M",
		LastTransitionTime: ago(time.Hour)}
	condition := func(reason, message string) corev1.ReplicationControllerCondition {
		return corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerReplicaFailure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
			Reason: reason, Message: message}
	}
	has := func(all ...corev1.ReplicationControllerCondition) rcEdit {
		return func(rc *corev1.ReplicationController) { rc.Status.Conditions = all }
	}
	told := func(rc *corev1.ReplicationController) {
		rc.Status = corev1.ReplicationControllerStatus{Replicas: 2, FullyLabeledReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
			ObservedGeneration: 1}
	}
	noTemplate := func(rc *corev1.ReplicationController) { rc.Spec.Template = nil }
	wide := func(rc *corev1.ReplicationController) {
		rc.Generation, rc.Spec.MinReadySeconds = 7, 60
		rc.Spec.Template.Labels = map[string]string{"app": "web", "tier": "front"}
	}
	conditions := func(all ...corev1.ReplicationControllerCondition) *corev1.ReplicationControllerStatus {
		return &corev1.ReplicationControllerStatus{ObservedGeneration: 1, Conditions: all}
	}
	no := outcome(plan.Created, errors.New("no"), pod(""))
	for _, c := range []struct {
		name string
		s    view
		did  plan.Outcome
		want *corev1.ReplicationControllerStatus
	}{
		{"RC-14 each number is its own",
			snapshotOfController(classic(4, wide), pod("a", labeled("app=web", "tier=front")), pod("b"), pod("c", ready(time.Second)),
				pod("d", unready)),
			plan.Outcome{},
			&corev1.ReplicationControllerStatus{Replicas: 4, FullyLabeledReplicas: 1, ReadyReplicas: 3, AvailableReplicas: 2,
				ObservedGeneration: 7}},
		{"RC-14 pods that terminate are not told", snapshotOfController(classic(2, told), append(pods(2), pod("x", terminatingPod))...),
			plan.Outcome{}, nil},
		{"RC-14 what is told already is not told again", snapshotOfController(classic(2, told), pods(2)...), plan.Outcome{}, nil},
		{"RC-15 a failure, beside conditions of others", snapshotOfController(classic(2, has(custom))), no,
			conditions(custom, condition("FailedCreate", "no"))},
		{"RC-15 it goes, and theirs stay", snapshotOfController(classic(0, has(custom, condition("FailedCreate", "no")))), plan.Outcome{},
			conditions(custom)},
		{"RC-11 no template", snapshotOfController(classic(2, noTemplate)), plan.Outcome{},
			conditions(condition("FailedCreate", "unable to create pods, no labels"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, statusWritten(t, reportStatus(now, c.s, c.did))); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
	e := reportStatus(now, snapshotOfController(classic(2, noTemplate)), plan.Outcome{}).Steps[0].(plan.Change).Events.Done
	if e.Type != corev1.EventTypeWarning || e.Reason != "FailedCreate" || e.Message != "Error creating: unable to create pods, no labels" {
		t.Errorf("RC-11: event %+v", e)
	}
}

func TestNoViewOfNothing(t *testing.T) {
	if OfReplicaSet(nil) != nil || OfReplicationController(nil) != nil {
		t.Error("an object that does not exist is seen")
	}
}

// Whatever a ReplicationController is, its view shows it, and a status comes back from an object as it was put there; nothing
// else of the object changes, nor the one it was made from.
func TestRC14RC15RC18StatusRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		rc, wanted := &corev1.ReplicationController{}, appsv1.ReplicaSetStatus{}
		fill(rc)
		fill(&wanted)
		before := rc.DeepCopy()
		view := OfReplicationController(rc)
		diff := func(what string, a, b any) {
			if diff := cmp.Diff(a, b, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", what, diff)
			}
		}
		diff("RC-18: its own status again", before, view.withStatus(*view.Status))
		after := view.withStatus(wanted).(*corev1.ReplicationController)
		wanted.TerminatingReplicas = nil // RC-14
		diff("RC-14: another status", wanted, *OfReplicationController(after).Status)
		diff("the object in the cache", before, rc)
		after.Status = before.Status
		diff("RC-18: all but the status", before, after)
		diff("the metadata", &before.ObjectMeta, view.ObjectMeta)
		diff("RC-10: the selector", before.Spec.Selector, view.Spec.Selector.MatchLabels)
		spec := corev1.ReplicationControllerSpec{
			Replicas: view.Spec.Replicas, MinReadySeconds: view.Spec.MinReadySeconds, Selector: view.Spec.Selector.MatchLabels,
			Template: before.Spec.Template}
		if before.Spec.Template != nil {
			spec.Template = &view.Spec.Template
		}
		diff("the spec", before.Spec, spec)
	})
}

// A fill of every field, so that the round trip above is one of all fields: whoever adds one to the API sees it here.
func TestRC14FieldsOfTheStatus(t *testing.T) {
	fields := func(of any) (names []string) {
		for i := range reflect.TypeOf(of).NumField() {
			names = append(names, reflect.TypeOf(of).Field(i).Name)
		}
		return names
	}
	got := strings.Join(fields(corev1.ReplicationControllerStatus{}), " ")
	if got != "Replicas FullyLabeledReplicas ReadyReplicas AvailableReplicas ObservedGeneration Conditions" {
		t.Errorf("the status has %s", got)
	}
	if diff := cmp.Diff(fields(appsv1.ReplicaSetCondition{}), fields(corev1.ReplicationControllerCondition{})); diff != "" {
		t.Errorf("conditions have other fields:\n%s", diff)
	}
}

// A ReplicationController is treated as a ReplicaSet of the same content, but for the kinds (RC-4).
func TestRC4PlansAndReportsAreThoseOfReplicaSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.set.Spec.Replicas = rapid.SampledFrom([]*int32{nil, w.set.Spec.Replicas, w.set.Spec.Replicas, w.set.Spec.Replicas}).Draw(t,
			"replicas or none")
		set := w.snapshotOf()
		set.Disabled.TerminatingReplicas = true
		rc := snapshotOfController(asController(w.set), w.pods...)
		did := rapid.SampledFrom([]plan.Outcome{
			{}, {Stopped: true, Err: errors.New("no")}, outcome(plan.Created, errors.New("no"), pod("")),
			outcome(plan.Deleted, errors.New("no"), pod("")),
			outcome(plan.Changed, errors.New("no"), pod("")), outcome(plan.Created, nil, pod("")),
		}).Draw(t, "did")
		for what, of := range map[string]func(view) plan.Plan{
			"plan":   func(s view) plan.Plan { return planPods(now, s) },
			"report": func(s view) plan.Plan { return reportStatus(now, s, did) },
		} {
			if diff := cmp.Diff(of(set), withSetKinds(t, of(rc)), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s (-ReplicaSet +ReplicationController):\n%s", what, diff)
			}
		}
		if diff := cmp.Diff(deletionAgeRatios(now, set, did), deletionAgeRatios(now, rc, did)); diff != "" {
			t.Fatalf("%s", diff)
		}
	})
}

// withSetKinds puts ReplicaSets where the plan has ReplicationControllers: as objects, and in references to the owner "set".
func withSetKinds(t failer, p plan.Plan) plan.Plan {
	object := func(o plan.Object) plan.Object {
		if rc, ok := o.(*corev1.ReplicationController); ok {
			return asSet(rc)
		}
		o = o.DeepCopyObject().(plan.Object)
		refs := o.GetOwnerReferences()
		for i := range refs {
			if refs[i].APIVersion == "v1" && refs[i].Kind == "ReplicationController" && refs[i].UID == "set" {
				refs[i].APIVersion, refs[i].Kind = "apps/v1", "ReplicaSet"
			}
		}
		o.SetOwnerReferences(refs)
		return o
	}
	var steps func([]plan.Step) []plan.Step
	steps = func(in []plan.Step) (out []plan.Step) {
		for _, step := range in {
			switch s := step.(type) {
			case plan.Create:
				s.Object = object(s.Object)
				step = s
			case plan.Change:
				s.Old, s.New = object(s.Old), object(s.New)
				step = s
			case plan.Each:
				var each plan.Each
				for _, sequence := range s.Sequences {
					each.Sequences = append(each.Sequences, steps(sequence))
				}
				step = each
			case plan.Delete:
			default:
				t.Fatalf("a step of type %T", step)
			}
			out = append(out, step)
		}
		return out
	}
	p.Steps = steps(p.Steps)
	return p
}

// asSet undoes asController.
func asSet(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{
		ObjectMeta: rc.ObjectMeta,
		Spec: appsv1.ReplicaSetSpec{
			Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds,
			Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}, Template: *rc.Spec.Template,
		},
		Status: appsv1.ReplicaSetStatus{
			Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas, ReadyReplicas: rc.Status.ReadyReplicas,
			AvailableReplicas: rc.Status.AvailableReplicas, ObservedGeneration: rc.Status.ObservedGeneration,
		},
	}
	for _, c := range rc.Status.Conditions {
		set.Status.Conditions = append(set.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime, Reason: c.Reason,
			Message: c.Message})
	}
	return set
}

// Whatever the objects are, a look at them does not panic, and one without selector or template makes no pods.
func TestRC10RC11AnyReplicationControllerAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rc := &corev1.ReplicationController{}
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(rc)
		rc.Namespace, rc.UID = "shop", "set"
		if rapid.Bool().Draw(t, "the selector fits") {
			rc.Spec.Selector = map[string]string{"app": "web"}
		}
		s := snapshotOfController(rc, pod("a"), pod("b", orphan), pod("c", terminatingPod))
		creates, deletes, adopts := planned(planPods(now, s))
		if len(rc.Spec.Selector) == 0 && (creates != 0 || deletes != 0 || adopts) || rc.Spec.Template == nil && creates != 0 {
			t.Fatalf("creates %d, deletes %d, adopts %t", creates, deletes, adopts)
		}
		reportStatus(now, s, plan.Outcome{})
	})
}
