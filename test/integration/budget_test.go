package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/cluster/countproxy"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// Every write counts: what a piece of work must write at the least (each pod created and deleted, each ReplicaSet
// created and scaled, one final status per object, each once) may be exceeded by a tenth, as may what of it is no status;
// nothing may be refused, and nothing written that changes nothing. On a machine that takes longer than a report may be held
// back, each object may be reported once more for each such time.
func TestWriteBudget(t *testing.T) {
	c := cluster.Start(t)
	proxy, kubeconfig := c.CountingProxy(t, c.AdminKubeconfig)
	start := func(t *testing.T, flags []string) *cluster.Manager {
		return c.Manager(t, append([]string{suite.ControllersFlag(), "--kubeconfig=" + kubeconfig, "--use-service-account-credentials=false"}, flags...)...)
	}
	var others []suite.Budget
	for _, e := range suite.Entries() {
		for _, piece := range e.Budgets {
			if len(piece.Flags) == 0 {
				others = append(others, piece)
				continue
			}
			t.Run(piece.Name, func(t *testing.T) {
				(&bench{t, c, c.Namespace(t)}).budget(proxy, start(t, piece.Flags), piece)
			})
		}
	}
	m := start(t, nil)
	for _, piece := range others {
		t.Run(piece.Name, func(t *testing.T) {
			(&bench{t, c, c.Namespace(t)}).budget(proxy, m, piece)
		})
	}
}

// longestDebounce is for how long a report may wait at the most (docs/decisions/0003).
const longestDebounce = 15 * time.Second

// budget does the work and waits until the manager has been quiet for a while, then judges the writes.
func (b *bench) budget(proxy *countproxy.Proxy, m *cluster.Manager, piece suite.Budget) {
	b.Helper()
	user := &suite.User{TB: b.T, Client: b.Client, Namespace: b.ns, Wait: func(what string, timeout time.Duration, check func() error) {
		b.Helper()
		cluster.Eventually(b.T, timeout, what, check)
	}}
	if piece.Prepare != nil {
		piece.Prepare(user)
	}
	written := func() int { return proxy.Writes().Total }
	b.quiet(written, 1500*time.Millisecond)
	if piece.MostPods > 0 {
		defer b.watchInvariants(piece.MostPods, piece.LeastAvailable)()
	}
	proxy.Reset()
	began, busy := time.Now(), m.CPU(b.T)
	piece.Do(user)
	took := time.Since(began)
	b.quiet(written, 3*time.Second)
	busy = m.CPU(b.T) - busy
	s := proxy.Writes()
	total := piece.Floor.Total()
	b.Logf("%d writes, floor %d (x%.3f), %d refused, %d without effect, in %v with %v of CPU\n%v",
		s.Total, total, float64(s.Total)/float64(total), s.Refused, s.NoOps, took.Round(time.Millisecond), busy, s)
	if s.Refused != 0 || s.NoOps != 0 {
		b.Errorf("%d refused, %d without effect", s.Refused, s.NoOps)
	}
	if n, most := s.Total-statuses(s), piece.Floor.Other*11/10; n > most {
		b.Errorf("%d writes that are not of a status, at most %d", n, most)
	}
	if most := total*11/10 + piece.Floor.Status*int(took/longestDebounce); s.Total > most {
		b.Errorf("%d writes, at most %d", s.Total, most)
	}
}

func statuses(s countproxy.Summary) (n int) {
	for _, row := range s.Rows {
		if row.Subresource == "status" {
			n += row.Count
		}
	}
	return n
}

// quiet waits until the number of writes has not changed for some time.
func (b *bench) quiet(written func() int, enough time.Duration) {
	last, since := -1, time.Now()
	b.wait("the manager is quiet", func() error {
		if n := written(); n != last {
			last, since = n, time.Now()
		}
		if rest := time.Since(since); rest < enough {
			return fmt.Errorf("quiet for %v", rest)
		}
		return nil
	})
}
