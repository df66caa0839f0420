package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// webhook is a client of a server with a webhook that takes back what is changed of some pods, and counts in an annotation; and that
// takes the labels from new ones.
type webhook struct {
	*clienttest.Server
	undoes func(name string) bool

	mu   sync.Mutex
	made map[string]int
}

// count counts a write of one name, or a creation, and returns how many there were.
func (h *webhook) count(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made[name]++
	return h.made[name]
}

func (h *webhook) Create(ctx context.Context, m client.Mapping, o plan.Object, opts client.WriteOptions) (*metav1.PartialObjectMetadata,
	error) {
	h.count("create")
	if h.undoes("new") {
		o = o.DeepCopyObject().(plan.Object)
		o.SetLabels(nil)
	}
	return h.Server.Create(ctx, m, o, opts)
}

func (h *webhook) Update(ctx context.Context, m client.Mapping, o plan.Object, opts client.WriteOptions) (*metav1.PartialObjectMetadata,
	error) {
	return h.stamped(ctx, m, o.GetName(), func() (*metav1.PartialObjectMetadata, error) { return h.Server.Update(ctx, m, o, opts) })
}

func (h *webhook) Patch(ctx context.Context, m client.Mapping, key plan.Key, p client.Patch,
	opts client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	return h.stamped(ctx, m, key.Name, func() (*metav1.PartialObjectMetadata, error) { return h.Server.Patch(ctx, m, key, p, opts) })
}

func (h *webhook) stamped(ctx context.Context, m client.Mapping, name string,
	write func() (*metav1.PartialObjectMetadata, error)) (*metav1.PartialObjectMetadata, error) {
	n := h.count(name)
	if !h.undoes(name) {
		return write()
	}
	p := &corev1.Pod{}
	if err := h.Get(ctx, m, plan.Key{Namespace: "ns", Name: name}, p); err != nil {
		return nil, err
	}
	p.Annotations = map[string]string{"stamp": fmt.Sprint(n)}
	return h.Server.Update(ctx, m, p, client.WriteOptions{})
}

// A change that is undone each time is made ever more rarely, but at least once a minute; people are told. Changes of other objects,
// and other changes of the same one, do not wait. What a user undoes once is made again at once.
func TestAChangeThatIsUndone(t *testing.T) {
	for _, method := range []client.Method{client.MethodPatch, client.MethodUpdate} {
		t.Run(string(method), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, owner := newBench(t), newSet()
				undoes := true
				h := &webhook{Server: b.Server, undoes: func(name string) bool { return undoes && name == "undone" },
					made: map[string]int{}}
				b.Config.Client = h
				b.Method = func(schema.GroupResource, string) client.Method { return method }
				e := New(b.Config)
				undone, fine := put(b, newPod("undone", owner)), put(b, newPod("fine", owner))
				// look does what a controller does: it compares, and changes what differs.
				look := func(label string) (left time.Duration) {
					pods, _ := client.BuiltIn(podKind)
					w := e.Begin(t.Context(), owner, &b.barrier)
					var steps []plan.Step
					for _, p := range []*corev1.Pod{undone, fine} {
						now := &corev1.Pod{}
						if err := b.Get(t.Context(), pods, plan.KeyOf(p), now); err != nil {
							t.Fatal(err)
						}
						after := now.DeepCopy()
						after.Labels = map[string]string{"a": label}
						if now.Labels["a"] != label {
							steps = append(steps, plan.Change{Old: now, New: after})
						}
					}
					if did := w.Apply(steps); did.Err != nil {
						t.Fatal(did.Err)
					}
					return w.LeftOut()
				}
				const every = 100 * time.Millisecond
				for range int(5 * time.Minute / every) {
					look("b")
					time.Sleep(every)
				}
				if n := h.made["undone"]; n < 9 || n > 14 || h.made["fine"] != 1 {
					t.Errorf("in 5 minutes: %v", h.made)
				}
				events := b.recorded()
				if len(events) < 6 || len(events) > 12 ||
					!strings.Contains(events[0], "Warning ChangeUndone A change of Pod undone was undone 2 times in a row") {
					t.Errorf("events: %q", events)
				}
				if look("c"); h.made["fine"] != 2 {
					t.Error("another change waits")
				}
				for range 100 {
					look("c")
				}
				undoes = false
				wait := look("c")
				if wait <= 0 || wait > time.Minute {
					t.Errorf("when the webhook is gone it waits for %v", wait)
				}
				time.Sleep(wait)
				before := h.made["undone"]
				if left := look("c"); left != 0 && look("c") != 0 || h.made["undone"] != before+1 {
					t.Errorf("after that: %v, left out %v", h.made, left)
				}
			})
		})
	}
}

// A user may undo what a controller has written: it is written again at once.
func TestAUserMayUndoOnce(t *testing.T) {
	b, owner := newBench(t), newSet()
	e := New(b.Config)
	p := put(b, newPod("p", owner))
	for range 2 {
		if w := e.Begin(t.Context(), owner, &b.barrier); w.Apply([]plan.Step{plan.Change{Old: p, New: labelled(p)}}).Err != nil ||
			len(w.outcome.Results) != 1 {
			t.Errorf("%+v", w.outcome)
		}
		undone := p.DeepCopy()
		undone.ResourceVersion = ""
		p = put(b, undone)
	}
}

// What its controller itself makes so that its selector does not match it would be released, and made again without end: it is slowed down.
func TestSelectorThatTheControllerMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, owner := newBench(t), newSet()
		e, p := New(b.Config), generated(owner)
		p.UID, p.Labels = "", map[string]string{"app": "web", "hash": "1"}
		step := plan.Create{Object: p, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "hash": "2"}}}
		for range 3000 {
			if did := e.Begin(t.Context(), owner, &b.barrier).Apply([]plan.Step{step}); UndoneFor(did.Err) <= 0 {
				t.Fatalf("%+v", did)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(b.Server.Writes()); n < 5 || n > 12 {
			t.Errorf("%d pods were created in 5 minutes", n)
		}
	})
}

// Pods that come back without the labels of the selector count as failed creations: no batch follows, the next one waits twice as long
// each time, at most a minute, and the reason stays the same. When the webhook is gone the first one is made within a minute, and then
// all.
func TestPodsThatComeBackWithoutLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, owner := newBench(t), newSet()
		undoes := true
		h := &webhook{Server: b.Server, undoes: func(string) bool { return undoes }, made: map[string]int{}}
		b.Config.Client = h
		e := New(b.Config)
		p := generated(owner)
		p.UID, p.Labels = "", map[string]string{"app": "web", "other": "x"}
		step := plan.Create{Object: p, Count: 10, Events: podEvents,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
		try := func() plan.Outcome { return e.Begin(t.Context(), owner, &b.barrier).Apply([]plan.Step{step}) }
		var reasons []string
		for range 3000 {
			did := try()
			if wait := UndoneFor(did.Err); wait <= 0 || wait > time.Minute || !FromServer(did.Err) || !Answered(did.Failed(plan.Created)) {
				t.Fatalf("%v: %v", did.Err, wait)
			}
			if reason := did.Failed(plan.Created).Error(); len(reasons) == 0 || reasons[len(reasons)-1] != reason {
				reasons = append(reasons, reason)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := h.made["create"]; n < 8 || n > 12 {
			t.Errorf("%d pods were created in 5 minutes", n)
		}
		if len(reasons) != 1 || !strings.Contains(reasons[0], "without the labels of the selector app=web") {
			t.Errorf("reasons: %q", reasons)
		}
		if events := b.recorded(); len(events) != h.made["create"] ||
			!strings.HasPrefix(events[0], "Warning Failed Error: it was created without") {
			t.Errorf("events: %q", events)
		}
		// Those of another owner have nothing to do with it.
		other := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "b"}}
		theirs := generated(other)
		theirs.UID, theirs.Labels = "", map[string]string{"app": "db"}
		undoes = false
		if did := e.Begin(t.Context(), other,
			&b.barrier).Apply([]plan.Step{plan.Create{Object: theirs,
			Selector: &metav1.LabelSelector{MatchLabels: theirs.Labels}}}); did.Err != nil {
			t.Error(did.Err)
		}
		time.Sleep(UndoneFor(try().Err))
		if did := try(); did.Err != nil || len(did.Results) != 10 {
			t.Errorf("when the webhook is gone: %+v", did)
		}
	})
}

// Whatever the times in it and the version that it was made from, a difference is the same; any other difference is another one.
func TestWithoutTimes(t *testing.T) {
	sum := func(text string) uint64 { return withoutTimes([]byte(text)) }
	for _, same := range [][2]string{
		{`{"at":"2026-01-02T03:04:05Z","T":"x"}`, `{"at":"2027-11-12T13:14:15Z","T":"x"}`},
		{`{"at":"2026-01-02T03:04:05.1Z"}`, `{"at":"2026-01-02T03:04:05.123456Z"}`},
	} {
		if sum(same[0]) != sum(same[1]) {
			t.Errorf("%s and %s differ", same[0], same[1])
		}
	}
	for _, different := range [][2]string{{`{"replicas":1}`, `{"replicas":2}`}, {`{"T":"x"}`, `{"T":"y"}`}, {`T2026-01-0T`, `T2026-01-1T`},
		{"", "T"}} {
		if sum(different[0]) == sum(different[1]) {
			t.Errorf("%s and %s are the same", different[0], different[1])
		}
	}
}

// What is remembered of changes that were not undone is forgotten.
func TestUndoneForgets(t *testing.T) {
	var u undone
	now := time.Now()
	for i := range 10_000 {
		now = now.Add(undoneWithin / 1000)
		u.made(subject{of: types.UID(fmt.Sprint(i))}, 1, now)
		if i%100 == 0 {
			u.made(subject{of: types.UID(fmt.Sprint(i))}, 1, now)
		}
	}
	if n := len(u.last) + len(u.before); n > 2000 {
		t.Errorf("%d changes are remembered", n)
	}
	if n := len(u.again); n > 90 {
		t.Errorf("%d changes that were undone once are remembered", n)
	}
}

// What an admission webhook asks to do later is refused, and so told; what the server asks for is not. A webhook cannot say that the
// namespace ends.
func TestRefusalsOfWebhooks(t *testing.T) {
	webhooks := apierrors.NewTooManyRequests(`admission webhook "x.example.com" denied the request: later`, 7)
	if PutOff(webhooks) || !PutOff(apierrors.NewTooManyRequests("later", 7)) {
		t.Error("a webhook's refusal counts as the server's")
	}
	forged := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("no"))
	forged.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	if !namespaceEnds(forged) {
		t.Error("the server's word does not count")
	}
	forged.ErrStatus.Message = `admission webhook "x.example.com" denied the request: no`
	if namespaceEnds(forged) {
		t.Error("a webhook's word counts")
	}
}
