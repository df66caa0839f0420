package chaos

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
	"github.com/standalone-kcm/controller-manager/test/faults"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// scenario is a piece of work for a manager that ends in the same state each time.
type scenario struct {
	suite.Scenario
	*baseline
}

// baseline is what is known of the run without faults. It is made once, for the first test that asks.
type baseline struct {
	once    sync.Once
	history *oracle.History // nil if the run has failed
	writes  []oracle.Request
}

// scenarios are those of all entries of the suite.
var scenarios = sync.OnceValue(func() (all []scenario) {
	for _, e := range suite.Entries() {
		for _, s := range e.Scenarios {
			all = append(all, scenario{s, &baseline{}})
		}
	}
	return all
})

const undisturbedName = "undisturbed"

// undisturbed plays the scenario without faults, unless that has been done.
func (s scenario) undisturbed(t *testing.T, c *cluster.Cluster, y *tally) {
	t.Helper()
	s.once.Do(func() {
		t.Run(undisturbedName, func(t *testing.T) {
			r := newRun(t, c, y)
			h := s.run(r)
			r.judge(h, oracle.Options{})
			if !t.Failed() {
				s.history, s.writes = h, written(h)
			}
		})
	})
	if s.history == nil {
		t.Fatal("the run without faults has failed")
	}
}

// written are the writes of a history in the order in which they were sent, without those that are noise.
func written(h *oracle.History) (all []oracle.Request) {
	for _, q := range h.Requests {
		r := apirequest.Request{Verb: q.Verb, Resource: q.Resource, Subresource: q.Subresource, Namespace: q.Namespace}
		if faults.IsWork(r) {
			all = append(all, q)
		}
	}
	slices.SortStableFunc(all, func(a, b oracle.Request) int { return a.Received.Compare(b.Received) })
	return all
}

// middle is the number, from 1, of the write in the middle of the scenario.
func (s scenario) middle() int { return (len(s.writes) + 1) / 2 }

// mainResource is the one of which the manager writes most objects.
func (s scenario) mainResource() (resource string) {
	objects := map[string]map[string]bool{}
	for _, q := range s.writes {
		if objects[q.Resource] == nil {
			objects[q.Resource] = map[string]bool{}
		}
		if objects[q.Resource][q.Name] = true; len(objects[q.Resource]) > len(objects[resource]) {
			resource = q.Resource
		}
	}
	return resource
}

// run plays the scenario until the manager rests and no fault is left.
func (s scenario) run(r *run) *oracle.History {
	r.Helper()
	if s.Prepare != nil {
		s.Prepare(r.user())
	}
	r.start()
	s.Play(r.user())
	r.wait("the faults are over", recovery, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.disturbed.From.IsZero() && r.disturbed.To.IsZero() {
			return fmt.Errorf("they have begun at %v", r.disturbed.From)
		}
		return nil
	})
	return r.end()
}

// disturb plays the scenario, and from the write in its middle on the faults of a script, for a while. It judges what has happened.
// A script made at random may find nothing that its faults apply to; others must inject something.
func (s scenario) disturb(r *run, script string, lasts time.Duration, injects bool) {
	r.Helper()
	r.reference = s.history
	r.before(s.middle(), func() {
		r.disturbs()
		r.play(script)
		time.AfterFunc(lasts, r.calm)
	})
	h := s.run(r)
	if n := len(r.proxy.Injections()); n == 0 && injects {
		r.Errorf("no fault was injected; the manager has sent %d writes", r.proxy.Writes())
	}
	r.judge(h, oracle.Options{Lease: leaseNamespace + "/" + r.ns})
}

// disturbs notes that faults begin.
func (r *run) disturbs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disturbed = oracle.Interval{From: time.Now()}
}

// calm ends all faults.
func (r *run) calm() {
	r.proxy.Calm()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disturbed.To = time.Now()
}
