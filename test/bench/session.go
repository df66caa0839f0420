package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/standalone-kcm/controller-manager/test/bench/cpufloor"
	"github.com/standalone-kcm/controller-manager/test/cluster/countproxy"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// raisedLimits lift the client limits of the original, which are 20 requests a second and client.
func raisedLimits() []string { return []string{"--kube-api-qps=5000", "--kube-api-burst=10000"} }

// session is a manager that works on a control plane through a counting proxy.
type session struct {
	plane    *plane
	proxy    *countproxy.Proxy
	valve    *valve             // before the proxy, where there is one
	recorder *cpufloor.Recorder // of what goes through the proxy
	manager  *manager
	name     string   // of the contender
	own      []string // flags of the scenario
	flags    []string // own and common ones, without those that name files
	serving  string   // where the manager can be asked for profiles, if it can
}

// commonFlags are given to every contender: the same controllers, each with the rights and the priority of its own service
// account, as in clusters that kubeadm makes. Those of a scenario stand before them: the first item of --controllers that names a
// controller decides.
func commonFlags(controllers string) []string {
	return []string{"--controllers=" + controllers, "--use-service-account-credentials=true", "--secure-port=0"}
}

// silentNodes keeps nodes that nobody renews Leases for from being taken for lost: the pods of a scenario would be marked as not ready.
// A flag of a scenario, which comes later, overrides it.
func silentNodes() []string {
	return []string{"--node-monitor-grace-period=1h", "--node-startup-grace-period=1h"}
}

// files are the flags that name files of the control plane, as kubeadm gives them to every manager.
func (p *plane) files() []string {
	pki := filepath.Join(p.Dir, "pki")
	return []string{
		"--root-ca-file=" + filepath.Join(pki, "ca.crt"),
		"--service-account-private-key-file=" + filepath.Join(p.Dir, "localcluster", "pki", "sa.key"),
		"--cluster-signing-cert-file=" + filepath.Join(pki, "ca.crt"), "--cluster-signing-key-file=" + filepath.Join(pki, "ca.key"),
	}
}

// begin starts a contender on a control plane and waits until it leads and has rolled out something. The caller ends it.
func (p *plane) begin(ctx context.Context, c contender, flags ...string) (*session, error) {
	s, err := p.standby(c, false, flags...)
	if err != nil {
		return nil, err
	}
	if err := s.warmUp(ctx); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

// standby is begin without waiting for anything, and with a valve if wanted.
func (p *plane) standby(c contender, withValve bool, flags ...string) (s *session, err error) {
	s = &session{plane: p, name: c.Name, own: flags, flags: slices.Concat(silentNodes(), flags, commonFlags(p.controllers)),
		recorder: cpufloor.NewRecorder()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	if p.profiles.dir != "" {
		if s.flags, s.serving, err = profiled(s.flags); err != nil {
			return s, err
		}
	}
	options := countproxy.Options{TLS: !withValve, Wrap: s.recorder.Wrap}
	if s.proxy, err = countproxy.StartWith(p.ManagerKubeconfig, options); err != nil {
		return s, err
	}
	kubeconfig := filepath.Join(p.Dir, "manager-"+rand.Text()+".kubeconfig")
	if withValve {
		if s.valve, err = newValve(s.proxy.URL()); err != nil {
			return s, err
		}
		err = writeKubeconfig(kubeconfig, s.valve.url)
	} else {
		err = s.proxy.WriteKubeconfig(kubeconfig)
	}
	if err != nil {
		return s, err
	}
	s.manager, err = p.startManager(c, slices.Concat([]string{"--kubeconfig=" + kubeconfig}, p.files(), s.flags))
	return s, err
}

// writeKubeconfig writes a kubeconfig without credentials, for a server on plain HTTP.
func writeKubeconfig(file, server string) error {
	return os.WriteFile(file, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: %q}}]
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
users: [{name: bench, user: {}}]
current-context: bench
`, server), 0o600)
}

// warmUp rolls out a Deployment, so that all controllers have been at work once.
func (s *session) warmUp(ctx context.Context) error {
	ns, err := s.plane.follow(ctx)
	if err != nil {
		return err
	}
	defer ns.stop()
	if err := ns.createDeployments(ctx, 0, 2, 2); err != nil {
		return err
	}
	if err := ns.waitRolledOut(ctx, s.manager.running); err != nil {
		return err
	}
	return s.quiet(ctx)
}

// end stops the manager and what stands before it. A session that has not begun fully is ended as well.
func (s *session) end() (err error) {
	if s.manager != nil {
		err = s.manager.stop()
	}
	if s.valve != nil {
		err = errors.Join(err, s.valve.close())
	}
	if s.proxy != nil {
		err = errors.Join(err, s.proxy.Close())
	}
	return err
}

// quietTime without a write means that the work is over. Reports are held back for about a second.
const quietTime = 3 * time.Second

// quiet waits until the manager has written nothing for a while, not even an event: those may come late.
func (s *session) quiet(ctx context.Context) error {
	last, since := -1, time.Now()
	return until(ctx, "the manager is quiet", 50*time.Millisecond, func() (bool, error) {
		w := countWrites(s.proxy.Requests())
		if n := w.writes + w.events; n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) >= quietTime, s.manager.running()
	})
}

// job is a piece of work to be measured.
type job struct {
	name  string
	floor floor.Writes
	most  float64 // what ours may write, as a multiple of the floor, beside reports of progress
	do    func(ctx context.Context) error
}

// measured is what there is to know about a job that was done.
type measured struct {
	writes counts
	wall   time.Duration   // from the first change to the last Deployment rolled out
	cpu    time.Duration   // until the manager is quiet again
	took   []time.Duration // of each Deployment
	played []time.Duration // of each pod, by the kubelet
	excess excess

	recording cpufloor.Recording
	cpuFloor  time.Duration // zero where it was not measured
}

// measure does a job and waits until all is rolled out and the manager is quiet again.
func (s *session) measure(ctx context.Context, ns *namespace, do func(ctx context.Context) error) (m measured, err error) {
	ns.rollouts.take()
	ns.kubelet.take()
	ns.crowd.reset()
	s.proxy.Reset()
	before, err := s.manager.cpu()
	if err != nil {
		return m, err
	}
	s.recorder.Start()
	stop := s.plane.profiles.take(ctx, s.name, s.serving)
	defer func() { err = errors.Join(err, stop()) }()
	began := time.Now()
	if err := do(ctx); err != nil {
		return m, err
	}
	if err := ns.waitRolledOut(ctx, s.manager.running); err != nil {
		return m, err
	}
	m.wall = time.Since(began)
	if err := s.quiet(ctx); err != nil {
		return m, err
	}
	after, err := s.manager.cpu()
	m.cpu = after - before
	m.recording = s.recorder.Stop()
	m.writes = countWrites(s.proxy.Requests())
	m.took = ns.rollouts.take()
	m.played = ns.kubelet.take()
	m.excess = ns.crowd.exceeded()
	return m, errors.Join(err, ns.errs.first())
}

// cost is what work that Deployments have no part in has cost a manager.
type cost struct {
	writes counts
	cpu    time.Duration // until the manager is quiet again
}

// costOf returns what some work costs a manager, from when it is quiet until it is quiet again.
func (s *session) costOf(ctx context.Context, do func(context.Context) error) (c cost, err error) {
	if err := s.quiet(ctx); err != nil {
		return c, err
	}
	s.proxy.Reset()
	before, err := s.manager.cpu()
	if err != nil {
		return c, err
	}
	stop := s.plane.profiles.take(ctx, s.name, s.serving)
	if err := errors.Join(do(ctx), stop()); err != nil {
		return c, err
	}
	if err := s.quiet(ctx); err != nil {
		return c, err
	}
	after, err := s.manager.cpu()
	c.writes, c.cpu = countWrites(s.proxy.Requests()), after-before
	return c, err
}

// keepCost does some work, and keeps what it costs a manager, with the figures that the work returns. It is told the limits of the writes.
func (b *bench) keepCost(ctx context.Context, t turn, s *session, name string, writes figure,
	do func(context.Context) ([]figure, error)) error {
	began := time.Now()
	var figures []figure
	c, err := s.costOf(ctx, func(ctx context.Context) (err error) {
		figures, err = do(ctx)
		return err
	})
	if err != nil {
		return err
	}
	writes.Name, writes.Value = "writes", float64(c.writes.writes)
	b.keep(t, sample{Scenario: name, Began: began, Flags: s.flags, Writes: c.writes.rows, Figures: append([]figure{writes},
		append(figures, exactly("writes without effect", c.writes.noOps, 0), seconds("CPU of the manager", c.cpu))...)})
	return nil
}

// counts are the writes that a manager has made.
type counts struct {
	writes, conflicts, otherRefusals, noOps int // without events and leases
	status                                  int // of the writes, those of a status
	events                                  int
	rows                                    []tally
}

// countWrites sorts out what a proxy has seen. A refusal with 409 is a conflict: a write from an outdated object, or a
// creation of what exists.
func countWrites(seen countproxy.Summary) (c counts) {
	for _, r := range seen.Rows {
		if !r.IsWrite() || r.Resource == "leases" {
			continue
		}
		if r.Resource == "events" {
			c.events += r.Count
			continue
		}
		c.writes += r.Count
		c.noOps += r.NoOps
		if r.Subresource == "status" {
			c.status += r.Count
		}
		switch {
		case r.Code == http.StatusConflict:
			c.conflicts += r.Count
		case r.Code >= http.StatusBadRequest:
			c.otherRefusals += r.Count
		}
		name := r.Resource
		if r.Subresource != "" {
			name += "/" + r.Subresource
		}
		c.rows = append(c.rows, tally{Resource: name, Verb: r.Verb, Code: r.Code, Count: r.Count, NoOps: r.NoOps})
	}
	return c
}

// figures are those of every job, with the limits that ours must keep.
func (j job) figures(m measured) []figure {
	all := []figure{
		j.allWrites(m),
		j.otherWrites(m),
		exactly("refused with 409", m.writes.conflicts, 0),
		exactly("refused otherwise", m.writes.otherRefusals, 0),
		exactly("writes without effect", m.writes.noOps, 0),
		count("events", m.writes.events),
		seconds("time until all is rolled out", m.wall),
	}
	if len(m.took) > 0 {
		all = append(all, seconds("a Deployment's rollout, median", percentile(m.took, 50)))
	}
	all = append(all,
		seconds("CPU of the manager", m.cpu),
		millis("the simulated kubelet's part for a pod, median", percentile(m.played, 50)),
		exactly("pods above replicas + maxSurge", m.excess.tooMany, 0),
		exactly("available pods below replicas - maxUnavailable", m.excess.tooFew, 0),
	)
	if m.cpuFloor == 0 {
		return all
	}
	return append(all, seconds("CPU floor", m.cpuFloor), figure{Name: "times the CPU floor", Value: m.cpu.Seconds() / m.cpuFloor.Seconds()})
}

// costs are the figures of work that Deployments have no part in. How many statuses are written depends on how long the work takes.
func (m measured) costs(least floor.Writes) []figure {
	total, other, most := float64(least.Total()), float64(least.Other), math.Floor(float64(least.Other)*mostForMany)
	return []figure{
		{Name: "writes", Value: float64(m.writes.writes), Floor: &total},
		{Name: "of them not of a status", Value: float64(m.writes.writes - m.writes.status), Floor: &other, Most: &most},
		exactly("refused with 409", m.writes.conflicts, 0),
		exactly("refused otherwise", m.writes.otherRefusals, 0),
		exactly("writes without effect", m.writes.noOps, 0),
		count("events", m.writes.events),
		seconds("CPU of the manager", m.cpu),
	}
}

// otherWrites are those that are not of a status. No machine is too slow for their limit.
func (j job) otherWrites(m measured) figure {
	least, most := float64(j.floor.Other), math.Floor(float64(j.floor.Other)*j.most)
	return figure{Name: "of them not of a status", Value: float64(m.writes.writes - m.writes.status), Floor: &least, Most: &most}
}

// allWrites have a limit only where the longest rollout was short: then reports of progress keep to their budget.
func (j job) allWrites(m measured) figure {
	least := float64(j.floor.Total())
	f := figure{Name: "writes", Value: float64(m.writes.writes), Floor: &least}
	if percentile(m.took, 100) < longRollout {
		most := math.Floor(least*j.most + reportsPerSecond*m.wall.Seconds())
		f.Most = &most
	}
	return f
}

// record measures a job and keeps the result.
func (b *bench) record(ctx context.Context, t turn, s *session, ns *namespace, j job) error {
	began := time.Now()
	m, err := s.measure(ctx, ns, j.do)
	if err != nil {
		return fmt.Errorf("%s: %w", j.name, err)
	}
	if b.cpuFloor {
		if m.cpuFloor, err = measureCPUFloor(ctx, m.recording); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
	}
	b.keep(t, sample{Scenario: j.name, Began: began, Flags: s.flags, Figures: j.figures(m), Writes: m.writes.rows})
	return nil
}

// replay is the argument that makes this program the client that [cpufloor.Measure] starts.
const replay = "replay"

func measureCPUFloor(ctx context.Context, recording cpufloor.Recording) (time.Duration, error) {
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	return cpufloor.Measure(ctx, recording, program, replay)
}

// keep adds a sample to the results and says so.
func (b *bench) keep(t turn, s sample) {
	s.Contender, s.Run = t.Name, t.run
	b.samples = append(b.samples, s)
	text := ""
	for _, f := range s.Figures {
		text += fmt.Sprintf("; %s %s", f.Name, show(f.Value, f.Unit))
	}
	b.say("%-8s %s%s", cmp.Or(s.Contender, "-"), s.Scenario, text)
}
