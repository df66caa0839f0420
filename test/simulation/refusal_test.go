package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

var refusalsFlag = flag.String("refusals", "some",
	"for TestRefusalOfEveryWrite: \"some\", one refusal of each kind of writes, or \"all\", each refusal, and one of each kind in each "+
		"scenario")

// neighbours is the namespace of the tenant whose writes nobody refuses.
const neighbours = "beside"

// aloneBecause says why a scenario cannot be played by two tenants at once.
var aloneBecause = map[string]string{
	"pods have ended":                                          "the threshold counts the pods of all namespaces",
	"a namespace with content is deleted":                      "the namespace goes in which the tenant works",
	"gadgets are migrated":                                     "there is one custom resource",
	"the trust bundle is changed and deleted, and others come": "there is one trust bundle",
}

// toldByNone says why nothing tells of a refusal, by the beginning of the kind.
var toldByNone = map[string]string{
	"namespace-controller: deletecollection": "the objects are then deleted one by one",
	"storage-version-migrator-controller: patch storageversionmigrations/status": "the status is where it would be told, and the account " +
		"may record no events",
	"storage-version-migrator-controller: patch gadgets":                   "the status tells of what fails, and not of what is put off",
	"storage-version-migrator-controller: patch customresourcedefinitions": "likewise",
}

// refusedPlay is a scenario that is played while a kind of its writes is refused.
type refusedPlay struct {
	scenario suite.Scenario
	kind     writeKind
	of       string // see refusing.Of
	refusal  int
}

// TestRefusalOfEveryWrite plays scenarios while one kind of writes is refused to one tenant for ten minutes, in each way in which a server
// refuses. The write is tried ever more rarely, the work of a neighbour goes on meanwhile, an event, condition or status tells of it, and a
// minute after the end of the refusals all is done.
func TestRefusalOfEveryWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("plays each scenario many times")
	}
	plays := everyRefusal(t)
	t.Logf("%d plays", len(plays))
	for _, p := range plays {
		t.Run(fmt.Sprintf("%s/%s/%s", p.scenario.Name, p.kind, refusals[p.refusal].Name), p.run)
	}
}

// everyRefusal plays each scenario undisturbed, to learn what is written, and returns what to play with refusals. Each kind of writes
// is refused in the scenario that has the fewest, in one way or in all; with all, it is also refused once in each other scenario.
func everyRefusal(t *testing.T) (plays []refusedPlay) {
	fewest := map[writeKind]int{}
	where, everywhere := map[writeKind]refusedPlay{}, map[writeKind][]refusedPlay{}
	for _, e := range suite.Entries() {
		for _, s := range e.Scenarios {
			r := &refusing{Of: playground}
			for _, v := range playRefused(t, s, r, neighboursOf(s)...).Violations {
				t.Errorf("%s: %s", s.Name, v)
			}
			for kind := range r.seen {
				p := refusedPlay{scenario: s, kind: kind, of: playground}
				if r.of[kind] == 0 || aloneBecause[s.Name] != "" {
					p.of = ""
				}
				everywhere[kind] = append(everywhere[kind], p)
				if known, ok := fewest[kind]; !ok || len(r.seen) < known {
					fewest[kind], where[kind] = len(r.seen), p
				}
			}
		}
	}
	kinds := slices.SortedFunc(maps.Keys(where), func(a, b writeKind) int { return strings.Compare(a.String(), b.String()) })
	for i, kind := range kinds {
		for j := range refusals {
			if p := where[kind]; *refusalsFlag == "all" || j == i%len(refusals) {
				p.refusal = j
				plays = append(plays, p)
			}
		}
		for j, p := range everywhere[kind] {
			if *refusalsFlag == "all" && p.scenario.Name != where[kind].scenario.Name {
				p.refusal = (i + j) % len(refusals)
				plays = append(plays, p)
			}
		}
	}
	return plays
}

func neighboursOf(s suite.Scenario) []string {
	if aloneBecause[s.Name] != "" {
		return nil
	}
	return []string{neighbours}
}

// playRefused plays a scenario with a server that refuses. What it says of nodes of the neighbours is left out: their users give them
// ranges by number, which are those of the player.
func playRefused(t *testing.T, s suite.Scenario, r *refusing, neighbours ...string) (o Outcome) {
	inBubble(t, 1, func(t *testing.T) {
		w := newWorld(ScenarioScript(1), controllers.Registry)
		w.refusing = r
		o = w.play(t, s, neighbours...)
		o.told = w.tells(r)
	})
	o.Violations = slices.DeleteFunc(o.Violations, func(v string) bool {
		return strings.HasPrefix(v, "Settled the nodes ") && strings.Contains(v, " both have ")
	})
	return o
}

// tells reports whether an event, or an object that a manager has written, has had the text of the refusal while it lasted.
func (w *world) tells(r *refusing) bool {
	return slices.ContainsFunc(w.server.Log(0), func(e *apiserver.Event) bool {
		if !managed(e.By) || e.Time.After(r.until()) {
			return false
		}
		text, err := json.Marshal(e.Object)
		return err == nil && strings.Contains(string(text), refusalText)
	})
}

func (p refusedPlay) run(t *testing.T) {
	refusal := refusals[p.refusal]
	r := &refusing{Kind: p.kind, Of: p.of, Answer: refusal.Answer}
	beside := neighboursOf(p.scenario)
	if p.of == "" {
		beside = nil
	}
	if refusal.Name == "no answer" { // some controllers have one worker, which waits
		r.Takes, beside = client.RequestTimeout, nil
	}
	o := playRefused(t, p.scenario, r, beside...)
	if len(r.tries) == 0 {
		t.Error("nothing was refused")
	}
	for _, broken := range slices.Concat(r.excess(mostLater), r.lateAgain(65*time.Second), o.Violations) {
		t.Error(broken)
	}
	if refusal.Told && r.lasts() && !o.told && !p.toldByNone() {
		t.Errorf("no event, condition or status tells of it; the events are %q", o.lastEvents())
	}
}

func (p refusedPlay) toldByNone() bool {
	for kind := range toldByNone {
		if strings.HasPrefix(p.kind.String(), kind) {
			return true
		}
	}
	return false
}

// lastEvents are those that managers have recorded, for people.
func (o Outcome) lastEvents() (texts []string) {
	for _, e := range o.record.server.Since("events", 0) {
		if event, ok := e.Object.(*corev1.Event); ok {
			texts = append(texts, event.InvolvedObject.Kind+" "+event.Reason+": "+event.Message)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
