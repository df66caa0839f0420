package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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
		text, err := json.Marshal(append(entries, <-r.queue))
		if err != nil || bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte("aHVudGVyMg")) {
			t.Errorf("%T: %s, %v", o, text, err)
		}
	}
}

// running is a recorder that writes until stop is called.
func running(t *testing.T, dir string, most int64) (r *Recorder, stop func()) {
	return runs(t, Options{Dir: dir, Most: most})
}

func runs(t *testing.T, o Options) (r *Recorder, stop func()) {
	r = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	return r, func() { cancel(); <-ended }
}

func entry(name string) Entry {
	return Entry{Time: at, Verb: Deleted, Object: Ref{Kind: "Pod", Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}, Rule: "too many"}
}

func names(t *testing.T, dir, name string) (all []string) {
	t.Helper()
	found, err := read(t.Context(), dir, Ref{Kind: "pod", Namespace: "shop", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		all = append(all, e.Object.Name)
	}
	return all
}

// Whatever was recorded is there after a restart, also behind a line that a process did not end.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "it")
	r, stop := running(t, dir, Least)
	for i := range 100 {
		r.record(entry(fmt.Sprintf("a-%d", i)))
	}
	stop()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"verb":"deleted","object":{"kind":"Pod","namespace":"shop","name":"torn`)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, stop = running(t, dir, Least)
	r.record(entry("b"))
	stop()
	for _, name := range []string{"a-0", "a-99", "b"} {
		if got := names(t, dir, name); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if again, _ := filepath.Glob(filepath.Join(dir, "*"+suffix)); !slices.Equal(again, files) {
		t.Errorf("a restart began a file: %v", again)
	}
	if got := names(t, dir, "torn"); len(got) != 0 {
		t.Errorf("of a line without an end: %v", got)
	}
}

// The bound holds after each write, over a restart too, and nearly all of it is used by what is newest.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	const most = 64 << 10
	line := append(bytes.Repeat([]byte("x"), 499), '\n')
	newest := ""
	for i := range 1000 {
		if i%100 != 0 {
			continue
		}
		r, err := openRing(dir, most)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 100 {
			newest = fmt.Sprintf("%06d", i+n)
			copy(line, newest)
			if err := r.append(line); err != nil {
				t.Fatal(err)
			}
			if size := sizeOf(t, dir); size > most {
				t.Fatalf("%d bytes", size)
			}
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
	}
	lines := 0
	if err := scan(t.Context(), dir, [][]byte{[]byte("x")}, func(l []byte) {
		lines++
		newest = string(l[:6])
	}); err != nil || newest != "000999" || lines < most*(segments-2)/segments/500 {
		t.Errorf("%d lines, the last is %s, %v", lines, newest, err)
	}
}

func sizeOf(t *testing.T, dir string) (sum int64) {
	t.Helper()
	all, err := segmentsIn(dir)
	for _, s := range all {
		sum += s.size
	}
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Of two processes with one folder, the second one says what is wrong, and takes over when the first one has ended.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	first, err := openRing(dir, Least)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openRing(dir, Least); !errors.Is(err, errLocked) {
		t.Errorf("the second process: %v", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openRing(dir, Least)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.close(); err != nil {
		t.Error(err)
	}
}

// A folder that cannot be had stops nobody. What was recorded meanwhile is written when it can be had.
func TestNoFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "history")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r, stop := running(t, dir, Least)
		synctest.Wait()
		r.record(entry("a"))
		if _, err := r.About(t.Context(), Ref{Kind: "Pod", Name: "a"}); err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("before there is a folder: %v", err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(openAgainAfter + time.Second)
		synctest.Wait()
		if found, err := r.About(t.Context(), Ref{Kind: "Pod", Namespace: "shop", Name: "a"}); err != nil || len(found) != 1 {
			t.Errorf("%v, %v", found, err)
		}
		stop()
	})
}

// A full queue holds a deletion up for a moment, once, and the others not at all. What is lost is counted, and told when there is room.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := map[Verb]int{}
		r := New(Options{Dir: filepath.Join(t.TempDir(), "history"), Most: 16 * Least, Count: func(v Verb, result string, n int) {
			if result == Dropped {
				lost[v] += n
			}
		}})
		for i := range mostQueued {
			r.record(entry(fmt.Sprint(i)))
		}
		other := entry("x")
		other.Verb = Created
		for _, c := range []struct {
			e    Entry
			wait time.Duration
		}{{other, 0}, {entry("y"), waitForRoom}, {entry("z"), 0}} {
			began := time.Now()
			if r.record(c.e); time.Since(began) != c.wait {
				t.Errorf("%s waits for %v, want %v", c.e.Object, time.Since(began), c.wait)
			}
		}
		if lost[Created] != 1 || lost[Deleted] != 2 {
			t.Errorf("lost: %v", lost)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		synctest.Wait()
		cancel()
		<-ended
		told := 0
		if err := scan(t.Context(), r.Dir, [][]byte{[]byte(`"verb":"lost"`)}, func(line []byte) {
			var e Entry
			if err := json.Unmarshal(line, &e); err != nil {
				t.Error(err)
			}
			told += e.Count
		}); err != nil || told != 3 {
			t.Errorf("%d entries are told to be lost, %v", told, err)
		}
		if got := names(t, r.Dir, fmt.Sprint(mostQueued-1)); len(got) != 1 {
			t.Errorf("the last in the queue: %v", got)
		}
	})
}

// What a disk does not take is lost and counted, and the next write begins a line.
func TestFailedWrite(t *testing.T) {
	r := New(Options{})
	ring, err := openRing(t.TempDir(), Least)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.write(ring, entry("a")); err != nil {
		t.Fatal(err)
	}
	whole := ring.file
	if ring.file, err = os.Open(whole.Name()); err != nil { // it cannot be written to
		t.Fatal(err)
	}
	if err := r.write(ring, entry("b")); err == nil || r.lost.Load() != 1 {
		t.Errorf("%v, %d lost", err, r.lost.Load())
	}
	if err := errors.Join(ring.file.Close(), r.write(ring, entry("c"))); err == nil || r.lost.Load() != 2 {
		t.Errorf("%v, %d lost", err, r.lost.Load())
	}
	ring.file = whole
	if err := errors.Join(r.write(ring, entry("d")), ring.close()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"a": 1, "b": 0, "c": 0, "d": 1} {
		if got := names(t, ring.dir, name); len(got) != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if r.lost.Load() != 0 {
		t.Errorf("%d are not told of", r.lost.Load())
	}
}

// A plan that is repeated, and a failure, are kept once; deletions that were carried out always are.
func TestRepetitions(t *testing.T) {
	r := New(Options{})
	planned, failed := entry("a"), entry("a")
	planned.Inferred, failed.Error = true, "no"
	other := failed
	other.Error = "still no"
	for _, e := range []Entry{planned, planned, failed, failed, other, entry("a"), entry("a")} {
		r.record(e)
	}
	if len(r.queue) != 5 {
		t.Errorf("%d entries", len(r.queue))
	}
	for i := range 3 * mostSaid {
		one := planned
		one.Object.Name = fmt.Sprint(i)
		r.repeats(one)
	}
	if len(r.said) > mostSaid {
		t.Errorf("%d are remembered", len(r.said))
	}
}

// The story of a pod whose ReplicaSet and Deployment are gone: from the entries of several processes, through restarts.
func TestStory(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: meta("web")}
	record := func(observer bool, decisions map[string]reconcile.Decision, gone ...plan.Object) []Entry {
		dir := t.TempDir()
		r, stop := runs(t, Options{Dir: dir, Most: Least, Observer: observer})
		for controller, d := range decisions {
			r.Decided(controller)(d)
		}
		for _, o := range gone {
			r.Gone(o)
		}
		stop()
		found, err := read(t.Context(), dir, Ref{Kind: "pod", Namespace: "shop", Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	p := pod("a")
	collected := decision([]plan.Step{plan.Delete{Objects: []plan.Object{p}, Why: "its owner is gone"}}, done(plan.Deleted, p))
	collected.Owner = nil
	made := decision([]plan.Step{plan.Create{Object: set(2), Why: "no ReplicaSet has the template"}}, done(plan.Created, set(2)))
	made.Steps[0] = plan.Create{Object: made.Did[0].Object, Why: "no ReplicaSet has the template"}
	made.Owner, made.Record.Time = deployment, at.Add(-time.Minute)
	entries := record(false, map[string]reconcile.Decision{"garbage-collector-controller": collected, "deployment-controller": made},
		p, set(2), deployment)
	s, ok := Tell(Ref{Kind: "Pod", Namespace: "shop", Name: "a"}, entries)
	if !ok || len(s.Chain) != 3 {
		t.Fatalf("%v: %+v", ok, s)
	}
	for i, want := range []string{
		"Deployment shop/web: somebody else deleted it: no controller that was asked planned it; gone since ",
		"ReplicaSet shop/web-1: somebody else deleted it: no controller that was asked planned it; gone since ",
		"Pod shop/a: garbage-collector-controller deleted it at 2026-01-02T03:04:05Z: its owner is gone; gone since ",
	} {
		if got := s.Chain[i].Object.String() + ": " + s.Chain[i].Says; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var text bytes.Buffer
	s.WriteText(&text)
	for _, want := range []string{s.Summary + "\n", "\n  Deployment shop/web", "\n    ReplicaSet shop/web-1", "\n      Pod shop/a",
		"deployment-controller created ReplicaSet shop/web-1; no ReplicaSet has the template", "precondition: uid", "saw: Running, on node node-a"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &text)
		}
	}
	// An observer has planned the same, and seen it gone; then nobody of ours has done it.
	observed := collected
	observed.Did, observed.Record.Inferred = nil, true
	entries = record(true, map[string]reconcile.Decision{"garbage-collector-controller": observed}, p)
	if s, _ := Tell(Ref{Kind: "Pod", Namespace: "shop", Name: "a"}, entries); !strings.HasPrefix(s.Summary,
		"Pod shop/a: it is gone; garbage-collector-controller would have deleted it at 2026-01-02T03:04:05Z: its owner is gone (inferred); gone since ") {
		t.Error(s.Summary)
	}
}

// What the last object of a name has met is told in one line.
func TestVerdict(t *testing.T) {
	gone, own, made := entry("a"), entry("a"), entry("a")
	gone.Verb, gone.Time, made.Verb, made.Rule = Gone, at.Add(time.Hour), Created, "missing"
	seen := gone
	seen.Inferred, seen.Time = true, at.Add(time.Hour+time.Second)
	own.Controller, made.Controller = "c", "c"
	refused, needless, planned, evicted, all := own, own, own, own, own
	refused.Error, needless.Needless, planned.Inferred, evicted.Verb = "forbidden", true, true, Evicted
	all.Object = Ref{Kind: "Pod", Namespace: "shop"}
	later := all
	later.Time = at.Add(2 * time.Hour)
	again := made
	again.Object.UID, again.Time = "other", at.Add(3*time.Hour)
	for want, entries := range map[string][]Entry{
		"c deleted it at 2026-01-02T03:04:05Z: too many; gone since 2026-01-02T04:04:05Z":                    {made, own, gone},
		"c evicted it at 2026-01-02T03:04:05Z: too many":                                                     {made, evicted},
		"c tried to have it deleted at 2026-01-02T03:04:05Z, and failed: forbidden":                          {refused},
		"c found it gone or replaced at 2026-01-02T03:04:05Z":                                                {needless},
		"somebody else deleted it: no controller that was asked planned it; gone since 2026-01-02T04:04:05Z": {gone, later, seen},
		"it is gone, and no plan of an observer names it: somebody else deleted it, or a controller that was quicker; gone since " +
			"2026-01-02T04:04:06Z": {seen, seen},
		"c would have deleted it at 2026-01-02T03:04:05Z: too many (inferred); nothing shows that it is gone":          {planned},
		"c deleted all objects of kind Pod in shop at 2026-01-02T03:04:05Z: too many; gone since 2026-01-02T04:04:05Z": {all, gone},
		"c created it: missing; nothing shows that it is gone":                                                         {own, gone, again},
	} {
		s, ok := Tell(Ref{Kind: "Pod", Namespace: "shop", Name: "a"}, entries)
		if !ok || s.Summary != "Pod shop/a: "+want {
			t.Errorf("%q, want %q", s.Summary, want)
		}
	}
	if _, ok := Tell(Ref{Kind: "Pod", Namespace: "shop", Name: "b"}, []Entry{all, own}); ok {
		t.Error("there is a story of an object that nobody knows")
	}
}

// An answer is bounded, and has what is newest.
func TestAnswersAreBounded(t *testing.T) {
	dir := t.TempDir()
	r, stop := running(t, dir, Least)
	for i := range 3 * mostOfObject {
		e := entry("a")
		e.Version = fmt.Sprint(i)
		r.record(e)
	}
	stop()
	found, err := read(t.Context(), dir, Ref{Kind: "pod", Namespace: "shop", Name: "a"})
	if err != nil || len(found) != mostOfObject || found[len(found)-1].Version != fmt.Sprint(3*mostOfObject-1) {
		t.Errorf("%d entries, %v", len(found), err)
	}
}

// FuzzRead: whatever is in the files, reading ends without a panic, and finds nothing that is not about the object.
func FuzzRead(f *testing.F) {
	line, err := json.Marshal(entry("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, '\n'))
	f.Add(append(append(line[:len(line)/2:len(line)/2], '\n'), line...))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "000000000001"+suffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
		about := Ref{Kind: "Pod", Namespace: "shop", Name: "a"}
		found, err := read(t.Context(), dir, about)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := Tell(about, found); ok {
			s.WriteText(&bytes.Buffer{})
		}
	})
}

// A decision that deletes one pod, as it is recorded by a worker.
func BenchmarkDecided(b *testing.B) {
	p := pod("a")
	d := decision([]plan.Step{plan.Delete{Objects: []plan.Object{p}, Why: "too many"}}, done(plan.Deleted, p))
	r, quiet := New(Options{}), decision(nil)
	b.Run("deletion", func(b *testing.B) {
		decided := r.Decided("replicaset-controller")
		b.ReportAllocs()
		for b.Loop() {
			decided(d)
			<-r.queue
		}
	})
	b.Run("nothing to keep", func(b *testing.B) {
		decided := r.Decided("replicaset-controller")
		b.ReportAllocs()
		for b.Loop() {
			decided(quiet)
		}
	})
	b.Run("written", func(b *testing.B) {
		ring, err := openRing(b.TempDir(), 64<<20)
		if err != nil {
			b.Fatal(err)
		}
		decided := r.Decided("replicaset-controller")
		b.ReportAllocs()
		for b.Loop() {
			decided(d)
			if err := r.write(ring, <-r.queue); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if err := ring.close(); err != nil {
			b.Fatal(err)
		}
	})
}
