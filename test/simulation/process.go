package simulation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/features"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/faults"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// process is a controller manager, and after its death the next one in its place.
type process struct {
	world *world
	name  string
	lives int

	manager atomic.Pointer[manager.Manager] // of the present life; nil before there was one

	link   *link
	cancel context.CancelFunc
	back   time.Duration // from its death to the beginning of the next one
	ended  chan struct{} // closed when it has ended and none follows
}

// start begins a life.
func (p *process) start() {
	w := p.world
	w.ready = time.Now()
	p.lives++
	name := p.identity()
	link := newLink(w.script.Seed+uint64(p.lives)*1000+uint64(p.name[1]), w.latency())
	ctx, cancel := context.WithCancel(context.Background())
	link.died, link.gaveUp, link.lost = cancel, w.record.gaveUp, func() { w.eventsLost.Store(true) }
	p.link, p.cancel, p.back = link, cancel, time.Second
	if p.ended == nil {
		p.ended = make(chan struct{})
	}
	client := &apiserver.Client{Server: w.server, Name: name, Network: w.to(link), Served: w.record.served}
	if w.refusing != nil {
		link.State = faults.New(time.Minute + aftermath) // until what was refused last is tried again
		client.Refuse = func(ctx context.Context, write apiserver.Write) error { return w.refusing.meets(ctx, link, write) }
	}
	go func() {
		err := p.run(ctx, client)
		cancel()
		w.cluster.Post(func() { p.died(name, err) })
	}()
}

// nodeGrace is how long nodes may be silent, which have renewed their Leases every ten seconds.
const nodeGrace = 25 * time.Second

// flags are those of the controllers that a script sets, by name.
func flags(s script.Script) map[string]string {
	workers := strconv.Itoa(s.Setting("workers", 5))
	return map[string]string{
		"concurrent-deployment-syncs":                  workers,
		"concurrent-replicaset-syncs":                  workers,
		"concurrent-rc-syncs":                          workers,
		"concurrent-endpoint-syncs":                    workers,
		"endpoint-updates-batch-period":                strconv.Itoa(s.Setting("batch", 0)) + "ms",
		"service-account-private-key-file":             suite.TokenKeyFile(),
		"cluster-signing-cert-file":                    suite.RootCAFile(), // the key of tokens is that of the authority
		"cluster-signing-key-file":                     suite.TokenKeyFile(),
		"legacy-service-account-token-clean-up-period": suite.LegacyTokenPeriod,
		// The simulation is in a hurry.
		"node-monitor-grace-period":   nodeGrace.String(),
		"node-startup-grace-period":   nodeGrace.String(),
		"allocate-node-cidrs":         "true",
		"cluster-cidr":                suite.ClusterCIDR,
		"service-cluster-ip-range":    suite.ServiceRange,
		"terminated-pod-gc-threshold": strconv.Itoa(s.Setting("terminated", 12500)),
		// Off, as a world would take longer than restful to come to rest.
		"replicaset-pod-failure-backoff": "false",
	}
}

// run runs a manager with default flags, as far as the script does not set anything else.
func (p *process) run(ctx context.Context, client *apiserver.Client) error {
	set := p.world.script.Setting
	o := manager.Options{
		Component: "kube-controller-manager", Controllers: p.world.registry, Off: map[string]string{}, RootCAFile: suite.RootCAFile(),
		FeatureGates: gates(p.world.script), LeaderElect: set("elect", 1) == 1, Logger: klog.FromContext(ctx),
	}
	if set("observe", 0) == 1 {
		o.ReadOnly, o.LeaderElect = true, false
	}
	if set("standby", 0) == 1 {
		o.LeaderElection.OnLoss = leaderelection.Standby
	}
	for _, e := range p.world.registry {
		if !p.world.runs(e.Name) {
			o.Off[e.Name] = "the script leaves it off"
		}
	}
	m, err := manager.New(&rest.Config{Host: "http://simulation", Transport: client}, o)
	if err != nil {
		return err
	}
	p.manager.Store(m)
	return m.Run(ctx)
}

// gates switches all on that a controller asks for; that of groups of pods only if the script says so, as it concerns every Job.
func gates(s script.Script) map[string]bool {
	all := map[string]bool{}
	for gate := range features.All() {
		all[string(gate)] = true
	}
	all["WorkloadWithJob"] = s.Setting("groups", 0) == 1
	return all
}

// stop tells the process to end, as SIGTERM does.
func (p *process) stop() { p.cancel() }

// died lets the next life begin, unless the world is about to end.
func (p *process) died(name string, err error) {
	w := p.world
	w.note("%s has ended: %v", name, err)
	w.outages = append(w.outages, p.outages()...)
	w.writes = append(w.writes, p.link.sentWrites()...)
	p.link = newLink(0, 0) // nothing is between a process that has ended and the server
	if errors.Is(err, manager.ErrShutdownTimeout) || errors.Is(err, leaderelection.ErrStuck) {
		w.record.violation("shutdown of %s takes too long: %v", name, err)
	}
	if w.ending {
		if err == nil && w.keepsLease(name) {
			w.record.violation("L5 %s has ended because it was told to, and still holds the lease", name)
		}
		close(p.ended)
		return
	}
	w.cluster.After(p.back, func() {
		if w.ending {
			close(p.ended)
			return
		}
		p.start()
	})
}

// outages are the times, until now, in which the process could not see or act in its present life.
func (p *process) outages() (all []oracle.Outage) {
	for _, o := range p.link.Outages.All() {
		o.Manager = p.identity()
		all = append(all, o)
	}
	return all
}

// identity names the process in its present life.
func (p *process) identity() string { return fmt.Sprintf("%s.%d", p.name, p.lives) }

func (p *process) wait() { <-p.ended }
