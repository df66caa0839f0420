package simulation

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// playground is the namespace of the user who plays a scenario.
const playground = "play"

// pollInterval is how often users who wait look, in virtual time.
const pollInterval = 200 * time.Millisecond

// ScenarioScript is the script with which PlayScenario plays without faults: the managers are those of the crash tests.
func ScenarioScript(seed uint64) script.Script {
	return script.Script{Seed: seed, Settings: map[string]string{
		"elect": "0", "garbage": "0", "terminated": fmt.Sprint(suite.TerminatedThreshold), "groups": "1",
	}}
}

// PlayScenario plays a scenario in virtual time, and then on until nothing happens any more. The script has the settings and
// the faults; their times count from when the managers start, which is after Prepare. The end of the world is in the outcome if
// the script says "set compare 1": differences compares it with that of another run.
func PlayScenario(t *testing.T, scenario suite.Scenario, s script.Script, registry func() []manager.Controller) (o Outcome) {
	inBubble(t, s.Seed, func(t *testing.T) {
		w := newWorld(s, registry)
		o = w.play(t, scenario)
	})
	return o
}

// play is the whole life of a world in which a scenario is played, by one user, and by others at the same time in namespaces of their own.
func (w *world) play(t *testing.T, scenario suite.Scenario, neighbours ...string) Outcome {
	began := time.Now()
	w.furnish(neighbours...)
	defer w.animate(t.Context())()
	users, prepared := []*suite.User{w.player(t)}, true
	for _, namespace := range neighbours {
		users = append(users, w.neighbour(t, namespace))
	}
	if scenario.Prepare != nil {
		prepared = w.together(scenario.Prepare, users...)
	}
	var last time.Duration
	started := time.Now()
	w.at(func() {
		w.start()
		last = w.schedule()
	})
	if prepared {
		w.together(scenario.Play, users...)
	}
	if w.refusing != nil {
		time.Sleep(time.Until(w.refusing.patience()))
	}
	time.Sleep(time.Until(started.Add(last + time.Second)))
	w.at(w.heal)
	rested := w.rest()
	if w.refusing != nil && time.Now().Before(w.refusing.patience()) { // it has begun when the player was done
		time.Sleep(time.Until(w.refusing.patience()))
		rested = w.rest()
	}
	w.finish()
	return w.outcome(began, rested)
}

// furnish makes what there is in a cluster before anybody works in it.
func (w *world) furnish(neighbours ...string) {
	w.addNodes()
	var objects []apiserver.Object
	for _, name := range append([]string{playground, metav1.NamespacePublic}, neighbours...) {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, o := range append(objects, suite.TokenTracking(0)) {
		if _, err := w.server.Do(apiserver.Write{By: "server", Verb: apiserver.Create, Object: o}); err != nil {
			w.note("furnish the cluster: %v", err)
		}
	}
}

// at lets something be done by the goroutine that does everything in the cluster, and waits for it.
func (w *world) at(do func()) {
	done := make(chan struct{})
	w.cluster.Post(func() { defer close(done); do() })
	<-done
}

// player returns a user who plays scenarios.
func (w *world) player(t testing.TB) *suite.User {
	tb := &player{TB: t, world: w, name: "Play"}
	if w.refusing != nil {
		tb.held = w.refusing.patience
	}
	return w.user(tb, playground)
}

// neighbour returns a user who plays scenarios in another namespace, where nothing is refused.
func (w *world) neighbour(t testing.TB, namespace string) *suite.User {
	return w.user(&player{TB: t, world: w, name: "Neighbour"}, namespace)
}

func (w *world) user(tb *player, namespace string) *suite.User {
	return &suite.User{
		TB: tb, Wait: tb.wait, Client: w.client(suite.By), As: w.client, Namespace: namespace,
		Machines: newMachines(w.server, w.cluster, w.at), Backdate: w.backdate,
	}
}

// perform lets the user play a part, in a goroutine of its own, and reports whether it came to its end.
func (w *world) perform(user *suite.User, part func(*suite.User)) (ended bool) {
	return w.together(part, user)
}

// together lets users play a part, each in a goroutine of its own, and reports whether all came to its end.
func (w *world) together(part func(*suite.User), users ...*suite.User) bool {
	var all sync.WaitGroup
	var ended atomic.Int32
	for _, user := range users {
		all.Go(func() {
			part(user)
			ended.Add(1)
		})
	}
	all.Wait()
	return int(ended.Load()) == len(users)
}

// player is the test of a user in a simulation: what fails is a violation, and ends the user's goroutine, not the test.
type player struct {
	testing.TB
	world *world
	name  string           // with which violations begin
	held  func() time.Time // until when what the player waits for may be refused; nil if nothing is
	mu    sync.Mutex
	fails bool
}

func (p *player) Helper() {}

func (p *player) Errorf(format string, args ...any) {
	p.mu.Lock()
	p.fails = true
	p.mu.Unlock()
	p.world.record.violation(p.name+" "+format, args...)
}

func (p *player) Error(args ...any) { p.Errorf("%s", fmt.Sprintln(args...)) }

func (p *player) Fail() { p.Errorf("the user has failed") }

func (p *player) FailNow() {
	p.Fail()
	runtime.Goexit()
}

func (p *player) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

func (p *player) Fatal(args ...any) {
	p.Error(args...)
	runtime.Goexit()
}

func (p *player) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fails
}

// Cleanup does nothing: the world ends with the test.
func (p *player) Cleanup(func()) {}

func (p *player) Logf(format string, args ...any) { p.world.note(format, args...) }

// wait is User.Wait.
func (p *player) wait(what string, timeout time.Duration, check func() error) {
	for deadline := time.Now().Add(timeout); ; time.Sleep(pollInterval) {
		err := check()
		switch {
		case err == nil:
			return
		case time.Now().After(deadline) && (p.held == nil || time.Since(p.held()) > timeout):
			p.Fatalf("waited %v in vain until %s: %v", timeout, what, err)
		}
	}
}
