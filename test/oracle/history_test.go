package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

// TestSharesNoCodeWithTheSuspect: an oracle that uses the manager's own code would repeat its mistakes.
func TestSharesNoCodeWithTheSuspect(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if strings.Contains(path, "controller-manager/") && !strings.HasSuffix(path, "/plantest/fixedseed") ||
				strings.HasPrefix(path, "k8s.io/client-go") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

func TestAllHaveAnIDAndAClaim(t *testing.T) {
	var ids []string
	for _, o := range All() {
		if o.Claim == "" || o.start == nil {
			t.Errorf("%s has no claim or does nothing", o.ID)
		}
		ids = append(ids, o.ID)
	}
	if want := strings.Fields(
		"S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15 S16 S17 S18 S19 S20 S21 S22 S23 S24 S25 S26 S27 S28 S29 S30 S31 S32 S33 S34 " +
			"S35 S36 S37 S38 S39 S40 S41 S43 L1 L3"); !slices.Equal(ids, want) {
		t.Errorf("the oracles are %v", ids)
	}
	if len(Safety()) != 42 {
		t.Errorf("%d oracles of safety", len(Safety()))
	}
}

// bad is a history that violates S1, S2 and S5.
func bad() *scene {
	s := newScene()
	d := s.User().Create(aDeployment(1))
	a := s.Manager().Create(aSet(d, "a", 5))
	pods := s.pods(a, 6)
	s.Manager().Terminate(pods[0])
	s.Manager().Terminate(pods[1])
	return s
}

func ids(found []Violation) (all []string) {
	for _, v := range found {
		all = append(all, v.Oracle)
	}
	return all
}

func TestSavedHistoriesAreJudgedAlike(t *testing.T) {
	s := bad()
	s.Revisions[0].Injected = true
	for _, name := range []string{"history.jsonl", "history.jsonl.gz"} {
		file := filepath.Join(t.TempDir(), name)
		if err := s.Save(file); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(loaded.Revisions) != len(s.Revisions) || !reflect.DeepEqual(len(loaded.Requests), len(s.Requests)) ||
			!loaded.Revisions[0].Injected {
			t.Fatalf("%s: %d revisions and %d requests", name, len(loaded.Revisions), len(loaded.Requests))
		}
		want, have := Check(&s.History, Options{}, All()...), Check(loaded, Options{}, All()...)
		if len(want) == 0 || fmt.Sprint(want) != fmt.Sprint(have) {
			t.Errorf("%s: saved and loaded, it is judged %v, before %v", name, have, want)
		}
	}
	for _, text := range []string{"{", `{"Kind":"Secret","Object":{}}`, `{"Kind":"Pod","Object":[]}`} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("read %q", text)
		}
	}
}

// TestWithoutRequests: what a manager could have made is held to be its, unless it is marked.
func TestWithoutRequests(t *testing.T) {
	s := bad()
	s.Requests = nil
	if found := ids(Check(&s.History, Options{}, Safety()...)); !slices.Equal(slices.Compact(found), []string{"S1", "S2", "S5"}) {
		t.Errorf("found %v", found)
	}
	for i := range s.Revisions {
		s.Revisions[i].When = time.Time{}
	}
	if found := ids(Check(&s.History, Options{}, Safety()...)); !slices.Equal(slices.Compact(found), []string{"S1", "S2", "S5"}) {
		t.Errorf("without times, found %v", found)
	}
	for i := range s.Revisions {
		s.Revisions[i].Injected = true
	}
	if found := Check(&s.History, Options{}, Safety()...); len(found) > 0 {
		t.Errorf("all is injected, and found %v", found)
	}
}

// TestOrderDoesNotMatter: the watches of the kinds are merged by version.
func TestOrderDoesNotMatter(t *testing.T) {
	s := bad()
	want := fmt.Sprint(Check(&s.History, Options{}, All()...))
	slices.Reverse(s.Revisions)
	if have := fmt.Sprint(Check(&s.History, Options{}, All()...)); have != want {
		t.Errorf("reversed, it is judged %s, before %s", have, want)
	}
}

// TestLateBeginning: of pods whose ReplicaSet changed last, and later than they, the counts are right.
func TestLateBeginning(t *testing.T) {
	s := newScene()
	set := s.User().Create(aSet(nil, "a", 3))
	s.pods(set, 2)
	set = s.User().Edit(set, annotate("x", "y"))
	s.pods(set, 2)
	s.Revisions, s.Requests = s.Revisions[1:], s.Requests[1:]
	s.Revisions[0].Injected, s.Revisions[1].Injected = true, true
	if found := Check(&s.History, Options{}, NoPodBeyondReplicas()); len(found) != 1 || !strings.Contains(found[0].Message, "now has 4") {
		t.Errorf("found %v", found)
	}
}

func TestDeletionsAnsweredWithAStatus(t *testing.T) {
	s := newScene()
	set := s.User().Create(aSet(nil, "a", 1))
	s.Manager().Delete(s.pods(set, 1)[0])
	q := &s.Requests[len(s.Requests)-1]
	q.Version = 0 // there is no object in the answer, only the uid
	if found := Check(&s.History, Options{}, NoDeletionOfNeededPods()); len(found) != 1 {
		t.Errorf("found %v", found)
	}
	q.ResponseUID = "another"
	if found := Check(&s.History, Options{}, NoDeletionOfNeededPods()); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

// TestASecondDeletion: of two deletions of a pod that a finalizer holds, the second is answered with what the first has made.
func TestASecondDeletion(t *testing.T) {
	s := newScene()
	set := s.User().Create(aSet(nil, "a", 1))
	held := s.Manager().Edit(s.pods(set, 1)[0], finalizers("example.com/hold"))
	s.Manager().Terminate(held)
	again := s.Requests[len(s.Requests)-1]
	s.Requests = append(s.Requests, again)
	if c := Cover(&s.History, Options{}); len(c.Lost) != 0 {
		t.Errorf("lost %+v", c.Lost)
	}
	s.Requests[len(s.Requests)-1].Version += 100
	if c := Cover(&s.History, Options{}); len(c.Lost) != 1 {
		t.Errorf("a deletion that no revision shows: lost %+v", c.Lost)
	}
}

func TestMost(t *testing.T) {
	s := newScene()
	s.pods(s.User().Create(aSet(nil, "a", 1)), 30)
	found := Check(&s.History, Options{Most: 5}, NoPodBeyondReplicas())
	if len(found) != 5 || !strings.Contains(found[4].Message, "and 24 more of S1") {
		t.Errorf("found %d: %v", len(found), found[len(found)-1])
	}
}

func TestBefore(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(1000+int64(second), 0) }
	o := merged([]Interval{{at(50), at(60)}, {at(10), at(20)}, {at(15), at(25)}})
	for _, c := range []struct{ now, back, want int }{
		{100, 10, 90}, {65, 10, 45}, {55, 10, 40}, {45, 10, 35}, {30, 10, 5}, {65, 40, 0}, {8, 3, 5}, {60, 1, 49},
	} {
		if have := o.before(at(c.now), time.Duration(c.back)*time.Second); !have.Equal(at(c.want)) {
			t.Errorf("%d s before %d is %d, expected %d", c.back, c.now, have.Unix()-1000, c.want)
		}
	}
}

func TestByCredential(t *testing.T) {
	h := &History{Requests: []Request{{Credential: "cert-a", Issued: "token-1"}, {Credential: "token-1", Issued: "token-2"},
		{Credential: "loop", Issued: "loop"}}}
	who := ByCredential(h)
	for credential, want := range map[string]string{"cert-a": "cert-a", "token-1": "cert-a", "token-2": "cert-a", "loop": "loop", "": ""} {
		if have := who(Request{Credential: credential}); have != want {
			t.Errorf("%q is %q, expected %q", credential, have, want)
		}
	}
}

// TestNeverPanics: whatever the history, it is judged, and the same each time.
func TestNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := randomHistory(t)
		o := Options{Settled: rapid.Bool().Draw(t, "settled"), Surge: Surge(rapid.IntRange(0, 2).Draw(t, "surge"))}
		if rapid.Bool().Draw(t, "all") {
			o.Manager = func(Request) bool { return true }
		}
		before := len(h.Revisions)
		found := Check(h, o, All()...)
		for _, v := range found {
			_ = v.String()
		}
		if again := Check(h, o, All()...); len(again) != len(found) || len(h.Revisions) != before {
			t.Fatalf("found %d, then %d", len(found), len(again))
		}
		_ = Diff(Final(h), nil, nil)
		Recovery(h, o, epoch)
		Takeover(h, o, epoch)
	})
}

func randomHistory(t *rapid.T) *History {
	h := &History{}
	number := func(most int, what string) int { return rapid.IntRange(0, most).Draw(t, what) }
	n := number(40, "revisions")
	for i := range n {
		r := Revision{Version: int64(number(n, "version")), Type: []Type{Added, Modified, Deleted}[number(2, "type")],
			Injected: number(5, "injected") == 0, Object: randomObject(t)}
		if number(3, "timed") > 0 {
			r.When = time.Unix(int64(i*number(100, "seconds")), 0)
		}
		h.Append(r)
	}
	for range number(20, "requests") {
		q := Request{User: "system:kube-controller-manager",
			Verb:     []string{"create", "update", "patch", "delete", "get"}[number(4, "verb")],
			Resource: []string{"pods", "replicasets", "deployments", "endpoints", "leases", "nodes"}[number(5, "resource")],
			Code:     []int{0, 200, 404}[number(2, "code")],
			Version:  int64(number(n, "of")), ResponseUID: types.UID(fmt.Sprint(number(4, "response uid"))),
			Name: []string{"", "a", "b"}[number(2, "name")]}
		if number(1, "forced") == 1 {
			q.Grace = new(int64)
		}
		h.Request(q)
	}
	return h
}

func randomObject(t *rapid.T) Object {
	number := func(most int, what string) int { return rapid.IntRange(0, most).Draw(t, what) }
	maybe := func(what string) *int32 {
		if n := number(5, what); n > 0 {
			return pointer(int32(n - 2))
		}
		return nil
	}
	meta := metav1.ObjectMeta{Name: []string{"a", "b"}[number(1, "name")], Namespace: []string{"", "x"}[number(1, "namespace")],
		UID:        types.UID(fmt.Sprint(number(4, "uid"))),
		Generation: int64(number(3, "generation")), Labels: map[string]string{"app": fmt.Sprint(number(1, "label"))}}
	if number(3, "deleting") == 0 {
		meta.DeletionTimestamp = &metav1.Time{}
	}
	for range number(2, "owners") {
		meta.OwnerReferences = append(meta.OwnerReferences,
			metav1.OwnerReference{Kind: []string{ReplicaSet, Deployment}[number(1, "owner")],
				Name: "a", UID: types.UID(fmt.Sprint(number(4, "owner uid"))), Controller: pointer(number(3, "controls") > 0)})
	}
	if number(1, "annotated") == 1 {
		meta.Annotations = map[string]string{revisionAnnotation: fmt.Sprint(number(3, "revision")), overCapacity: "truncated"}
	}
	var match *metav1.LabelSelector
	if number(3, "selector") > 0 {
		match = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(number(1, "selects"))}}
	}
	template := podTemplate(fmt.Sprint(number(1, "image")))
	switch number(7, "kind") {
	case 0, 1:
		p := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: []string{"", "a"}[number(1, "node")]}, Status: corev1.PodStatus{
			Phase: []corev1.PodPhase{"", corev1.PodRunning, corev1.PodFailed}[number(2, "phase")]}}
		if number(1, "ready") == 1 {
			p.Status.PodIP, p.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "nonsense"}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return p
	case 2:
		return &appsv1.ReplicaSet{ObjectMeta: meta,
			Spec:   appsv1.ReplicaSetSpec{Replicas: maybe("size"), Selector: match, Template: template},
			Status: appsv1.ReplicaSetStatus{ObservedGeneration: int64(number(3, "observed")), Replicas: int32(number(2, "replicas"))}}
	case 3:
		d := &appsv1.Deployment{ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{Replicas: maybe("replicas"), Selector: match, Template: template, Paused: number(4, "paused") == 0,
				RevisionHistoryLimit: maybe("limit"), ProgressDeadlineSeconds: maybe("deadline")},
			Status: appsv1.DeploymentStatus{ObservedGeneration: int64(number(3, "observed")), CollisionCount: maybe("collisions")}}
		if number(2, "rolling") > 0 {
			surge := intstr.FromString([]string{"25%", "x", "-3%"}[number(2, "surge")])
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge}
		}
		return d
	case 4:
		return &corev1.Service{ObjectMeta: meta,
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "0"}, ClusterIP: []string{"", "None", "10.0.0.9"}[number(2, "ip")]}}
	case 5:
		e := &corev1.Endpoints{ObjectMeta: meta}
		for range number(2, "addresses") {
			e.Subsets = append(e.Subsets, corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}, {IP: "10.0.0.1",
				TargetRef: &corev1.ObjectReference{Kind: Pod, UID: types.UID(fmt.Sprint(number(4, "target")))}}}})
		}
		return e
	case 6:
		return &corev1.Node{ObjectMeta: meta}
	}
	meta.Namespace, meta.Name = "kube-system", "kube-controller-manager"
	return &coordinationv1.Lease{ObjectMeta: meta}
}

// TestIsQuick judges 100,000 revisions. It takes a second or two; a scan that is quadratic would take minutes.
func TestIsQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("a large history")
	}
	s := newScene()
	s.User().Create(aService())
	for d := range 100 {
		app := map[string]string{"app": fmt.Sprint(d)}
		deployment := aDeployment(200)
		deployment.Name, deployment.Labels, deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels = fmt.Sprint(d), app, app,
			app
		owner := s.User().Create(deployment)
		var previous []Object
		for round := range 2 {
			set := aSet(owner, fmt.Sprint("r", round), 200)
			set.Name, set.Labels, set.Spec.Template.Labels, set.Spec.Selector = fmt.Sprint(d, "-", round), app, app,
				&metav1.LabelSelector{MatchLabels: app}
			made := s.Manager().Create(set)
			pods := s.up(made, 200)
			for _, p := range previous {
				s.User().Delete(s.Manager().Terminate(p))
			}
			previous = pods
		}
	}
	if len(s.Revisions) < 100_000 {
		t.Fatalf("%d revisions", len(s.Revisions))
	}
	start := time.Now()
	found := Check(&s.History, Options{}, All()...)
	took := time.Since(start)
	t.Logf("%d revisions, %d violations, %v", len(s.Revisions), len(found), took)
	if took > time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestCover(t *testing.T) {
	s := bad()
	s.Manager().Ask("delete", "pods", "unknown", 200)
	s.Manager().Ask("delete", "pods", "gone", 404)
	s.User().Ask("delete", "pods", "unknown", 200)
	s.Manager().Ask("create", "events", "e", 201)
	c := Cover(&s.History, Options{})
	if c.Manager[Pod] != 8 || c.Manager[ReplicaSet] != 1 || c.Others[Deployment] != 1 || len(c.Lost) != 1 || c.Lost[0].Name != "unknown" {
		t.Errorf("%+v", c)
	}
}
