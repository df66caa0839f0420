package agreement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// world is a comparison with a clock and a cluster in memory.
type world struct {
	*Comparison
	now     time.Time
	objects map[string]plan.Object
	counted map[Verdict]int
}

func newWorld() *world {
	w := &world{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), objects: map[string]plan.Object{}, counted: map[Verdict]int{}}
	w.Comparison = New(Options{
		Now:   func() time.Time { return w.now },
		Count: func(_ string, v Verdict, n int) { w.counted[v] += n },
		Cached: func(kind schema.GroupVersionKind, key plan.Key) (plan.Object, bool) {
			o := w.objects[kind.Kind+" "+key.String()]
			return o, kind.Kind != "Lease"
		},
	})
	return w
}

func (w *world) put(o plan.Object) {
	key := kindOf(o).Kind + " " + plan.KeyOf(o).String()
	if w.objects[key] == nil {
		o.SetCreationTimestamp(metav1.NewTime(w.now))
		w.Came(o)
	}
	w.objects[key] = o
}

func (w *world) remove(o plan.Object) {
	delete(w.objects, kindOf(o).Kind+" "+plan.KeyOf(o).String())
	w.Went(o)
}

// plans tells what is planned, some time after what was told before.
func (w *world) plans(after time.Duration, steps ...plan.Step) {
	w.now = w.now.Add(after)
	w.Planned("a-controller", reconcile.Decision{Key: plan.Key{Namespace: "shop", Name: "web"}, Owner: set(3), Steps: steps})
}

func set(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "set"},
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(replicas)}}
}

func ready(n int32) *appsv1.ReplicaSet {
	s := set(3)
	s.Status.ReadyReplicas = n
	return s
}

// pod is one that the set controls. Without a name, the server makes it up.
func pod(name string, labels ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, GenerateName: "web-", UID: types.UID(name),
		Labels:          map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "set", Controller: ptr.To(true)}}}}
	for _, label := range labels {
		p.Labels[label] = "yes"
	}
	return p
}

func TestVerdicts(t *testing.T) {
	scale := plan.Change{Old: set(3), New: set(5)}
	status := plan.Change{Old: ready(0), New: ready(2), Subresource: plan.Status}
	three := plan.Create{Object: pod("", "app"), Count: 3}
	for _, c := range []struct {
		name  string
		does  func(*world)
		want  map[Verdict]int
		field string // of the last disagreement
	}{
		{"of two deletions, one is done and the other is wanted no more", func(w *world) {
			a, b := pod("a"), pod("b")
			w.put(a)
			w.put(b)
			w.plans(0, plan.Delete{Objects: []plan.Object{a, b}})
			w.remove(a)
			w.plans(5 * time.Second)
		}, map[Verdict]int{Agreed: 1, Superseded: 1}, ""},
		{"a deletion is planned that was just done, beside one that is wanted no more", func(w *world) {
			a, b := pod("a"), pod("b")
			w.put(a)
			w.put(b)
			w.plans(0, plan.Delete{Objects: []plan.Object{a}})
			w.remove(b)
			w.plans(time.Second, plan.Delete{Objects: []plan.Object{a, b}})
			w.plans(time.Second, plan.Delete{Objects: []plan.Object{a}})
			w.plans(5 * time.Second)
		}, map[Verdict]int{Agreed: 1, Superseded: 1}, ""},
		{"of two creations, one is done and the other is wanted no more", func(w *world) {
			w.plans(0, plan.Create{Object: pod("web-0")}, plan.Create{Object: pod("web-1")})
			w.put(pod("web-0"))
			w.plans(5 * time.Second)
		}, map[Verdict]int{Agreed: 1, Superseded: 1}, ""},
		{"a status that is planned anew again and again, and never written", func(w *world) {
			w.put(ready(0))
			for n := range int32(9) {
				w.plans(30*time.Second, plan.Change{Old: ready(0), New: ready(n + 1), Subresource: plan.Status})
			}
		}, map[Verdict]int{Superseded: 2, Unexplained: 1}, "status.readyReplicas"},
		{"an object of another owner", func(w *world) {
			w.plans(0, plan.Create{Object: pod("web-0")})
			p := pod("web-0")
			p.OwnerReferences[0].UID, p.OwnerReferences[0].Name = "other", "other"
			w.put(p)
			w.plans(5 * time.Second)
		}, map[Verdict]int{Unexplained: 1}, "metadata.ownerReferences"},
		{"a change is done", func(w *world) {
			w.plans(0, scale)
			w.put(set(5))
			w.plans(time.Second)
		}, map[Verdict]int{Agreed: 1}, ""},
		{"a change to another value, long after it was planned", func(w *world) {
			w.plans(0, scale)
			w.put(set(7))
			w.plans(5 * time.Second)
		}, map[Verdict]int{Unexplained: 1}, "spec.replicas"},
		{"a change to another value, right after it was planned", func(w *world) {
			w.plans(0, scale)
			w.put(set(7))
			w.plans(time.Second)
		}, map[Verdict]int{Superseded: 1}, ""},
		{"a change that is wanted no more", func(w *world) {
			w.put(set(3))
			w.plans(0, scale)
			w.plans(5 * time.Second)
		}, map[Verdict]int{Superseded: 1}, ""},
		{"another change is planned in its place, and done", func(w *world) {
			w.put(set(3))
			w.plans(0, scale)
			w.plans(5*time.Second, plan.Change{Old: set(3), New: set(4)})
			w.put(set(4))
			w.plans(time.Second)
		}, map[Verdict]int{Superseded: 1, Agreed: 1}, ""},
		{"a change of an object that is gone", func(w *world) {
			w.plans(0, scale)
			w.plans(5 * time.Second)
		}, map[Verdict]int{Superseded: 1}, ""},
		{"a status that comes about in two writes", func(w *world) {
			w.put(ready(0))
			w.plans(0, status)
			w.put(ready(1))
			w.plans(3*time.Second, plan.Change{Old: ready(1), New: ready(2), Subresource: plan.Status})
			w.put(ready(2))
			w.plans(3 * time.Second)
		}, map[Verdict]int{Agreed: 1}, ""},
		{"a status of which we would not write more", func(w *world) {
			w.put(ready(0))
			w.plans(0, status)
			w.put(ready(3))
			w.plans(3 * time.Second)
		}, map[Verdict]int{Agreed: 1}, ""},
		{"a status that stays wrong", func(w *world) {
			w.put(ready(1))
			w.plans(0, status)
			w.plans(time.Minute, status)
			w.plans(time.Minute, status) // counts once
			w.put(ready(2))
			w.plans(time.Minute)
		}, map[Verdict]int{Unexplained: 1}, "status.readyReplicas"},
		{"copies, some of them later", func(w *world) {
			w.plans(0, three)
			w.put(pod("web-a", "app"))
			w.plans(40*time.Second, plan.Create{Object: pod("", "app"), Count: 2})
			w.put(pod("web-b", "app"))
			w.put(pod("web-c", "app"))
			w.plans(40 * time.Second)
		}, map[Verdict]int{Agreed: 3}, ""},
		{"copies of which one is enough", func(w *world) {
			w.plans(0, three)
			w.put(pod("web-a", "app"))
			w.plans(time.Second)
		}, map[Verdict]int{Agreed: 1, Superseded: 2}, ""},
		{"a copy that is another one", func(w *world) {
			w.plans(0, plan.Create{Object: pod("", "app")})
			w.put(pod("web-a", "other"))
			w.plans(time.Second)
		}, map[Verdict]int{Unexplained: 1}, "metadata.labels.app"},
		{"what admission adds", func(w *world) {
			w.plans(0, plan.Create{Object: pod("", "app")})
			w.put(pod("web-a", "app", "added"))
			w.plans(time.Second)
		}, map[Verdict]int{Agreed: 1}, ""},
		{"nothing is created", func(w *world) {
			w.plans(0, three)
			w.plans(time.Minute, three)
		}, map[Verdict]int{Unexplained: 1}, ""},
		{"a creation by another name", func(w *world) {
			w.plans(0, plan.Create{Object: pod("web-1")})
			w.put(pod("web-2"))
			w.plans(time.Second)
		}, map[Verdict]int{Unexplained: 1}, "metadata.name"},
		{"a creation by its name", func(w *world) {
			w.plans(0, plan.Create{Object: pod("web-1")})
			w.put(pod("web-1"))
			w.plans(time.Second)
		}, map[Verdict]int{Agreed: 1}, ""},
		{"a creation by its name, of something else", func(w *world) {
			w.plans(0, plan.Create{Object: pod("web-1", "app")})
			w.put(pod("web-1", "other"))
			w.plans(time.Second)
		}, map[Verdict]int{Superseded: 1}, ""},
		{"a creation of something else, long after it was planned", func(w *world) {
			w.plans(0, plan.Create{Object: pod("web-1", "app")})
			w.put(pod("web-1", "other"))
			w.plans(settledAfter)
		}, map[Verdict]int{Unexplained: 1}, "metadata.labels.app"},
		{"a list that differs in a time", func(w *world) {
			tainted := func(key string, at time.Time) plan.Object {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
					Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, TimeAdded: ptr.To(metav1.NewTime(at))}}}}
			}
			w.plans(0, plan.Change{Old: tainted("a", w.now), New: tainted("b", w.now)})
			w.put(tainted("b", w.now.Add(time.Second)))
			w.plans(5 * time.Second)
		}, map[Verdict]int{Agreed: 1}, ""},
		{"a deletion", func(w *world) {
			w.put(pod("web-a"))
			w.plans(0, plan.Delete{Objects: []plan.Object{pod("web-a")}})
			w.remove(pod("web-a"))
			w.plans(time.Second)
		}, map[Verdict]int{Agreed: 1}, ""},
		{"another one is deleted", func(w *world) {
			w.put(pod("web-a"))
			w.plans(0, plan.Delete{Objects: []plan.Object{pod("web-a")}})
			w.remove(pod("web-b"))
			w.plans(time.Second)
		}, map[Verdict]int{Unexplained: 1}, "metadata.name"},
		{"a deletion that is wanted no more", func(w *world) {
			w.put(pod("web-a"))
			w.plans(0, plan.Delete{Objects: []plan.Object{pod("web-a")}})
			w.plans(time.Second)
		}, map[Verdict]int{Superseded: 1}, ""},
		{"what no cache has", func(w *world) {
			w.plans(0, plan.DeleteCollection{Kind: schema.GroupVersionKind{Kind: "Lease"}, Namespace: "shop"})
			w.plans(time.Second)
		}, map[Verdict]int{Unseen: 1}, ""},
		{"a key that ends", func(w *world) {
			w.plans(0, scale)
			w.now = w.now.Add(forgottenAfter)
			w.Report()
		}, map[Verdict]int{Superseded: 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.does(w)
			for _, v := range Verdicts() {
				if w.counted[v] != c.want[v] {
					t.Errorf("%s: %d, want %d", v, w.counted[v], c.want[v])
				}
			}
			r := w.Report()
			if field := ""; len(r.Disagreements) > 0 {
				if field = r.Disagreements[0].Field; field != c.field {
					t.Errorf("the field is %q, want %q", field, c.field)
				}
			} else if c.field != "" {
				t.Error("there is no disagreement")
			}
			if r.Unexplained() != c.want[Unexplained] {
				t.Errorf("%+v", r)
			}
			if w.bytes != 0 && len(w.keys) == 0 {
				t.Errorf("%d bytes are of no key", w.bytes)
			}
		})
	}
}

// What is refused, and what nobody is there to do, is no disagreement as long as that is so. What cannot be asked is asked again.
func TestHindrance(t *testing.T) {
	forbidden := errors.New("forbidden")
	type answer struct {
		why string
		err error
	}
	for _, c := range []struct {
		answers []answer // one each minute; the last one from then on
		want    map[Verdict]int
	}{
		{[]answer{{"FailedCreate", nil}}, map[Verdict]int{Hindered: 1}},
		{[]answer{{"", nil}}, map[Verdict]int{Unexplained: 1}},
		{[]answer{{"", forbidden}}, map[Verdict]int{}},
		{[]answer{{"", forbidden}, {"", nil}}, map[Verdict]int{Unexplained: 1}},
		{[]answer{{"nobody leads", nil}, {"", nil}}, map[Verdict]int{Hindered: 1, Unexplained: 1}},
	} {
		w := newWorld()
		var last answer
		w.Hindrance = func(context.Context, Question) (string, error) { return last.why, last.err }
		for n := range 2 * mostTries {
			last = c.answers[min(n/2, len(c.answers)-1)]
			w.plans(time.Minute, plan.Create{Object: pod("")})
			w.Judge(t.Context())
		}
		if diff := cmp.Diff(c.want, w.counted); diff != "" {
			t.Errorf("%v: %s", c.answers, diff)
		}
	}
}

// A plan is told of a moment after the next one was asked for, and what is hindered is judged some seconds later: the next plan, a minute
// after the one before, is late enough all the same.
func TestTheNextPlanIsLateEnough(t *testing.T) {
	w, why := newWorld(), "nobody leads"
	w.Hindrance = func(context.Context, Question) (string, error) { return why, nil }
	w.plans(5*time.Millisecond, plan.Create{Object: pod("")})
	w.plans(time.Minute-3*time.Millisecond, plan.Create{Object: pod("")})
	w.now = w.now.Add(suspectsEvery)
	w.Judge(t.Context())
	why = ""
	w.plans(time.Minute-suspectsEvery, plan.Create{Object: pod("")})
	w.Judge(t.Context())
	if diff := cmp.Diff(map[Verdict]int{Hindered: 1, Unexplained: 1}, w.counted); diff != "" {
		t.Error(diff)
	}
}

// What is being looked into is pending, and a question that is not answered keeps no other one.
func TestWhatIsLookedInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, asked := newWorld(), 0
		pending := func(when string, want int) {
			t.Helper()
			if r := w.Report(); len(r.Controllers) != 1 || r.Controllers[0].Pending != want {
				t.Errorf("%s: %+v", when, r)
			}
		}
		w.Hindrance = func(ctx context.Context, _ Question) (string, error) {
			pending("while it is asked", 2)
			if asked++; asked == 1 {
				<-ctx.Done()
			}
			return "", ctx.Err()
		}
		steps := []plan.Step{plan.Create{Object: pod("web-1")}, plan.Create{Object: pod("web-2")}}
		w.plans(0, steps...)
		w.plans(time.Minute, steps...)
		pending("before it is asked", 2)
		w.Judge(t.Context())
		pending("one was not answered", 1)
		if w.counted[Unexplained] != 1 {
			t.Errorf("%v", w.counted)
		}
	})
}

// What is done while is asked why it is not done has one verdict.
func TestDoneWhileIsAsked(t *testing.T) {
	w := newWorld()
	w.Hindrance = func(context.Context, Question) (string, error) { return "", nil }
	w.plans(0, plan.Create{Object: pod(""), Count: 3})
	w.plans(time.Minute, plan.Create{Object: pod(""), Count: 3})
	w.put(pod("web-1"))
	w.plans(time.Second, plan.Create{Object: pod(""), Count: 2})
	w.Judge(t.Context())
	if diff := cmp.Diff(map[Verdict]int{Agreed: 1}, w.counted); diff != "" {
		t.Error(diff)
	}
}

// An outage is not many disagreements: more than can be asked are not compared.
func TestManySuspects(t *testing.T) {
	w := newWorld()
	w.Hindrance = func(context.Context, Question) (string, error) { return "nobody leads", nil }
	var steps []plan.Step
	for n := range 3 * mostSuspects / 2 {
		steps = append(steps, plan.Create{Object: pod(fmt.Sprint("web-", n))})
	}
	w.plans(0, steps...)
	w.plans(time.Minute, steps...)
	w.Judge(t.Context())
	if w.counted[Unexplained] > 0 || w.counted[Hindered] != mostSuspects || w.dropped != mostSuspects/2 {
		t.Errorf("%v, %d dropped", w.counted, w.dropped)
	}
}

// No value in which people keep credentials is shown.
func TestCredentialsAreHidden(t *testing.T) {
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "s"}, Type: corev1.SecretType(value),
			Data: map[string][]byte{"password": []byte(value)}}
	}
	withEnv := func(value string) *corev1.Pod {
		p := pod("web-a")
		p.Spec.Containers = []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: value}}}}
		return p
	}
	for _, c := range []plan.Change{{Old: secret("a"), New: secret("hunter2")}, {Old: withEnv("a"), New: withEnv("hunter2")}} {
		w := newWorld()
		w.put(c.Old)
		w.plans(0, c)
		w.plans(time.Minute, c)
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, nil)
		var r Report
		if err := json.Unmarshal(answer.Body.Bytes(), &r); err != nil || len(r.Disagreements) != 1 || r.Disagreements[0].Planned != hidden {
			t.Errorf("%v: %+v", err, r)
		}
		if strings.Contains(answer.Body.String(), "hunter2") {
			t.Errorf("a credential is shown: %s", answer.Body)
		}
	}
}

// Whatever is planned and done, each planned write has one verdict or is pending, and none counts twice.
func TestEachWriteHasOneVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		planned := map[string]bool{}
		adopted := 0
		for range rapid.IntRange(1, 30).Draw(t, "plans") {
			var steps []plan.Step
			for _, name := range []string{"a", "b", "c"} {
				if rapid.Bool().Draw(t, "planned "+name) {
					steps = append(steps, plan.Delete{Objects: []plan.Object{pod(name)}})
					if !planned[name] {
						adopted++
					}
					planned[name] = true
				} else {
					planned[name] = false
				}
				switch rapid.IntRange(0, 3).Draw(t, "does "+name) {
				case 0:
					w.put(pod(name))
				case 1:
					w.remove(pod(name))
				}
			}
			w.plans(time.Duration(rapid.IntRange(0, 80).Draw(t, "seconds"))*time.Second, steps...)
		}
		verdicts := 0
		for _, n := range w.counted {
			verdicts += n
		}
		for _, one := range w.Report().Controllers {
			verdicts += one.Pending
		}
		if verdicts != adopted {
			t.Fatalf("%d writes were planned, and %d have a verdict or are pending: %v", adopted, verdicts, w.counted)
		}
	})
}

// However many keys and writes there are, what is remembered has a bound, and what is left out is counted.
func TestMemoryHasABound(t *testing.T) {
	w := newWorld()
	for n := range mostKeys + 10 {
		w.Planned("a-controller", reconcile.Decision{Key: plan.Key{Name: string(rune('a'+n%26)) + time.Duration(n).String()},
			Steps: []plan.Step{plan.Delete{Objects: []plan.Object{pod("a")}}}})
	}
	if w.Report().Dropped != 10 || len(w.keys) != mostKeys {
		t.Errorf("%d keys, %d dropped", len(w.keys), w.Report().Dropped)
	}
	for range 2 * mostSeen {
		w.Came(pod("a"))
	}
	if len(w.come) > mostSeen {
		t.Errorf("%d objects are remembered", len(w.come))
	}
	for range 2 * mostDisagreements {
		w.disagree(Disagreement{})
	}
	if len(w.last) != mostDisagreements {
		t.Errorf("%d disagreements", len(w.last))
	}
}
