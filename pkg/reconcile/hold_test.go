package reconcile

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// holding is a controller whose plans hold, of each ReplicaSet, what the test says.
type holding struct {
	*world
	brake *brake.Brake

	mu    sync.Mutex
	plans map[string]plan.Plan // by the name of the ReplicaSet
}

// holds has the plans of a ReplicaSet hold something from now on, or say why they do not any more.
func (h *holding) holds(name string, hold plan.Hold, steps ...plan.Step) {
	h.mu.Lock()
	h.plans[name] = plan.Plan{Why: "decided", Hold: hold, Steps: steps}
	h.mu.Unlock()
	time.Sleep(2*time.Second + time.Millisecond) // between two reconciles, of which there is one each second
}

func (h *holding) decide(s toy) plan.Plan {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.plans[s.set.Name]
	p.Requeue = time.Second
	return p
}

// is checks what the brake holds, "what: why" each.
func (h *holding) is(want ...string) {
	h.t.Helper()
	var got []string
	for _, one := range h.brake.Noted(time.Now()) {
		got = append(got, one.What+": "+one.Why)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		h.t.Errorf("the brake holds %q, want %q", got, want)
	}
}

// ended checks what people are told has ended since the last time, and why.
func (h *holding) ended(want ...brake.Release) {
	h.t.Helper()
	_, ended := h.brake.Events(time.Now())
	if len(ended) != len(want) {
		h.t.Errorf("ended: %+v, want %+v", ended, want)
		return
	}
	for i, one := range ended {
		if one.What != want[i].What || one.Cause != want[i].Cause {
			h.t.Errorf("ended: %+v, want %+v", one, want[i])
		}
	}
}

// told lets so much time pass that people are told of what is held.
func (h *holding) told() {
	time.Sleep(brake.MinHeld)
	h.brake.Events(time.Now())
}

func released(what string, cause brake.Cause) brake.Release {
	return brake.Release{Hold: brake.Hold{What: what}, Cause: cause}
}

// inHold runs the test with two ReplicaSets, a and b.
func inHold(t *testing.T, test func(h *holding)) {
	inBubble(t, func(t *testing.T, w *world) {
		h := &holding{world: w, brake: brake.New(brake.Budget{}), plans: map[string]plan.Plan{}}
		w.decide = h.decide
		w.adjust = func(c *Controller[toy, struct{}, int]) { c.Brake = h.brake }
		stop := w.keepCaches()
		w.put("a", 0)
		w.put("b", 0)
		test(h)
		stop()
	})
}

var someHold = plan.Hold{What: "pods", Why: "too many"}

// What several keys hold is held until the last of them does not any more, for the reason that this one gives.
func TestHoldsAreCounted(t *testing.T) {
	inHold(t, func(h *holding) {
		h.is()
		h.holds("a", someHold)
		h.is("pods: too many")
		h.holds("b", plan.Hold{What: "pods", Why: "still too many"})
		h.told()
		h.holds("a", plan.Hold{Ended: plan.ByTime})
		if held := h.brake.Noted(time.Now()); len(held) != 1 {
			t.Errorf("%+v", held)
		}
		h.ended()
		h.holds("b", plan.Hold{})
		h.is()
		h.ended(released("pods", brake.ByProof))
	})
}

func TestHowHoldsEnd(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(h *holding)
		want brake.Cause
	}{
		"by proof":          {func(h *holding) { h.holds("a", plan.Hold{}) }, brake.ByProof},
		"by time":           {func(h *holding) { h.holds("a", plan.Hold{Ended: plan.ByTime}) }, brake.ByTime},
		"nothing is left":   {func(h *holding) { h.holds("a", plan.Hold{Ended: plan.NothingLeft}) }, brake.NothingLeft},
		"the key is gone":   {func(h *holding) { h.remove("a"); h.settle() }, brake.NothingLeft},
		"the term is over":  {func(h *holding) { h.world.stop() }, brake.NothingLeft},
		"something else is": {func(h *holding) { h.holds("a", plan.Hold{What: "nodes"}) }, brake.ByProof},
		"by an operator": {func(h *holding) {
			h.brake.SetReleased(true)
			h.holds("a", plan.Hold{})
		}, brake.ByOperator},
	} {
		t.Run(name, func(t *testing.T) {
			inHold(t, func(h *holding) {
				h.holds("a", someHold)
				h.told()
				row.end(h)
				h.ended(released("pods", row.want))
				if h.world.stop == nil {
					h.nextTerm()
				}
			})
		})
	}
}

// A new term counts anew, and holds what is held since as long as the leader before has held it.
func TestHoldsOfTheNextTerm(t *testing.T) {
	inHold(t, func(h *holding) {
		h.holds("a", someHold)
		h.holds("b", someHold)
		before := h.brake.Noted(time.Now())
		h.world.stop()
		h.is()
		h.brake.Inherit(time.Now(), before)
		h.nextTerm()
		time.Sleep(time.Minute)
		h.is("pods: too many")
		if now := h.brake.Noted(time.Now()); !now[0].Since.Equal(before[0].Since) {
			t.Errorf("since %s, want %s", now[0].Since, before[0].Since)
		}
		h.holds("a", plan.Hold{})
		h.is("pods: too many")
		h.holds("b", plan.Hold{})
		h.is()
	})
}

// What is held is held whatever becomes of the other steps of the plan.
func TestHoldsBesideAFailure(t *testing.T) {
	inHold(t, func(h *holding) {
		h.BeforeWrite(func(clienttest.Write) error { return errors.New("no") })
		set, err := h.get("a")
		if err != nil {
			t.Fatal(err)
		}
		missing := *set
		missing.Spec.Replicas = new(int32(1))
		h.holds("a", someHold, keepPods(toy{set: &missing}).Steps...)
		h.is("pods: too many")
	})
}

// Whoever asks about a key learns what it holds. To ask holds nothing.
func TestHoldsAreExplained(t *testing.T) {
	inHold(t, func(h *holding) {
		h.holds("a", someHold)
		records := h.runner.Records()[0]
		key := plan.Key{Namespace: "ns", Name: "a"}
		if r, _ := records.Get(key); r.Why != "decided" || r.Held != "pods: too many" {
			t.Errorf("%+v", r)
		}
		h.mu.Lock()
		h.plans["a"] = plan.Plan{Hold: plan.Hold{What: "nodes"}}
		h.mu.Unlock()
		if d, err := records.Detail(t.Context(), key); err != nil || d.Plan.Held != "nodes" {
			t.Errorf("%+v, %v", d.Plan, err)
		}
		h.is("pods: too many")
	})
}

func TestAPlanThatHoldsNeedsABrake(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.decide = func(toy) plan.Plan { return plan.Plan{Hold: someHold} }
		w.start()
		w.put("a", 0)
		w.settle()
		w.wantError("the plan holds pods, and the controller has no brake")
	})
}
