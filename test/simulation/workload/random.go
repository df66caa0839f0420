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

// Around returns the script of a seed that stays with a few controllers. Users do much to few objects. Faults meet the resources of these
// controllers, most of them at the time of an operation. At times the world is left alone for minutes, before it is repaired. Scripts of
// even seeds have no faults but those of the choices, since some mistakes show only if nothing else goes wrong.
func (m Mix) Around(seed uint64, controllers, resources []string) script.Script {
	g := &Generator{Rand: rand.New(rand.NewPCG(seed, 10)), Script: script.Script{Seed: seed, Settings: map[string]string{}}}
	g.settings()
	g.Settings["only"] = strings.Join(controllers, ",")
	g.Settings["garbage"] = Pick(g, "0", "1")
	g.span = time.Duration(15+g.IntN(75)) * time.Second
	g.apps = []string{"web", "api"}[:1+g.IntN(2)]
	for _, app := range g.apps {
		for _, begin := range m.Begin {
			begin(g, app)
		}
	}
	for range 3 + g.IntN(10) {
		choices := m.Choices
		if len(choices) == 0 || g.IntN(4) == 0 {
			choices = ofEnvironment
		}
		at := 2*time.Second + g.at(g.span)
		g.choose(choices).Add(g, g.App(), at, at+g.at(30*time.Second))
	}
	if seed%2 == 1 {
		if len(resources) == 0 { // it is for all that there are
			resources = faulty
		}
		g.faultsAround(resources)
	}
	if g.IntN(2) == 0 {
		g.Add(2*g.span+time.Duration(g.IntN(400))*time.Second, "wait")
	}
	if g.Sort(); seed%2 == 1 && g.IntN(4) == 0 { // another one must lead when all faults have ended
		g.Add(g.Lines[len(g.Lines)-1].At, "fault m0 crash writes=0 after=false back=%ds", 1+g.IntN(10))
	}
	return g.Script
}

// faultsAround adds faults, some at any time, and most shortly before or after something that users do.
func (g *Generator) faultsAround(resources []string) {
	operations := slices.Clone(g.Lines)
	for range g.IntN(3) {
		g.fault()
	}
	for range 1 + g.IntN(4) {
		about := operations[g.IntN(len(operations))].At
		away := Pick(g, -5*time.Second, -time.Second, -time.Second, -100*time.Millisecond, time.Millisecond, 20*time.Millisecond,
			time.Second)
		g.faultOf(Pick(g, resources...), Pick(g, "m0", "m0", "m*"), max(0, about+away))
	}
}

// faultOf adds something that goes wrong with a resource, or with the process that works on it.
func (g *Generator) faultOf(resource, who string, at time.Duration) {
	switch g.IntN(10) {
	case 9: // the leader cannot renew its lease
		g.Settings["managers"] = "2"
		g.Add(at, "fault %s refuse code=%d resource=leases for=%ds", Pick(g, "m0", "m1"), Pick(g, 0, 500), 10+g.IntN(50))
	case 8: // another one takes over that has not seen what has just happened
		g.Settings["managers"] = "2"
		first, next := Pick(g, "m0", "m1"), "m0"
		if first == "m0" {
			next = "m1"
		}
		g.Add(max(0, at-5*time.Second), "fault %s freeze %s for=%ds", next, resource, 30+g.IntN(60))
		g.Add(at+Pick(g, time.Second, 2*time.Second, 5*time.Second), "fault %s crash writes=%d after=false back=60s", first, g.IntN(2))
	case 0, 1:
		g.Add(at, "fault %s freeze %s for=%ds hide=%t", who, resource, 10+g.IntN(70), g.IntN(3) == 0)
	case 2:
		g.Add(at, "fault %s delay %s %v for=%ds", who, resource, time.Duration(500+g.IntN(8000))*time.Millisecond, 10+g.IntN(60))
	case 3, 4:
		code := Pick(g, 0, 409, 409, 429, 500, 500, 504)
		n, after := 1+g.IntN(8), code != 409 && code != 429 && g.IntN(2) == 0
		g.Add(at, "fault %s refuse n=%d code=%d after=%t resource=%s for=60s", who, n, code, after, resource+Pick(g, "", "", "/status"))
	case 5:
		g.Add(at, "fault %s refuse code=%d resource=%s for=%ds", who, Pick(g, 500, 409), resource+Pick(g, "", "/status"), 1+g.IntN(20))
	case 6:
		g.Add(at, "fault %s crash writes=%d after=%t back=%ds", who, g.IntN(4), g.IntN(2) == 0, Pick(g, 0, 1, 60))
	case 7:
		g.Add(at, "fault %s stop back=%ds", who, Pick(g, 0, 1, 30))
	}
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
	set("groups", 0, 1)
}

// Early draws a moment at which apps are made.
func (g *Generator) Early() time.Duration { return g.at(4 * time.Second) }

// at draws a moment, at times one that many things happen at.
func (g *Generator) at(within time.Duration) time.Duration {
	grain := []time.Duration{time.Millisecond, 100 * time.Millisecond, 5 * time.Second}[g.IntN(3)]
	return time.Duration(g.Int64N(int64(within))).Truncate(grain)
}

// Node draws a node of the script.
func (g *Generator) Node() string { return fmt.Sprintf("node-%d", g.IntN(g.nodes)) }

// While draws how long something is as it should not be: at times longer than it takes until a node is given up.
func (g *Generator) While() time.Duration {
	return time.Duration(Pick(g, 5+g.IntN(30), 45+g.IntN(60), 100+g.IntN(250), 380+g.IntN(120))) * time.Second
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
var faulty = strings.Fields(
	"pods replicasets deployments replicationcontrollers statefulsets daemonsets controllerrevisions jobs cronjobs services " +
		"endpoints endpointslices nodes namespaces configmaps secrets serviceaccounts persistentvolumes persistentvolumeclaims " +
		"poddisruptionbudgets " +
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
			Pick(g, "", "", " resource=pods", " resource="+Pick(g, faulty...), " resource="+Pick(g, faulty...), " resource=leases",
				" verb=create", " verb=get"))
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
