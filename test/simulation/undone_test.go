package simulation

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// A policy that nobody has thought through, as an admission webhook: it takes back what managers change, or takes the labels from what
// they create, and stamps each object, so that every write is an event.
type policy struct {
	mu       sync.Mutex
	undoes   bool
	unlabels bool
	stamps   int
	writes   map[string][]time.Time // of managers, by what was written to, and by patch; of creations, by owner and kind
}

// install has the server ask the policy.
func (p *policy) install(server *apiserver.Server) {
	p.writes = map[string][]time.Time{}
	admit, wrote := server.Admit, server.Wrote
	server.Admit = func(a apiserver.Admission) error {
		if err := admit(a); err != nil || !p.concerns(a.Write) || a.After == nil {
			return err
		}
		p.alter(a)
		return nil
	}
	server.Wrote = func(w apiserver.Write, did apiserver.Result) {
		wrote(w, did)
		if did.Err == nil && p.concerns(w) && did.After != nil &&
			(w.Verb == apiserver.Create || w.Verb == apiserver.Patch || w.Verb == apiserver.Update) {
			p.note(w, did)
		}
	}
}

func (p *policy) concerns(w apiserver.Write) bool {
	return managed(w.By) && w.Resource != "events" && w.Resource != "leases"
}

func (p *policy) alter(a apiserver.Admission) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a.Before == nil && p.unlabels:
		a.After.SetLabels(nil)
	case a.Before != nil && p.undoes:
		version, fields := a.After.GetResourceVersion(), a.After.GetManagedFields()
		reflect.ValueOf(a.After).Elem().Set(reflect.ValueOf(a.Before.DeepCopyObject()).Elem())
		a.After.SetResourceVersion(version)
		a.After.SetManagedFields(fields)
	default:
		return
	}
	p.stamps++
	annotations := map[string]string{"example.com/stamp": fmt.Sprint(p.stamps)}
	for key, value := range a.After.GetAnnotations() {
		if key != "example.com/stamp" {
			annotations[key] = value
		}
	}
	a.After.SetAnnotations(annotations)
}

func (p *policy) note(w apiserver.Write, did apiserver.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what := fmt.Sprintf("%s: %s %s/%s %s", w.By, w.Resource, did.After.GetNamespace(), did.After.GetName(), w.Subresource)
	switch {
	case w.Verb == apiserver.Patch && p.undoes:
		p.writes[what] = append(p.writes[what], time.Now())
		what += " " + string(w.Patch)
	case w.Verb == apiserver.Update && p.undoes:
	case w.Verb == apiserver.Create && p.unlabels && w.Subresource == "" && did.After.GetGenerateName() != "":
		what = fmt.Sprintf("%s of %v{}", w.Resource, metav1.GetControllerOf(did.After))
	default:
		return
	}
	p.writes[what] = append(p.writes[what], time.Now())
}

// How often the same may be written in a minute that comes to nothing: once, once more, and then after 1s, 2s, 4s and so on. A
// controller has more than one thing to write to an object, and some follow from the stamps of others.
const (
	mostUndone = 10
	mostOfOne  = 80
)

// often returns what was written too often in a minute.
func (p *policy) often() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for what, at := range p.writes {
		most := 0
		for i := range at {
			n := 1
			for n < len(at)-i && at[i+n].Sub(at[i]) < time.Minute {
				n++
			}
			most = max(most, n)
		}
		if most > mostOfOne || strings.Contains(what, "{") && most > mostUndone {
			all = append(all, fmt.Sprintf("%s: %d times in a minute, %d in all", what, most, len(at)))
		}
	}
	slices.Sort(all)
	return all
}

func (p *policy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.undoes, p.unlabels = false, false
}

// TestWritesThatAWebhookUndoes plays the scenarios of all controllers under such policies: whatever is written that comes to nothing is
// written ever more rarely. When the webhook is gone, all work is done a minute later.
func TestWritesThatAWebhookUndoes(t *testing.T) {
	skipLarge(t)
	for _, e := range suite.Entries() {
		for i, scenario := range e.Scenarios {
			if i > 0 && testing.Short() {
				break
			}
			for _, p := range []*policy{{undoes: true}, {unlabels: true}} {
				t.Run(fmt.Sprintf("%s undoes %t", scenario.Name, p.undoes), func(t *testing.T) {
					inBubble(t, 1, func(t *testing.T) { underPolicy(t, scenario, p) })
				})
			}
		}
	}
}

func underPolicy(t *testing.T, scenario suite.Scenario, p *policy) {
	undoes := p.undoes
	w := newWorld(ScenarioScript(1), controllers.Registry)
	w.furnish()
	defer w.animate(t.Context())()
	user := w.player(t)
	if scenario.Prepare != nil {
		w.perform(user, scenario.Prepare)
	}
	p.install(w.server)
	w.at(w.start)
	w.perform(user, scenario.Play) // it may fail: nothing comes of what controllers do
	time.Sleep(2 * time.Minute)
	if often := p.often(); len(often) > 0 {
		t.Errorf("written too often:\n%s", strings.Join(often, "\n"))
	}
	p.end()
	w.at(w.heal)
	time.Sleep(2 * time.Minute)
	w.rest()
	// The rule of ClusterRoles judges who owns which fields, and takes the stamps for those of the manager.
	runs := func(controller string) bool {
		return w.runs(controller) && controller != "clusterrole-aggregation-controller"
	}
	if wrong, _ := suite.Unsettled(source{w.server, w.eventsLost.Load()}, runs); undoes && len(wrong) > 0 {
		t.Errorf("when the webhook is gone:\n%s", strings.Join(wrong, "\n"))
	}
	w.finish()
}
