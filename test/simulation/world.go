// Package simulation runs the real controllers, with the real runtime under them, in a small world of its own: an API
// server in memory, a cluster played by a few actors, users who do what a script says, and a network with faults. All of it
// happens in virtual time, so that an hour takes a fraction of a second. See package oracle for what is checked.
package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/internal/panics"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

const (
	restful = 70 * time.Second // without a change the world has come to rest: longer than any back-off and progress deadline
	restive = time.Hour        // the longest that it may take to come to rest, once nothing more happens to it
	// restless is how many changes a world may have. A mistake that never ends makes more in minutes of virtual time, and each takes real
	// time, too.
	restless = 50_000
)

// world is a simulation that runs.
type world struct {
	script    script.Script
	registry  []manager.Controller
	server    *apiserver.Server
	cluster   *actors.Cluster
	users     *suite.User
	processes []*process
	record    *record
	only      map[string]bool                           // the controllers that run; nil if all do
	way       func(apiserver.Network) apiserver.Network // to the server, beyond the links of processes and users; it may be nil

	refusing *refusing // what the server refuses; nil for nothing

	eventsLost atomic.Bool // an event of a process did not arrive

	clientsMu sync.Mutex
	clients   map[string]kubernetes.Interface // by who uses them

	healed  time.Time       // when all faults ended
	ready   time.Time       // the same, or when the last process started after that
	outages []oracle.Outage // of processes that have ended
	writes  []string        // of processes that have ended
	ending  bool
	panics  int64 // that there were before this world

	noting sync.Mutex
	notes  []string // what users were refused, and the like
}

// Outcome is what came of a simulation.
type Outcome struct {
	Violations []string      // broken rules
	Notes      []string      // remarks that help to understand what went on
	Took       time.Duration // virtual time
	Changes    uint64        // made to objects
	Counts     oracle.Counts // how often each oracle had something to judge
	Impaired   time.Duration // time in which some manager could not see or act
	Writes     []string      // verbs and resources of what managers have sent, in order, without events and leases
	Deaths     int           // of managers that another one came after

	told   bool // see world.tells
	end    []oracle.Object
	record *record
}

// Run runs a script to its end, and then on until nothing happens any more. If the script asks for that, it runs it once more
// without faults, and compares the ends.
func Run(t *testing.T, s script.Script, registry func() []manager.Controller) Outcome {
	o := run(t, s, registry)
	if compares(s) {
		o.Violations = append(o.Violations, differences(run(t, withoutFaults(s), registry).end, o.end)...)
	}
	return o
}

// The handler that remains writes a log line. The other one delays errors that follow each other closely; it is shared by all
// simulations, and remembers times of simulations whose clocks were ahead.
func init() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] }

func run(t *testing.T, s script.Script, registry func() []manager.Controller) (o Outcome) {
	inBubble(t, s.Seed, func(t *testing.T) {
		w := newWorld(s, registry)
		o = w.run(t.Context())
	})
	return o
}

func newWorld(s script.Script, registry func() []manager.Controller) *world {
	server := apiserver.New(s.Seed)
	if slices.ContainsFunc(s.Lines, func(l script.Line) bool { return l.Op() == "mirror" }) {
		server.Define(mirrors) // only then, as what there is to watch changes the course of a script
	}
	server.Define(apiserver.Definitions)
	server.Define(gadgets)
	server.Define(composites)
	cluster := actors.New(server, s.Seed)
	cluster.LeaveGarbage = s.Setting("garbage", 1) == 0
	cluster.Pace = time.Duration(s.Setting("pace", 0)) * time.Millisecond
	w := &world{
		script: s, registry: registry(), server: server, cluster: cluster, record: newRecord(server), panics: panics.Total(),
		clients: map[string]kubernetes.Interface{},
	}
	w.users = w.newUsers()
	if only := s.Settings["only"]; only != "" {
		w.only = map[string]bool{}
		for name := range strings.SplitSeq(only, ",") {
			w.only[name] = true
		}
	}
	if err := managertest.SetFlags(w.registry, flags(s)); err != nil {
		w.record.violation("%v", err)
	}
	for i := range s.Setting("managers", 1) {
		w.processes = append(w.processes, &process{world: w, name: fmt.Sprintf("m%d", i)})
	}
	return w
}

// run is the whole life of a world.
func (w *world) run(ctx context.Context) Outcome {
	began := time.Now()
	w.addNodes()
	w.start()
	last := w.schedule()
	w.cluster.After(last+time.Second, w.heal)
	defer w.animate(ctx)()
	for end := began.Add(last + 2*time.Second); time.Now().Before(end) && w.server.Version() < restless; {
		time.Sleep(min(5*time.Second, time.Until(end)))
	}
	rested := w.rest()
	w.finish()
	return w.outcome(began, rested)
}

// start lets all processes begin.
func (w *world) start() {
	for _, p := range w.processes {
		p.start()
	}
}

// schedule enters the lines of the script into the agenda, and says when the last one has no effect any more.
func (w *world) schedule() (last time.Duration) {
	for _, l := range w.script.Lines {
		w.cluster.After(l.At, func() { w.do(l) })
		last = max(last, l.At+lasts(l))
	}
	return last
}

// animate lets the cluster live until the returned function is called.
func (w *world) animate(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); w.cluster.Run(ctx) }()
	return func() {
		cancel()
		<-done
		time.Sleep(client.RequestTimeout) // discovery that is under way does not end with its process, but when it is answered
	}
}

// finish ends all processes for good.
func (w *world) finish() {
	w.cluster.Post(w.end)
	for _, p := range w.processes {
		p.wait()
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func (w *world) note(format string, args ...any) {
	w.noting.Lock()
	defer w.noting.Unlock()
	w.notes = append(w.notes, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// do does what a line of the script says.
func (w *world) do(l script.Line) {
	do := w.users.Do
	if l.Op() == "fault" {
		do = w.fault
	}
	if err := do(l); err != nil {
		w.note("%v: %v", l, err)
	}
}

// heal ends all faults, lifts the quotas, suspends all CronJobs and repairs all nodes.
func (w *world) heal() {
	w.healed, w.ready = time.Now(), time.Now()
	for _, p := range w.processes {
		if w.script.Setting("heal", 1) == 1 {
			p.link.Heal()
		}
	}
	w.do(script.Line{Words: []string{"attacher", "do=start"}})
	w.do(script.Line{Words: []string{"quota", "pods=-1"}})
	w.do(script.Line{Words: []string{"resourcequota", "*", "lift=true"}})
	w.do(script.Line{Words: []string{"cron", "*", "suspend=true"}}) // or the world would never come to rest
	for i := range w.script.Setting("nodes", 3) * w.script.Setting("heal", 1) {
		w.do(script.Line{Words: []string{"drain", nodeName(i), "do=end"}}) // or its pods would wait for a node
	}
	w.addNodes()
}

// addNodes adds the nodes of the script, or repairs them.
func (w *world) addNodes() {
	for i := range w.script.Setting("nodes", 3) {
		if err := w.cluster.AddNode(nodeName(i)); err != nil {
			w.note("add a node: %v", err)
		}
	}
}

func (w *world) latency() time.Duration {
	return time.Duration(w.script.Setting("latency", 5)) * time.Millisecond
}

// rest waits until nothing has changed for a while, and reports whether that came to pass.
func (w *world) rest() bool {
	quiet := restful
	if w.script.Setting("recovery", 0) > 0 {
		quiet = patient
	}
	for healed := time.Now(); time.Since(healed) < restive && w.server.Version() < restless; time.Sleep(5 * time.Second) {
		if time.Since(healed) > quiet && time.Since(w.record.lastActivity()) > quiet {
			return true
		}
	}
	return false
}

// end stops the processes for good.
func (w *world) end() {
	w.ending = true
	for _, p := range w.processes {
		p.stop()
	}
}
