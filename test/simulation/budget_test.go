package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// Every write counts: what a piece of work must write at the least (each pod created and deleted, each ReplicaSet created and
// scaled, one final status per object, each once) may be exceeded by a twentieth, as may what of it is no status. Nothing may be
// refused, and nothing written that changes nothing. The bounds of a piece hold at each version.
func TestWriteBudget(t *testing.T) {
	skipLarge(t)
	for _, e := range suite.Entries() {
		for _, piece := range e.Budgets {
			t.Run(piece.Name, func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T) { spend(t, piece) })
			})
		}
	}
}

// idle is how long managers must have written nothing to have done their work: longer than a report may wait.
const idle = 20 * time.Second

// spend does a piece of work, and judges the writes that it has taken.
func spend(t *testing.T, piece suite.Budget) {
	w := newWorld(script.Script{Seed: 1, Settings: map[string]string{"elect": "0", "garbage": "0", "pace": "5"}}, controllers.Registry)
	for _, flag := range piece.Flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if name == "feature-gates" { // all others are on
			w.script.Settings["groups"] = "1"
			continue
		}
		if err := managertest.SetFlags(w.registry, map[string]string{name: value}); err != nil {
			t.Fatal(err)
		}
	}
	spent := &writes{}
	spent.follow(w.server)
	w.furnish()
	defer w.animate(t.Context())()
	w.at(w.start)
	w.perform(w.player(t), func(user *suite.User) {
		if piece.Prepare != nil {
			piece.Prepare(user)
		}
		spent.rest()
		before := w.server.Version()
		spent.reset()
		began := time.Now()
		piece.Do(user)
		took := time.Since(began)
		spent.rest()
		spent.judge(t, piece, took)
		podsWithin(t, piece, w.server, before)
	})
	w.finish()
	for _, broken := range w.record.broken {
		t.Error(broken)
	}
}

// writes are those of the managers, but for events and leases.
type writes struct {
	mu               sync.Mutex
	status, other    int
	refused, without int // without effect
	kinds            map[string]int
	last             time.Time
}

// follow counts the writes that a server does.
func (s *writes) follow(server *apiserver.Server) {
	wrote := server.Wrote
	server.Wrote = func(w apiserver.Write, did apiserver.Result) {
		wrote(w, did)
		if managed(w.By) && w.Resource != "events" && w.Resource != "leases" {
			s.count(w, did)
		}
	}
	s.reset()
}

func (s *writes) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.other, s.refused, s.without, s.kinds, s.last = 0, 0, 0, 0, map[string]int{}, time.Now()
}

func (s *writes) count(w apiserver.Write, did apiserver.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	s.kinds[strings.Trim(fmt.Sprintf("%s %s/%s", w.Verb, w.Resource, w.Subresource), "/")]++
	if w.Subresource == "status" {
		s.status++
	} else {
		s.other++
	}
	switch {
	case did.Err != nil:
		s.refused++
	case did.Before == did.After && did.Answer == nil:
		s.without++
	}
}

// rest waits until the managers have written nothing for a while.
func (s *writes) rest() {
	for {
		s.mu.Lock()
		wait := idle - time.Since(s.last)
		s.mu.Unlock()
		if wait <= 0 {
			return
		}
		time.Sleep(wait)
	}
}

// judge compares the writes with the floor.
func (s *writes) judge(t *testing.T, piece suite.Budget, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total, floor := s.status+s.other, piece.Floor.Total()
	t.Logf("%d writes, floor %d (x%.3f), %d of %d that are no status, in %v", total, floor, float64(total)/float64(floor), s.other,
		piece.Floor.Other, took)
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		t.Logf("%6d %s", s.kinds[kind], kind)
	}
	if s.refused+s.without > 0 {
		t.Errorf("%d writes were refused, %d had no effect", s.refused, s.without)
	}
	if most := floor * 105 / 100; total > most {
		t.Errorf("%d writes, at most %d", total, most)
	}
	if most := piece.Floor.Other * 105 / 100; s.other > most {
		t.Errorf("%d writes that are not of a status, at most %d", s.other, most)
	}
}

// podsWithin judges the bounds of a piece of work at each version of its pods.
func podsWithin(t *testing.T, piece suite.Budget, server *apiserver.Server, since uint64) {
	if piece.MostPods == 0 {
		return
	}
	pods := map[string]*corev1.Pod{}
	active, available := 0, 0
	count := func(p *corev1.Pod, n int) {
		if p == nil || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed {
			return
		}
		active += n
		if slices.ContainsFunc(p.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
			available += n
		}
	}
	for _, e := range server.Since("pods", 0) {
		p := e.Object.(*corev1.Pod)
		count(pods[p.Name], -1)
		if pods[p.Name] = p; e.Type == "DELETED" {
			delete(pods, p.Name)
		}
		count(pods[p.Name], 1)
		if e.Version > since && (active > piece.MostPods || available < piece.LeastAvailable) {
			t.Errorf("%d pods (at most %d), %d available (at least %d) at version %d", active, piece.MostPods, available,
				piece.LeastAvailable, e.Version)
		}
	}
}
