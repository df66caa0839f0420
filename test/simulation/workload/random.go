// Package workload makes random scripts of what users and operators do to a cluster.
package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// Generator makes up a script.
type Generator struct {
	*rand.Rand
	script.Script
	apps  []string
	nodes int
	span  time.Duration
}

// Choice is something that users do in a random script.
type Choice struct {
	Weight int // how often, beside the others
	// Add adds what is done to an app at a moment, and what follows soon after, if anything.
	Add func(g *Generator, app string, at, soon time.Duration)
}

// Mix is what random scripts are made of.
type Mix struct {
	Begin   []func(g *Generator, app string) // makes each app, or something that goes with it
	Choices []Choice
}

// Random returns the script of a seed: a few apps, users who are busy with them for a minute or so, and faults.
func (m Mix) Random(seed uint64) script.Script { return m.random(seed, 7) }

// Focused is Random of a mix in which only some controllers run, with scripts of its own.
func (m Mix) Focused(seed uint64, controllers []string) script.Script {
	s := m.random(seed, 8)
	s.Settings["only"] = strings.Join(controllers, ",")
	return s
}

func (m Mix) random(seed, stream uint64) script.Script {
	g := &Generator{Rand: rand.New(rand.NewPCG(seed, stream)), Script: script.Script{Seed: seed, Settings: map[string]string{}}}
	g.settings()
	g.span = time.Duration(10+g.IntN(60)) * time.Second
	g.apps = []string{"web", "api", "db"}[:1+g.IntN(3)]
	for _, app := range g.apps {
		for _, begin := range m.Begin {
			begin(g, app)
		}
	}
	choices := slices.Concat(m.Choices, ofEnvironment)
	for range 2 + g.IntN(14) {
		at := 2*time.Second + g.at(g.span)
		g.choose(choices).Add(g, g.App(), at, at+g.at(15*time.Second))
	}
	for range g.IntN(8) {
		g.fault()
	}
	// Drawn last, so that the rest of a seed's script is what it was before.
	g.Settings["garbage"] = Pick(g, "0", "1")
	if g.IntN(4) == 0 { // the wait is one that the end of a namespace allows for (NS-4)
		g.Add(g.at(g.span), "fault %s webhook %dms for=%ds", Pick(g, "m0", "m*"), 500+g.IntN(4000), 1+g.IntN(20))
	}
	g.Sort()
	return g.Script
}

// choose draws one of the choices by their weights.
func (g *Generator) choose(choices []Choice) Choice {
	sum := 0
	for _, c := range choices {
		sum += c.Weight
	}
	at := g.IntN(sum)
	for _, c := range choices {
		if at -= c.Weight; at < 0 {
			return c
		}
	}
	panic("weights that do not add up")
}

// ofEnvironment are the choices that concern no controller in particular.
var ofEnvironment = []Choice{
	{1, func(g *Generator, app string, at, _ time.Duration) {
		g.Add(at, "pod %s n=%d do=%s", app, g.IntN(10), Pick(g, "delete", "delete", "evict"))
	}},
	{1, func(g *Generator, app string, at, soon time.Duration) {
		g.Add(at, "pod %s n=%d do=relabel", app, g.IntN(10))
		g.Add(soon, "pod %s n=0 do=restore", app)
	}},
	{1, func(g *Generator, _ string, at, soon time.Duration) {
		g.Add(at, "quota pods=%d", g.IntN(12))
		g.Add(soon, "quota pods=-1")
	}},
	{1, func(g *Generator, _ string, at, soon time.Duration) { g.nodeLoss(at, soon) }},
}

func (g *Generator) settings() {
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

// Early draws a moment at which apps are made.
func (g *Generator) Early() time.Duration { return g.at(4 * time.Second) }

// at draws a moment, at times one that many things happen at.
func (g *Generator) at(within time.Duration) time.Duration {
	grain := []time.Duration{time.Millisecond, 100 * time.Millisecond, 5 * time.Second}[g.IntN(3)]
	return time.Duration(g.Int64N(int64(within))).Truncate(grain)
}

// App draws an app.
func (g *Generator) App() string { return g.apps[g.IntN(len(g.apps))] }

// Image draws one of a few images, so that templates come back.
func (g *Generator) Image() string {
	character := Pick(g, actors.Good, actors.Good, actors.Good, actors.Good, actors.Slow, actors.Bad, actors.Failing, actors.Flaky)
	return fmt.Sprintf("%s:%d", character, g.IntN(3))
}

// Pick draws one of the choices.
func Pick[T any](g *Generator, choices ...T) T { return choices[g.IntN(len(choices))] }

func (g *Generator) nodeLoss(at, soon time.Duration) {
	node := fmt.Sprintf("node-%d", g.IntN(g.nodes))
	switch g.IntN(4) {
	case 0: // a reboot
		g.Add(at, "node %s do=stop", node)
		g.Add(soon, "node %s do=start", node)
	case 1: // it is noticed, and its pods are evicted
		g.Add(at, "node %s do=stop", node)
		g.Add(at+130*time.Second, "node %s do=%s", node, Pick(g, "start", "taint"))
	case 2:
		g.Add(at, "node %s do=remove", node)
		g.Add(at+time.Duration(g.IntN(150))*time.Second, "node %s do=start", node)
	case 3:
		g.Add(at, "node %s do=remove", node)
	}
}

// Faults returns a script of nothing but faults, as many as are asked for, that begin within a time.
func Faults(seed uint64, n int, within time.Duration) script.Script {
	g := &Generator{Rand: rand.New(rand.NewPCG(seed, 7)), Script: script.Script{Seed: seed, Settings: map[string]string{}}, span: within}
	for range n {
		g.fault()
	}
	g.Sort()
	return g.Script
}

// faulty are the resources that faults may concern: those that controllers watch and write.
var faulty = strings.Fields("pods replicasets deployments replicationcontrollers statefulsets daemonsets controllerrevisions jobs cronjobs services " +
	"endpoints endpointslices nodes namespaces configmaps secrets serviceaccounts persistentvolumes persistentvolumeclaims poddisruptionbudgets " +
	"resourcequotas horizontalpodautoscalers certificatesigningrequests clusterroles")

// fault adds something that goes wrong.
func (g *Generator) fault() {
	at, who := g.at(g.span), Pick(g, "m0", "m0", "m*")
	span := time.Duration(1+g.IntN(20)) * time.Second
	resource := Pick(g, "all", "pods", Pick(g, faulty...))
	switch g.IntN(12) {
	case 0, 1:
		g.Add(at, "fault %s delay %s %v for=%v", who, resource, time.Duration(1+g.IntN(5000))*time.Millisecond, span)
	case 2:
		g.Add(at, "fault %s freeze %s for=%v hide=%v", who, resource, span, g.IntN(2) == 0)
	case 3:
		g.Add(at, "fault %s %s %s", who, Pick(g, "cut", "expire"), resource)
	case 4, 5, 6:
		code := Pick(g, 0, -1, 409, 429, 500, 503, 504)
		after := (code <= 0 || code == 500 || code == 504) && g.IntN(2) == 0
		g.Add(at, "fault %s refuse n=%d code=%d after=%v%s", who, 1+g.IntN(6), code, after,
			Pick(g, "", "", " resource=pods", " resource="+Pick(g, faulty...), " resource="+Pick(g, faulty...), " resource=leases", " verb=create", " verb=get"))
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
