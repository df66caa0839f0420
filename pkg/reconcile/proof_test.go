package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reading is a client that notes what is read live, and may refuse it.
type reading struct {
	client.Client
	refuse func(kind string) error // nil: nothing
	lag    time.Duration           // of each read

	mu  sync.Mutex
	log []string
}

func (c *reading) Get(ctx context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	if err := c.note("get", m, key, into); err != nil {
		return err
	}
	return c.Client.Get(ctx, m, key, into)
}

func (c *reading) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions, into runtime.Object) error {
	if err := c.note("list", m, plan.Key{Namespace: namespace, Name: o.FieldSelector}, into); err != nil {
		return err
	}
	return c.Client.List(ctx, m, namespace, o, into)
}

func (c *reading) note(verb string, m client.Mapping, key plan.Key, into any) error {
	time.Sleep(c.lag)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf("%s %s %s as %T", verb, m.Kind, key, into))
	if c.refuse == nil {
		return nil
	}
	return c.refuse(m.Kind)
}

// read returns what was read since the last call.
func (c *reading) read() (log []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	log, c.log = c.log, nil
	return log
}

// setRefusal has reads answered so from now on.
func (c *reading) setRefusal(refuse func(kind string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// proving runs the test with a controller whose plans ask for the live reads that decide returns.
func proving(t *testing.T, decide func(s toy) plan.Plan, test func(w *world, c *reading)) {
	inBubble(t, func(t *testing.T, w *world) {
		c := &reading{}
		w.decide = decide
		w.access = func(a *Access) {
			c.Client, a.Client = a.Client, c
		}
		w.start()
		test(w, c)
	})
}

func podRef(name string) plan.Ref { return plan.Ref{Kind: podKind, Namespace: "ns", Name: name} }

// theProof says what the proof has of a pod: "unread", "gone", "failed" or the phase.
func theProof(s toy, ref plan.Ref) string {
	switch pod, ok, err := Found[*corev1.Pod](s.proof, ref); {
	case err != nil:
		return "failed"
	case !ok:
		return "unread"
	case pod == nil:
		return "gone"
	default:
		return "there"
	}
}

// deleteUnless deletes all pods of the set unless the pod "keep" exists when it is read live.
func deleteUnless(s toy) plan.Plan {
	p := plan.Plan{Why: "nothing to delete"}
	if len(s.pods) > 0 && theProof(s, podRef("keep")) != "there" {
		p.Why, p.Proof, p.Steps = "delete", []plan.Ref{podRef("keep")}, []plan.Step{plan.Delete{Objects: objects(s.pods)}}
	}
	return p
}

// What a plan asks for is read live before its steps are carried out: the caches may not show it.
func TestProofIsReadBeforeTheSteps(t *testing.T) {
	for _, exists := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep exists: %t", exists), func(t *testing.T) {
			proving(t, deleteUnless, func(w *world, c *reading) {
				w.put("a", 1)
				w.put("other", 0)
				w.settle()
				w.FreezeWatches(podKind)
				if exists {
					w.putPods("other", "keep")
				}
				if read := c.read(); len(read) > 0 {
					t.Errorf("read though nothing was asked for: %q", read)
				}
				w.ResumeWatches(podKind)
				w.settle()
				w.putPods("a", "x")
				w.settle()
				if got := w.Names(podKind); slices.Contains(got, "x") != exists {
					t.Errorf("there are %v", got)
				}
				if read := slices.Compact(c.read()); !slices.Equal(read, []string{"get Pod ns/keep as *v1.Pod"}) {
					t.Errorf("read %q", read)
				}
			})
		})
	}
}

// A read that is not answered is tried again with backoff, and nothing is written before.
func TestFailedProofsBackOff(t *testing.T) {
	proving(t, deleteUnless, func(w *world, c *reading) {
		w.put("a", 0)
		c.setRefusal(func(string) error { return apierrors.NewInternalError(errors.New("etcd")) })
		w.putPods("a", "x")
		time.Sleep(5 * time.Minute)
		w.wantPods(1)
		if n := len(c.read()); n < 10 || n > 25 {
			t.Errorf("%d tries in five minutes", n)
		}
		if s := w.status(); s.Failing != 1 {
			t.Errorf("%+v", s)
		}
		record, _ := w.runner.explained.Get(plan.Key{Namespace: "ns", Name: "a"})
		if want := "read Pod ns/keep live: "; !strings.HasPrefix(record.Error, want) || record.Why != "delete" {
			t.Errorf("%q, %q; want %q", record.Why, record.Error, want)
		}
		c.setRefusal(nil)
		time.Sleep(time.Minute)
		w.wantPods(0)
		if s := w.status(); s.Failing != 0 {
			t.Errorf("after it was read: %+v", s)
		}
	})
}

// A plan may also make do without what could not be read: then it is carried out, and decides itself when it is tried again.
func TestPlansCanMakeDoWithoutAProof(t *testing.T) {
	decide := func(s toy) plan.Plan {
		if theProof(s, podRef("keep")) == "failed" {
			return plan.Plan{Why: "waits", Requeue: 10 * time.Second}
		}
		return deleteUnless(s)
	}
	proving(t, decide, func(w *world, c *reading) {
		w.put("a", 0)
		c.setRefusal(func(string) error { return errors.New("down") })
		w.putPods("a", "x")
		time.Sleep(time.Minute)
		w.wantPods(1)
		if n := len(c.read()); n < 6 || n > 10 { // every ten seconds, and after the first events
			t.Errorf("%d reads in a minute", n)
		}
		if s := w.status(); s.Failing != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A plan that goes on asking for more does not go round without end.
func TestEndlessProofsBackOff(t *testing.T) {
	decide := func(s toy) plan.Plan {
		p := deleteUnless(s)
		for ref := range s.proof.Read {
			p.Proof = append(p.Proof, ref, podRef(ref.Name+"-"))
		}
		return p
	}
	proving(t, decide, func(w *world, c *reading) {
		w.put("a", 0)
		w.putPods("a", "x")
		time.Sleep(5 * time.Minute)
		w.wantPods(1)
		if n := len(c.read()); n < 10*mostRounds || n > 25*mostRounds {
			t.Errorf("%d reads in five minutes", n)
		}
		record, _ := w.runner.explained.Get(plan.Key{Namespace: "ns", Name: "a"})
		if !strings.Contains(record.Error, "after 5 rounds of live reads: Pod ns/keep-----") {
			t.Errorf("%q", record.Error)
		}
	})
}

// What many keys ask for is read once for all of them, if they say that they can share it.
func TestSharedProofs(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared: %t", shared), func(t *testing.T) {
			ref := podRef("keep")
			ref.Shared = shared
			decide := func(s toy) plan.Plan {
				p := plan.Plan{Proof: []plan.Ref{ref}}
				if theProof(s, ref) == "gone" && *s.set.Spec.Replicas > 0 {
					p = keepPods(s)
					p.Proof = []plan.Ref{ref}
				}
				return p
			}
			proving(t, decide, func(w *world, c *reading) {
				c.lag = 100 * time.Millisecond
				for i := range 10 {
					w.put(fmt.Sprint("a", i), 1)
				}
				time.Sleep(800 * time.Millisecond)
				w.wantPods(10)
				if n := len(c.read()); (n == 1) != shared || n > 40 {
					t.Errorf("%d reads", n)
				}
				time.Sleep(time.Second)
				c.read()
				w.put("a0", 2)
				w.settle()
				if n := len(c.read()); n == 0 {
					t.Error("a read has served for longer than a second")
				}
			})
		})
	}
}

// A key is told how the reads of others went.
func TestProofTellsHowOtherReadsWent(t *testing.T) {
	var mu sync.Mutex
	var last Proof
	decide := func(s toy) plan.Plan {
		mu.Lock()
		defer mu.Unlock()
		switch theProof(s, podRef("x")) {
		case "unread":
			return plan.Plan{Proof: []plan.Ref{podRef("x")}}
		case "gone":
			last = s.proof
		}
		return plan.Plan{}
	}
	proving(t, decide, func(w *world, c *reading) {
		read := func(name string) Proof {
			w.put(name, 0)
			time.Sleep(3 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			return last
		}
		if p := read("a"); !p.Failed.IsZero() || !p.Slow.IsZero() {
			t.Errorf("%+v", p)
		}
		c.setRefusal(func(string) error { return errors.New("down") })
		began := time.Now()
		read("b")
		c.setRefusal(nil)
		if p := read("c"); !p.Failed.Equal(began) || !p.Slow.IsZero() {
			t.Errorf("%+v, failed at %v", p, began)
		}
		c.lag = 2 * time.Second
		slow := time.Now()
		read("d")
		c.lag = 0
		if p := read("e"); !p.Failed.Equal(began) || !p.Slow.Equal(slow.Add(2*time.Second)) {
			t.Errorf("%+v, failed at %v, was slow from %v on", p, began, slow)
		}
	})
}

// What was observed is from before the reads, and is given to each round as it was: caches that are looked at after the reads could show
// what no read has seen.
func TestProofIsOfWhatWasObservedBefore(t *testing.T) {
	var mu sync.Mutex
	var rounds []string
	decide := func(s toy) plan.Plan {
		mu.Lock()
		defer mu.Unlock()
		rounds = append(rounds, fmt.Sprintf("%d pods, %d reads", len(s.pods), len(s.proof.Read)))
		return plan.Plan{Proof: []plan.Ref{podRef("x"), podRef("y")}[:min(2, len(s.proof.Read)+1)]}
	}
	proving(t, decide, func(w *world, c *reading) {
		c.lag = time.Second
		w.put("a", 0)
		time.Sleep(100 * time.Millisecond)
		w.putPods("a", "new")
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		want := []string{"0 pods, 0 reads", "0 pods, 1 reads", "0 pods, 2 reads", "1 pods, 0 reads"}
		if len(rounds) < len(want) || !slices.Equal(rounds[:len(want)], want) {
			t.Errorf("%q, want %q", rounds, want)
		}
	})
}

// Who asks for an object as another type than it was read as has learned nothing, and does not delete because of that.
func TestProofOfAnotherTypeIsNone(t *testing.T) {
	metadata := podRef("keep")
	metadata.Metadata = true
	decide := func(s toy) plan.Plan {
		if keep, _, _ := Found[*corev1.Pod](s.proof, metadata); keep != nil {
			return plan.Plan{Why: "it exists"}
		}
		return plan.Plan{Proof: []plan.Ref{metadata}, Steps: []plan.Step{plan.Delete{Objects: objects(s.pods)}}}
	}
	proving(t, decide, func(w *world, _ *reading) {
		w.put("other", 0)
		w.putPods("other", "keep")
		w.put("a", 0)
		w.putPods("a", "x")
		w.settle()
		w.wantPods(2)
		w.wantError("Pod ns/keep was read as *v1.PartialObjectMetadata, which is no *v1.Pod")
	})
}

// A controller whose plans ask for reads needs a function that takes them.
func TestProofNeedsAFunctionThatTakesIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.decide = deleteUnless
		w.adjust = func(c *Controller[toy, struct{}, int]) { c.Prove = nil }
		w.start()
		w.put("a", 0)
		w.putPods("a", "x")
		w.settle()
		w.wantPods(1)
		w.wantError("the plan asks for Pod ns/keep, and the controller has no function Prove")
	})
}

// What the account of the controller may not read, whoever fills the caches lists.
func TestProofByWhoeverFillsTheCaches(t *testing.T) {
	proving(t, deleteUnless, func(w *world, c *reading) {
		w.put("a", 0)
		w.put("other", 0)
		w.putPods("other", "keep")
		w.settle()
		w.runner.shared.Verifier.(*slowClient).beforeList = func() { c.note("list", pods, plan.Key{}, "") }
		c.setRefusal(func(kind string) error { return apierrors.NewForbidden(pods.GroupResource(), "keep", nil) })
		c.read()
		w.putPods("a", "x")
		w.settle()
		if got := w.Names(podKind); !slices.Contains(got, "x") {
			t.Errorf("there are %v", got)
		}
		read := c.read()
		if want := []string{"get Pod ns/keep as *v1.Pod", "list Pod / as string"}; !slices.Equal(read[:min(2, len(read))], want) {
			t.Errorf("read %q, want %q", read, want)
		}
	})
}

// Lists and metadata can be asked for, too.
func TestProofByLists(t *testing.T) {
	all := plan.Ref{Kind: podKind, Namespace: "ns", All: true, Fields: "metadata.name=keep"}
	metadata := plan.Ref{Kind: podKind, Namespace: "ns", All: true, Metadata: true}
	one := plan.Ref{Kind: podKind, Namespace: "ns", Name: "keep", Metadata: true}
	var found []string
	decide := func(s toy) plan.Plan {
		for _, ref := range []plan.Ref{all, metadata, one} {
			for _, o := range s.proof.Read[ref].Objects {
				found = append(found, fmt.Sprintf("%s: %T %s", ref, o, o.GetName()))
			}
		}
		return plan.Plan{Proof: []plan.Ref{all, metadata, one, all}}
	}
	proving(t, decide, func(w *world, c *reading) {
		w.put("a", 0)
		w.settle()
		w.FreezeWatches(podKind)
		w.putPods("a", "keep", "x")
		c.read()
		w.put("a", 1)
		w.settle()
		want := []string{
			"Pods in ns with metadata.name=keep: *v1.Pod keep", "Pods in ns: *v1.PartialObjectMetadata keep",
			"Pods in ns: *v1.PartialObjectMetadata x", "Pod ns/keep: *v1.PartialObjectMetadata keep",
		}
		if !slices.Equal(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
		read := c.read()
		slices.Sort(read)
		if want := []string{
			"get Pod ns/keep as *v1.PartialObjectMetadata", "list Pod ns/ as *v1.PartialObjectMetadataList",
			"list Pod ns/metadata.name=keep as *v1.PodList",
		}; !slices.Equal(read, want) {
			t.Errorf("read %q, want %q", read, want)
		}
	})
}

// Somebody who asks about a key is told what is to be read live, and it is not read for that.
func TestDetailTellsOfTheProof(t *testing.T) {
	proving(t, deleteUnless, func(w *world, c *reading) {
		w.put("a", 0)
		c.setRefusal(func(string) error { return errors.New("down") })
		w.putPods("a", "x")
		w.settle()
		c.read()
		d, err := w.runner.detail(t.Context(), plan.Key{Namespace: "ns", Name: "a"})
		if err != nil || !slices.Equal(d.Plan.Proof, []string{"Pod ns/keep"}) || len(d.Plan.Steps) != 1 {
			t.Errorf("%+v, %v", d.Plan, err)
		}
		if read := c.read(); len(read) > 0 {
			t.Errorf("read %q", read)
		}
	})
}
