package deployment

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// now is long after the objects of the scenes came into being.
var now = plantest.Epoch.Add(time.Hour)

type edit = func(*appsv1.Deployment)

// web is a Deployment that runs image v2.
func web(replicas int32, edits ...edit) *appsv1.Deployment {
	return plantest.Deployment("web", replicas, append([]edit{image("v2")}, edits...)...)
}

func image(v string) edit {
	return func(d *appsv1.Deployment) { d.Spec.Template = plantest.Template("web", v) }
}

func moves(surge, unavailable string) edit {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.Parse(surge))
		d.Spec.Strategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.Parse(unavailable))
	}
}

func recreate(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
}

func pausedNow(d *appsv1.Deployment) { d.Spec.Paused = true }

func deletedNow(d *appsv1.Deployment) { d.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }

func keeps(n int32) edit { return func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = &n } }

func note(key, value string) edit { return plantest.Annotate[*appsv1.Deployment](key, value) }

func rollbackNote(to string) edit { return note(rollbackAnnotation, to) }

// rs is a ReplicaSet in a scene: web-<image> of the size, with that many pods in each state.
type rs struct {
	image                                string
	size                                 int32
	ready, pending, terminating, crashed int
	edit                                 func(*appsv1.ReplicaSet)
}

func annotated(key, value string) func(*appsv1.ReplicaSet) {
	return plantest.Annotate[*appsv1.ReplicaSet](key, value)
}

func bare(keys ...string) func(*appsv1.ReplicaSet) {
	return func(rs *appsv1.ReplicaSet) {
		for _, k := range keys {
			delete(rs.Annotations, k)
		}
	}
}

func all(edits ...func(*appsv1.ReplicaSet)) func(*appsv1.ReplicaSet) {
	return func(rs *appsv1.ReplicaSet) {
		for _, edit := range edits {
			edit(rs)
		}
	}
}

// scene is a snapshot of the Deployment and its ReplicaSets, oldest first: with revisions 1, 2, ..., sized for the
// Deployment's replicas, and with statuses that agree with the pods.
func snapshotWith(d *appsv1.Deployment, sets ...rs) snapshot {
	s := snapshot{Deployment: d, Pods: map[types.UID][]*corev1.Pod{}}
	replicas := number(d.Spec.Replicas)
	surge, _, _ := bounds(d, replicas)
	for i, want := range sets {
		made := plantest.ReplicaSet("web-"+want.image, want.size, plantest.Template("web", want.image), plantest.OwnedBy(d),
			annotated(revisionAnnotation, strconv.Itoa(i+1)),
			annotated(desiredAnnotation, strconv.FormatInt(replicas, 10)),
			annotated(maximumAnnotation, strconv.FormatInt(replicas+surge, 10)))
		made.CreationTimestamp = metav1.NewTime(plantest.Epoch.Add(time.Duration(i) * time.Minute))
		old := plantest.Epoch.Add(10 * time.Minute)
		pods := plantest.Pods(made, 0, want.ready, plantest.Ready(old))
		pods = append(pods, plantest.Pods(made, 100, want.pending)...)
		pods = append(pods, plantest.Pods(made, 200, want.terminating, plantest.Ready(old), plantest.Terminating)...)
		pods = append(pods, plantest.Pods(made, 300, want.crashed, plantest.Phase(corev1.PodFailed))...)
		made.Status.Replicas, made.Status.FullyLabeledReplicas = int32(want.ready+want.pending), int32(want.ready+want.pending)
		made.Status.ReadyReplicas, made.Status.AvailableReplicas = int32(want.ready), int32(want.ready)
		made.Status.TerminatingReplicas = ptr.To(int32(want.terminating))
		if want.edit != nil {
			want.edit(made)
		}
		s.ReplicaSets = append(s.ReplicaSets, made)
		s.Pods[made.UID] = pods
	}
	return s
}

// rolledOut returns the plan of a scene.
func rolledOut(now time.Time, s snapshot) plan.Plan {
	_, p := planRollout(now, s)
	return p
}

// statusAfter returns the report of a scene, after its plan had that outcome.
func statusAfter(now time.Time, s snapshot, did plan.Outcome) plan.Plan {
	r, _ := planRollout(now, s)
	return reportStatus(now, s, r, did)
}

// settled gives the Deployment the status that a report makes of the scene, as if it had been written at the time.
func settled(s snapshot, at time.Time) snapshot {
	if p := statusAfter(at, s, plan.Outcome{}); !p.Empty() {
		s.Deployment = p.Steps[0].(plan.Change).New.(*appsv1.Deployment)
	}
	return s
}

// lines renders what a plan does, a line for each object, with the events in brackets. The hash in the name of a new
// ReplicaSet is left out.
func lines(steps []plan.Step) []string {
	var out []string
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Create:
			made := s.Object.(*appsv1.ReplicaSet)
			a := made.Annotations
			out = append(out, fmt.Sprintf("create size %d revision %s desired %s max %s%s", *made.Spec.Replicas,
				a[revisionAnnotation], a[desiredAnnotation], a[maximumAnnotation],
				strings.ReplaceAll(bracket(s.Events.Done), made.Name, "NEW")))
		case plan.Change:
			out = append(out, changed(s)+bracket(s.Events.Done))
		case plan.Delete:
			for _, o := range s.Objects {
				out = append(out, "delete "+o.GetName())
			}
		case plan.Each:
			for _, sequence := range s.Sequences {
				out = append(out, lines(sequence)...)
			}
		}
	}
	return out
}

func bracket(e plan.Event) string {
	if e.Reason == "" {
		return ""
	}
	return fmt.Sprintf(" [%s %s: %s]", e.Type, e.Reason, e.Message)
}

func changed(s plan.Change) string {
	if d, ok := s.New.(*appsv1.Deployment); ok {
		before := s.Old.(*appsv1.Deployment)
		out := []string{d.Name + ":"}
		if s.Subresource == plan.Status {
			out[0] = d.Name + " status:"
		}
		if !equality.Semantic.DeepEqual(before.Spec, d.Spec) {
			out = append(out, "image "+d.Spec.Template.Spec.Containers[0].Image)
		}
		return strings.Join(append(out, annotationDiff(before.Annotations, d.Annotations)...), " ")
	}
	before, after := s.Old.(*appsv1.ReplicaSet), s.New.(*appsv1.ReplicaSet)
	out := []string{after.Name + ":"}
	if s.Adopt {
		return out[0] + " adopt"
	}
	if !metav1.IsControlledBy(after, &metav1.ObjectMeta{UID: "uid-web"}) {
		return out[0] + " release"
	}
	if a, b := *before.Spec.Replicas, *after.Spec.Replicas; a != b {
		out = append(out, fmt.Sprintf("%d -> %d", a, b))
	}
	if a, b := before.Spec.MinReadySeconds, after.Spec.MinReadySeconds; a != b {
		out = append(out, fmt.Sprintf("minReadySeconds %d", b))
	}
	return strings.Join(append(out, annotationDiff(before.Annotations, after.Annotations)...), " ")
}

func annotationDiff(before, after map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if v, ok := before[k]; !ok || v != after[k] {
			out = append(out, fmt.Sprintf("%s=%s", k[strings.LastIndex(k, "/")+1:], after[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[k]; !ok {
			out = append(out, "-"+k[strings.LastIndex(k, "/")+1:])
		}
	}
	return out
}

// row is a sentence: in this world, this is planned.
type row struct {
	name  string
	scene snapshot
	want  []string
	why   string // a part of the reasons; empty for any
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			p := rolledOut(now, c.scene)
			if diff := cmp.Diff(c.want, lines(p.Steps)); diff != "" {
				t.Errorf("plan (-want +got):\n%s\nwhy: %s", diff, p.Why)
			}
			if !strings.Contains(p.Why, c.why) {
				t.Errorf("why: %q, want %q in it", p.Why, c.why)
			}
			assertOncePerObject(t, p.Steps)
		})
	}
}

// assertOncePerObject makes sure that no pass writes an object twice, and that nothing is written without a change.
func assertOncePerObject(t interface{ Errorf(string, ...any) }, steps []plan.Step) {
	seen := map[types.UID]bool{}
	note := func(o plan.Object) {
		if seen[o.GetUID()] {
			t.Errorf("%s is written twice", o.GetName())
		}
		seen[o.GetUID()] = true
	}
	var walk func([]plan.Step)
	walk = func(steps []plan.Step) {
		for _, step := range steps {
			switch s := step.(type) {
			case plan.Change:
				note(s.Old)
				if reflect.DeepEqual(s.Old, s.New) {
					t.Errorf("the change of %s changes nothing", s.Old.GetName())
				}
			case plan.Delete:
				for _, o := range s.Objects {
					note(o)
				}
			case plan.Each:
				for _, sequence := range s.Sequences {
					walk(sequence)
				}
			}
		}
	}
	walk(steps)
}
