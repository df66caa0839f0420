package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "1", ResourceVersion: "12"}}
}

// snapshot and decision are like those of controllers, which keep some things to themselves.
type snapshot struct {
	Set   *appsv1.ReplicaSet
	Pods  []*corev1.Pod
	Nodes map[string]*corev1.Node
}

type decision struct {
	claimed
	Reason string
	Until  time.Time
	Asked  *int32
	Slots  map[int]*corev1.Pod
	Failed bool
}

type claimed struct {
	selector labels.Selector
	invalid  error
	mine     []*corev1.Pod
	claims   []plan.Step
	data     []byte
	byPod    map[*corev1.Pod]bool
	parts    map[string]claimed
	decide   func()
}

func builtIn(kind schema.GroupVersionKind) (client.Mapping, error) {
	m, ok := client.BuiltIn(kind)
	if !ok {
		return m, errors.New("no such kind")
	}
	return m, nil
}

// secret is in each place of the example where people keep some.
const secret = "c3dvcmRmaXNo"

func example() Detail {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "app", Image: "app:1", Command: []string{"run", secret}, Args: []string{secret},
		Env: []corev1.EnvVar{
			{Name: "PASSWORD", Value: secret},
			{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "token"}}},
		},
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: secret}}}}},
	}}}}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "2", ResourceVersion: "11",
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: secret, "team": "shop",
				"objectset.rio.cattle.io/applied": "H4sI" + secret,
				"kapp.k14s.io/original":           ` {"data":"` + secret + `"}`},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](2), Template: template},
	}
	after := set.DeepCopy()
	after.Status.Replicas = 2
	kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "token"},
		Data:       map[string][]byte{"token": []byte(secret)},
		StringData: map[string]string{"token": secret}}
	filled := kept.DeepCopy()
	filled.Data["token"] = []byte(secret + "2")
	created := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "web-"}, Spec: template.Spec}
	mine := []*corev1.Pod{pod("web-1")}
	return NewDetail(epoch,
		snapshot{Set: set, Pods: mine,
			Nodes: map[string]*corev1.Node{"n": {ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "3"}}}},
		decision{
			claimed: claimed{selector: labels.SelectorFromSet(labels.Set{"app": "web"}), invalid: errors.New("no sense"), mine: mine,
				data:   []byte(secret),
				claims: []plan.Step{plan.Change{New: mine[0], Why: "adopt"}}, byPod: map[*corev1.Pod]bool{mine[0]: true},
				parts: map[string]claimed{"a": {mine: mine}}, decide: func() {}},
			Reason: "too few", Until: epoch, Asked: ptr.To[int32](3), Slots: map[int]*corev1.Pod{0: mine[0]},
		},
		plan.Plan{Why: "1 pod is missing", Requeue: 1500 * time.Millisecond, Steps: []plan.Step{
			plan.Create{Object: created, Count: 2, Why: "replicas are missing"},
			plan.CreateAll{Objects: []plan.Object{kept}},
			plan.Change{Old: set, New: after, Subresource: plan.Status, Why: "the number of pods"},
			plan.Change{Old: kept, New: filled, Sign: []string{"token"}},
			plan.Change{New: set, Apply: &plan.Apply{FieldManager: "me"}},
			plan.Each{Sequences: [][]plan.Step{
				{plan.Delete{Objects: []plan.Object{pod("a"), pod("b"), pod("c"), pod("d"), pod("e")}, Why: "too many"}},
				{plan.RecordEvent{Object: set, Event: plan.Event{Type: "Warning", Reason: "Failed"}}},
			}},
			plan.DeleteCollection{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "shop", Why: "the namespace goes"},
		}},
		&plan.Plan{Why: "up to date"}, builtIn)
}

func TestDetailGolden(t *testing.T) {
	got, err := json.MarshalIndent(example(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	plantest.Golden(t, "testdata/detail.json", string(got)+"\n")
	if strings.Contains(string(got), secret) {
		t.Error("a credential is shown")
	}
	for _, hidden := range []string{"YzNkd", "managedFields"} {
		if strings.Contains(string(got), hidden) {
			t.Errorf("%s is shown", hidden)
		}
	}
	var seen snapshot
	if err := json.Unmarshal(example().Snapshot, &seen); err != nil || seen.Set.Spec.Template.Spec.Containers[0].Env[0].Name != "PASSWORD" {
		t.Errorf("the snapshot cannot be read: %v", err)
	}
	if again, n := versions(seen); len(again) != 3 || n != 3 {
		t.Errorf("%+v", again)
	}
	var token corev1.Secret
	if err := json.Unmarshal(masked(&corev1.Secret{Data: map[string][]byte{"token": []byte(secret)}}), &token); err != nil ||
		len(token.Data) != 1 {
		t.Errorf("%+v: %v", token, err)
	}
	var back Detail
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := json.MarshalIndent(back, "", "  "); err != nil || string(again) != string(got) {
		t.Errorf("what was read is written otherwise: %v", err)
	}
}

func TestRecordGolden(t *testing.T) {
	var steps []plan.Step
	for i := range 20 {
		steps = append(steps, plan.Delete{Objects: []plan.Object{pod(fmt.Sprintf("web-%d", i))}})
	}
	r, key := NewRecords(nil), plan.Key{Namespace: "shop", Name: "web"}
	for i := range 2 {
		rec := Record{Time: at(i), Why: "too many pods", Error: "quota", Retries: i + 1, Next: Seconds(1500 * time.Millisecond),
			Version: "7", Wrote: 2}
		rec.Planned([]plan.Step{plan.Each{Sequences: [][]plan.Step{steps[:2], steps[2:]}}})
		rec.Did(plan.Outcome{Results: []plan.Result{
			{Verb: plan.Deleted, Object: pod("web-1"), Name: "web-1", Err: errors.New("quota")},
			{Verb: plan.Changed, Object: pod("web-2"), Name: "web-2", Subresource: plan.Status},
		}})
		r.Put(key, rec)
	}
	rec, _ := r.Get(key)
	got, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	plantest.Golden(t, "testdata/record.json", string(got)+"\n")
	var back Record
	if err := json.Unmarshal(got, &back); err != nil || !back.alike(&rec) || back.Next != rec.Next || !back.Since.Equal(rec.Since) ||
		back.Alike != 1 {
		t.Errorf("%+v: %v", back, err)
	}
}

func TestSizeOfADetail(t *testing.T) {
	big := pod("big")
	big.Annotations = map[string]string{"a": strings.Repeat("x", mostBytes)}
	var steps []plan.Step
	var all []*corev1.Pod
	for i := range 3000 {
		p := pod(fmt.Sprint(i))
		all = append(all, p)
		steps = append(steps, plan.Delete{Objects: []plan.Object{p}})
	}
	var objects []plan.Object
	for range 3000 {
		objects = append(objects, big)
	}
	steps[0] = plan.CreateAll{Objects: objects}
	d := NewDetail(epoch, append(all, big), all, plan.Plan{Steps: steps}, nil, builtIn)
	data, err := json.Marshal(d)
	if err != nil || len(data) > mostBytes {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	if !strings.HasPrefix(string(d.Snapshot), `"left out: `) || len(d.Versions) != mostVersions ||
		!strings.Contains(string(d.Decision), "and 2900 more") {
		t.Errorf("%.80s, %d versions, %s", d.Snapshot, len(d.Versions), d.Decision)
	}
	if n := len(d.Plan.Steps); n != mostVersions+1 || d.Plan.Steps[n-1].Does != "and 2000 more" {
		t.Errorf("%d steps", n)
	}
}

// A snapshot of very many objects is not even encoded.
func TestManyObjects(t *testing.T) {
	var all []*corev1.Pod
	for i := range mostInside + 1 {
		all = append(all, pod(fmt.Sprint(i)))
	}
	if d := NewDetail(epoch, all, nil, plan.Plan{}, nil, builtIn); string(d.Snapshot) != `"left out: 16385 objects"` ||
		len(d.Versions) != mostVersions {
		t.Errorf("%.80s, %d versions", d.Snapshot, len(d.Versions))
	}
	if d := NewDetail(epoch, all[1:], nil, plan.Plan{}, nil, builtIn); !strings.HasSuffix(string(d.Snapshot), ` bytes"`) {
		t.Errorf("%.80s", d.Snapshot)
	}
}

// What cannot be shown is said to be left out, and nothing panics over it.
func TestOddValues(t *testing.T) {
	type cycle struct{ next *cycle }
	round := &cycle{}
	round.next = round
	d := NewDetail(epoch, struct{ C chan int }{}, round, plan.Plan{Steps: []plan.Step{
		plan.Change{Old: pod("a"), New: pod("a"), Kind: schema.GroupVersionKind{Version: "v1", Kind: "Unknown"}},
		plan.Change{Old: pod("a"), New: pod("a")},
	}}, nil, builtIn)
	data, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(data), "left out: json: unsupported type") ||
		!strings.Contains(string(data), "no such kind") {
		t.Errorf("%s: %v", data, err)
	}
	for _, nothing := range []any{nil, struct{}{}, (*cycle)(nil), decision{}} {
		if d := described(nothing); d != nil {
			t.Errorf("%T is described as %s", nothing, d)
		}
	}
	if all, n := versions(struct{ P *corev1.Pod }{}); all != nil || n != 0 {
		t.Errorf("%v", all)
	}
}

// Drivers of volumes are given credentials as options.
func TestOptionsOfVolumesAreLeftOut(t *testing.T) {
	spec := corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d",
			VolumeAttributes: map[string]string{"password": secret}}}},
		{Name: "b", VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "d",
			Options: map[string]string{"password": secret}}}},
	}}
	got := string(masked(&corev1.Pod{Spec: spec}))
	if strings.Contains(got, secret) || strings.Count(got, `"password":""`) != 2 {
		t.Error(got)
	}
}

// However much is planned, an answer has a bound.
func TestLargePlan(t *testing.T) {
	large := pod("web")
	large.Annotations = map[string]string{"note": strings.Repeat("x", mostBytes/2)}
	p := plan.Plan{Steps: slices.Repeat([]plan.Step{plan.Create{Object: large}}, 100)}
	shown, err := json.Marshal(planned(p, builtIn))
	if err != nil || len(shown) < mostOfPlan || len(shown) > mostOfPlan+2*mostBytes || strings.Count(string(shown), leftOut) == 0 {
		t.Errorf("%d bytes, %v", len(shown), err)
	}
}
