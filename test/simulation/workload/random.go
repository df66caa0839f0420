package workload

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// generator makes up a script.
type generator struct {
	*rand.Rand
	script.Script
	apps  []string
	nodes int
	span  time.Duration
}

// Random returns the script of a seed: a few Deployments, users who are busy with them for a minute or so, and faults.
func Random(seed uint64) script.Script {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), Script: script.Script{Seed: seed, Settings: map[string]string{}}}
	g.settings()
	g.span = time.Duration(10+g.IntN(60)) * time.Second
	g.apps = []string{"web", "api", "db"}[:1+g.IntN(3)]
	for _, app := range g.apps {
		g.Add(g.early(), "create %s replicas=%d image=%s %s", app, g.IntN(7), g.image(), g.strategy())
		if g.IntN(2) == 0 {
			g.Add(g.early(), "service %s", app)
		}
	}
	for range 2 + g.IntN(14) {
		g.operation()
	}
	for range g.IntN(8) {
		g.fault()
	}
	g.Sort()
	return g.Script
}

func (g *generator) settings() {
	set := func(name string, choices ...int) { g.Settings[name] = strconv.Itoa(choices[g.IntN(len(choices))]) }
	g.nodes = 2 + g.IntN(3)
	set("nodes", g.nodes)
	set("managers", 1, 1, 2)
	set("workers", 1, 5)
	set("latency", 1, 5, 20, 200)
	set("batch", 0, 0, 500)
	set("standby", 0, 1)
	set("terminated", 12500, 3)
}

func (g *generator) early() time.Duration { return g.at(4 * time.Second) }

// at draws a moment, at times one that many things happen at.
func (g *generator) at(within time.Duration) time.Duration {
	grain := []time.Duration{time.Millisecond, 100 * time.Millisecond, 5 * time.Second}[g.IntN(3)]
	return time.Duration(g.Int64N(int64(within))).Truncate(grain)
}

func (g *generator) app() string { return g.apps[g.IntN(len(g.apps))] }

// image draws one of a few images, so that templates come back.
func (g *generator) image() string {
	character := pick(g, actors.Good, actors.Good, actors.Good, actors.Good, actors.Slow, actors.Bad, actors.Failing, actors.Flaky)
	return fmt.Sprintf("%s:%d", character, g.IntN(3))
}

func pick[T any](g *generator, choices ...T) T { return choices[g.IntN(len(choices))] }

func (g *generator) strategy() string {
	switch g.IntN(5) {
	case 0:
		return "strategy=Recreate"
	case 1:
		return "surge=1 unavailable=0"
	case 2:
		return "surge=0 unavailable=1"
	case 3:
		return fmt.Sprintf("surge=%d%% unavailable=%d%%", g.IntN(101), 1+g.IntN(100))
	}
	return "surge=25% unavailable=25%"
}

// operation adds something that users do, some of it with a sequel.
func (g *generator) operation() {
	at, app := 2*time.Second+g.at(g.span), g.app()
	soon := at + g.at(15*time.Second)
	switch g.IntN(20) {
	case 0, 1, 2, 3, 4:
		g.Add(at, "image %s %s", app, g.image())
	case 5, 6, 7:
		g.Add(at, "edit %s replicas=%d", app, g.IntN(9))
	case 8:
		g.Add(at, "rollback %s to=%d", app, g.IntN(4))
	case 9:
		g.Add(at, "rollback %s to=%d annotate=true", app, g.IntN(4))
	case 10:
		g.Add(at, "edit %s paused=true", app)
		g.Add(soon, "edit %s paused=%v", app, g.IntN(5) == 0)
	case 11:
		g.Add(at, "edit %s %s", app, g.strategy())
	case 12:
		g.Add(at, "edit %s %s", app, pick(g, "minready=3", "minready=0", "history=0", "history=1", "note=x", "note=y", "deadline=20"))
	case 13:
		g.Add(at, "delete %s policy=%s", app, pick(g, "Background", "Foreground", "Orphan"))
		g.Add(soon, "create %s replicas=%d image=%s %s", app, g.IntN(6), g.image(), g.strategy())
	case 14:
		g.Add(at, "pod %s n=%d do=%s", app, g.IntN(10), pick(g, "delete", "delete", "evict"))
	case 15:
		g.Add(at, "pod %s n=%d do=relabel", app, g.IntN(10))
		g.Add(soon, "pod %s n=0 do=restore", app)
	case 16:
		g.Add(at, "set %s n=%d do=%s", app, g.IntN(4), pick(g, "delete", "delete", "orphan"))
	case 17:
		g.Add(at, "quota pods=%d", g.IntN(12))
		g.Add(soon, "quota pods=-1")
	case 18:
		g.nodeLoss(at, soon)
	case 19:
		g.Add(at, "service %s app=%s%s", app, g.app(), pick(g, "", "", " unready=true", " delete=true"))
	}
}

func (g *generator) nodeLoss(at, soon time.Duration) {
	node := fmt.Sprintf("node-%d", g.IntN(g.nodes))
	switch g.IntN(4) {
	case 0: // a reboot
		g.Add(at, "node %s do=stop", node)
		g.Add(soon, "node %s do=start", node)
	case 1: // it is noticed, and its pods are evicted
		g.Add(at, "node %s do=stop", node)
		g.Add(at+130*time.Second, "node %s do=%s", node, pick(g, "start", "taint"))
	case 2:
		g.Add(at, "node %s do=remove", node)
		g.Add(at+time.Duration(g.IntN(150))*time.Second, "node %s do=start", node)
	case 3:
		g.Add(at, "node %s do=remove", node)
	}
}

// fault adds something that goes wrong.
func (g *generator) fault() {
	at, who := g.at(g.span), pick(g, "m0", "m0", "m*")
	span := time.Duration(1+g.IntN(20)) * time.Second
	resource := pick(g, "all", "pods", "pods", "replicasets", "deployments", "endpoints", "services", "nodes")
	switch g.IntN(12) {
	case 0, 1:
		g.Add(at, "fault %s delay %s %v for=%v", who, resource, time.Duration(1+g.IntN(5000))*time.Millisecond, span)
	case 2:
		g.Add(at, "fault %s freeze %s for=%v hide=%v", who, resource, span, g.IntN(2) == 0)
	case 3:
		g.Add(at, "fault %s %s %s", who, pick(g, "cut", "expire"), resource)
	case 4, 5, 6:
		code := pick(g, 0, -1, 429, 500, 503, 504)
		after := (code <= 0 || code == 500 || code == 504) && g.IntN(2) == 0
		g.Add(at, "fault %s refuse n=%d code=%d after=%v%s", who, 1+g.IntN(6), code, after,
			pick(g, "", "", " resource=pods", " resource=replicasets", " resource=deployments", " resource=leases", " verb=create", " verb=get"))
	case 7:
		g.Add(at, "fault %s slow %v for=%v", who, time.Duration(100+g.IntN(5000))*time.Millisecond, span)
	case 8:
		g.Add(at, "fault %s down for=%v", who, span)
	case 9:
		g.Add(at, "fault %s pause for=%v", who, span)
	case 10:
		g.Add(at, "fault %s crash writes=%d after=%v back=%v", who, g.IntN(12), g.IntN(2) == 0, time.Duration(g.IntN(10))*time.Second)
	case 11:
		g.Add(at, "fault %s stop back=%v", who, time.Duration(g.IntN(10))*time.Second)
	}
}
