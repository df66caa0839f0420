package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ownedBy(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: ptr.To(true)}}
}

func meta(name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", OwnerReferences: owners}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(name, ownedBy("ReplicaSet", "web-1")...), Spec: corev1.PodSpec{NodeName: "node-a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: "True"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", Message: "content of a file"}}}}}}
}

func set(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: meta("web-1", ownedBy("Deployment", "web")...), Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
}

func done(verb plan.Verb, o plan.Object) plan.Result {
	return plan.Result{Verb: verb, Object: o, Name: o.GetName(), UID: o.GetUID(), Version: "8"}
}

// decision is one of the controller of a ReplicaSet.
func decision(steps []plan.Step, did ...plan.Result) reconcile.Decision {
	return reconcile.Decision{Owner: set(1), Record: explain.Record{Time: at, Why: "1 of 2"}, Steps: steps, Did: did}
}

// Each kind of step becomes an entry, with what became of it; what is not worth one does not.
func TestEntries(t *testing.T) {
	p, q := pod("a"), pod("b")
	changed := p.DeepCopy()
	changed.OwnerReferences = nil
	status := p.DeepCopy()
	status.Status.Phase = corev1.PodFailed
	all := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	all.SetGroupVersionKind(pods)
	refused := done(plan.Deleted, q)
	refused.Err = errors.New("forbidden")
	gone := done(plan.Deleted, q)
	gone.Needless = true
	inferred := decision([]plan.Step{plan.Delete{Objects: []plan.Object{p}, Why: "too many"}, plan.Create{Object: q, Why: "missing"}})
	inferred.Record.Inferred = true
	for _, c := range []struct {
		name string
		of   reconcile.Decision
		want []string // verb, name, rule, precondition, change, error
	}{
		{"nothing", decision(nil), nil},
		{"a status", decision([]plan.Step{plan.Change{Old: p, New: status, Subresource: plan.Status}},
			plan.Result{Verb: plan.Changed, Object: status, Subresource: plan.Status}), nil},
		{"a change of what nobody needs", decision([]plan.Step{plan.Change{Old: p, New: status}}, done(plan.Changed, status)), nil},
		{"a creation", decision([]plan.Step{plan.Create{Object: p, Why: "missing"}}, done(plan.Created, p)), []string{"created a missing"}},
		{"copies", decision([]plan.Step{plan.Create{Object: p, Count: 2, Why: "missing"}},
			plan.Result{Verb: plan.Created, Object: p, Name: "x"}, plan.Result{Verb: plan.Created, Object: p, Name: "y"}),
			[]string{"created x missing", "created y missing"}},
		{"a creation that failed", decision([]plan.Step{plan.Create{Object: p}},
			plan.Result{Verb: plan.Created, Object: p, Err: refused.Err}), nil},
		{"different creations", decision([]plan.Step{plan.CreateAll{Objects: []plan.Object{p, q}, Why: "missing"}}, done(plan.Created, q)),
			[]string{"created b missing"}},
		{"a deletion", decision([]plan.Step{plan.Delete{Objects: []plan.Object{p}, Why: "too many", CheckVersion: true}},
			done(plan.Deleted, p)),
			[]string{"deleted a too many uid and resourceVersion"}},
		{"deletions in sequences, of which one was not tried", decision([]plan.Step{plan.Each{Sequences: [][]plan.Step{
			{plan.Delete{Objects: []plan.Object{p, q, pod("c")}, Why: "too many"}}}}}, done(plan.Deleted, p), refused),
			[]string{"deleted a too many uid", "deleted b too many uid forbidden"}},
		{"a needless one", decision([]plan.Step{plan.Delete{Objects: []plan.Object{q}, Why: "too many"}}, gone),
			[]string{"deleted b too many uid needless"}},
		{"an eviction", decision([]plan.Step{plan.Delete{Objects: []plan.Object{p}, Evict: true, Why: "taint"}}, done(plan.Deleted, p)),
			[]string{"evicted a taint uid"}},
		{"a release", decision([]plan.Step{plan.Change{Old: p, New: changed, Why: "not selected"}}, done(plan.Changed, changed)),
			[]string{"changed a not selected owner removed: ReplicaSet web-1"}},
		{"fewer replicas", decision([]plan.Step{plan.Change{Old: set(3), New: set(1), Why: "scaled"}}), nil},
		{"all of a kind", decision([]plan.Step{plan.DeleteCollection{Kind: pods, Namespace: "shop", Why: "the namespace ends"}},
			plan.Result{Verb: plan.Deleted, Object: all}), []string{"deleted  the namespace ends"}},
		{"a plan of an observer", inferred, []string{"deleted a too many uid inferred"}},
	} {
		var got []string
		for _, e := range entriesOf("replicaset-controller", c.of) {
			text := fmt.Sprintf("%s %s %s", e.Verb, e.Object.Name, e.Rule)
			for _, more := range []string{e.Precondition, e.Change, e.Error} {
				if more != "" {
					text += " " + more
				}
			}
			if e.Needless {
				text += " needless"
			}
			if e.Inferred {
				text += " inferred"
			}
			if e.Object.Kind != "Pod" || e.Object.Namespace != "shop" || !e.Time.Equal(at) || e.Decision != "1 of 2" ||
				e.Controller != "replicaset-controller" || e.Key.String() != "ReplicaSet shop/web-1" || e.KeyVersion != "7" {
				t.Errorf("%s: %+v", c.name, e)
			}
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// An entry says what was seen, and knows the owners of the owner.
func TestWhatAnEntryKnows(t *testing.T) {
	p := pod("a")
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = &metav1.Time{Time: at.Add(30 * time.Second)}, ptr.To[int64](30), []string{"x/y"}
	e := entriesOf("c", decision([]plan.Step{plan.Delete{Objects: []plan.Object{p}}}, done(plan.Deleted, p)))[0]
	want := "Running, on node node-a, ready, container app ended with 137 OOMKilled, deletion asked for by 2026-01-02T03:04:05Z, finalizers x/y"
	if e.Saw != want {
		t.Errorf("saw %q", e.Saw)
	}
	if fmt.Sprint(e.Owners) != "[ReplicaSet shop/web-1 Deployment shop/web]" {
		t.Errorf("owners: %v", e.Owners)
	}
	small := set(1)
	e = entriesOf("c", decision([]plan.Step{plan.Change{Old: set(3), New: small}}, done(plan.Changed, small)))[0]
	if e.Change != "replicas 3 -> 1" || e.Key != nil || e.Version != "7" || e.Saw != "0 of 3 replicas, 0 ready" {
		t.Errorf("%+v", e)
	}
}

// No way leads from the content of an object into the ring: entries have fields of these types alone, and steps about a Secret or
// a ConfigMap leave no byte of data, annotations or labels, whatever becomes of them.
func TestNothingConfidentialIsKept(t *testing.T) {
	var look func(reflect.Type)
	look = func(of reflect.Type) {
		switch of {
		case reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[time.Time](),
			reflect.TypeFor[types.UID](), reflect.TypeFor[Verb]():
			return
		}
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			look(of.Elem())
		case reflect.Struct:
			for field := range of.Fields() {
				look(field.Type)
			}
		default:
			t.Errorf("an entry has a %s", of)
		}
	}
	look(reflect.TypeFor[Entry]())
	const secret = "hunter2"
	about := metav1.ObjectMeta{Namespace: "shop", Name: "s", UID: "u", Annotations: map[string]string{"a": secret},
		Labels:        map[string]string{"l": secret},
		ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(secret)}}}
	for _, o := range []plan.Object{
		&corev1.Secret{ObjectMeta: about, Data: map[string][]byte{"k": []byte(secret)}, StringData: map[string]string{"k": secret}},
		&corev1.ConfigMap{ObjectMeta: about, Data: map[string]string{"k": secret}, BinaryData: map[string][]byte{"k": []byte(secret)}},
		&corev1.Pod{ObjectMeta: about,
			Spec:   corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{Value: secret}}, Args: []string{secret}}}},
			Status: corev1.PodStatus{Message: secret}},
	} {
		_, isPod := o.(*corev1.Pod)
		after := o.DeepCopyObject().(plan.Object)
		after.SetFinalizers([]string{"f"})
		steps := []plan.Step{plan.Create{Object: o}, plan.Change{Old: o, New: after}, plan.Delete{Objects: []plan.Object{o}}}
		var did []plan.Result
		for _, r := range []plan.Result{done(plan.Created, o), done(plan.Changed, after), done(plan.Deleted, o)} {
			did = append(did, r)
			if r.Err = fmt.Errorf("invalid value: %q", secret); !isPod {
				did = append(did, r)
			}
		}
		entries := entriesOf("c", decision(steps, did...))
		if len(entries) < 3 {
			t.Errorf("%T: %d entries", o, len(entries))
		}
		r := New(Options{})
		r.Gone(o)
		entries = append(entries, (<-r.queue).Entry)
		text, err := json.Marshal(append(entries, pendingOf("c", decision(steps))...))
		if err != nil || bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte("aHVudGVyMg")) {
			t.Errorf("%T: %s, %v", o, text, err)
		}
	}
}
