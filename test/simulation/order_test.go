package simulation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// An API server that has its hands full: it works on a few writes at a time.
const (
	writesAtOnce = 4
	writeTakes   = 20 * time.Millisecond
)

// When many rollouts share an API server, those that began first end first, and don't wait for all others. Half of them take
// about half of the time of all, each from its own change; in step with each other they would take nearly all of it.
func TestManyRolloutsEndOneAfterTheOther(t *testing.T) {
	skipLarge(t)
	const many = 250
	inBubble(t, 1, func(t *testing.T) {
		b := newBusy(t)
		each := func(do func(name string)) func() {
			return func() {
				b.Each(many, func(i int) error {
					do(fmt.Sprint("web-", i))
					return nil
				})
			}
		}
		b.Follow(many, each(func(name string) { b.Create(suite.Deployment(name, 2)) }))
		began := time.Now()
		took := b.Follow(many, each(func(name string) { b.SetImage(name, "web:2") }))
		if wall, median := time.Since(began), took[many/2]; median > wall*6/10 {
			t.Errorf("half of the rollouts take %v of the %v of all: they go in step", median, wall)
		}
	})
}

// busy is a user of a cluster whose API server has its hands full.
type busy struct {
	*suite.User
	server *apiserver.Server
	seen   uint64 // the version up to which prompt has looked at changes
}

// newBusy starts a cluster whose kubelets are quick, and a manager.
func newBusy(t *testing.T) *busy {
	w := newWorld(script.Script{Seed: 1, Settings: map[string]string{"elect": "0", "garbage": "0", "pace": "5", "latency": "1"}},
		controllers.Registry)
	slots := make(chan struct{}, writesAtOnce)
	w.way = func(n apiserver.Network) apiserver.Network { return &crowded{n, slots} }
	clear(w.clients) // which know no such way
	w.furnish()
	end := w.animate(context.Background()) // that of the test ends before its cleanups
	t.Cleanup(func() { w.finish(); end() })
	w.at(w.start)
	user := w.player(t)
	user.TB, user.Wait = t, func(what string, timeout time.Duration, check func() error) {
		cluster.Eventually(t, timeout, what, check)
	}
	return &busy{User: user, server: w.server}
}

// crowded is the way to a server that has its hands full.
type crowded struct {
	apiserver.Network
	slots chan struct{}
}

// Send implements apiserver.Network.
func (c *crowded) Send(ctx context.Context, r apiserver.Request) error {
	if r.Write() {
		c.slots <- struct{}{}
		time.Sleep(writeTakes)
		<-c.slots
	}
	return c.Network.Send(ctx, r)
}
