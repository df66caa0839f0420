package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/oracle/record"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

var soakFor = flag.Duration("soak", 0, "how long TestSoak works; it is skipped if zero")

const (
	epochLength = 45 * time.Second  // of work and faults, before each judgement
	convergence = 120 * time.Second // how long that may take after the last fault (L4)
	stillness   = 3 * time.Second   // nothing is written for so long when all is done

	restartDelay = 1500 * time.Millisecond // from the end of a program of the control plane to its next start
)

// soak is a random workload, two managers of which one leads, and faults.
type soak struct {
	*testing.T
	*cluster.Cluster
	*rand.Rand
	mu         sync.Mutex
	recording  *recording
	candidates []*candidate
	workload   *randomWork
	tally      *tally
	outages    []oracle.Outage // that the proxies do not see, in this epoch
	began      time.Time       // of this epoch
	faults     map[string]int
	epochs     int
	firsts     map[string]vitals // of each process in each role, in its first quiet moment
	gaps       int               // in recordings, while the control plane was away
	takeovers  []time.Duration
	deaths     []time.Time     // of leaders, in this epoch
	supervised map[string]bool // programs of the control plane that are started again when they end
}

// epochsToJudge is how many epochs give each oracle something to judge: what is random and short may leave one out.
const epochsToJudge = 8

// TestSoak works for as long as the flag -soak says. In its first half managers are killed and stopped; in the second they
// live, so that one can see whether they grow.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("runs with -soak=DURATION")
	}
	c := cluster.Start(t)
	s := &soak{
		T: t, Cluster: c, Rand: rand.New(rand.NewPCG(*firstSeed, 1)),
		tally:  newTally(t, fmt.Sprintf("soak for %v, a run is %v of work and faults", *soakFor, epochLength), epochsToJudge),
		faults: map[string]int{}, firsts: map[string]vitals{}, supervised: map[string]bool{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay: go test ./test/chaos -count=1 -v -timeout=0 -run '^TestSoak$' -soak=%v -seed=%d", *soakFor, *firstSeed)
		}
	})
	s.workload = &randomWork{Rand: rand.New(rand.NewPCG(*firstSeed, 2)), TB: t, client: c.Client,
		namespaces: []string{c.Namespace(t), c.Namespace(t)}}
	for _, name := range []string{"m0", "m1"} {
		s.candidates = append(s.candidates, newCandidate(s, name))
	}
	began := time.Now()
	for failed := 0; time.Since(began) < *soakFor && failed < 5; s.epochs++ {
		if !s.epoch(time.Since(began) < *soakFor/2) {
			failed++
		}
	}
	t.Logf("%d brakes have held what they should not have held", s.falseAlarms())
	t.Logf("seed %d: %d epochs, %d operations, faults %v, takeovers after a death %v, %d gaps while the control plane was away",
		*firstSeed, s.epochs, s.workload.done.Load(), s.faults, s.takeovers, s.gaps)
}

// falseAlarms counts what brakes have held for so long that people were told: nothing that users or faults do here is out of the ordinary.
func (s *soak) falseAlarms() int {
	s.Helper()
	events, err := s.Client.CoreV1().Events(leaseNamespace).List(s.Context(), metav1.ListOptions{FieldSelector: "reason=BrakeHolds"})
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range events.Items {
		s.Errorf("a false alarm: %s", e.Message)
	}
	return len(events.Items)
}

// epoch works under faults, waits until all is done, and judges.
func (s *soak) epoch(deadly bool) (ok bool) {
	s.Helper()
	s.record()
	defer s.recording.Stop(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { s.workload.run(ctx, epochLength) })

	before := s.injected()
	s.outages, s.deaths, s.began = nil, nil, time.Now()
	faults := 0
	for began := time.Now(); time.Since(began) < epochLength; faults++ {
		s.fault(deadly)
		s.pause(time.Duration(1+s.IntN(3)) * time.Second)
	}
	stop()
	working.Wait()
	calm := time.Now()
	unfinished := s.converge()
	recovered := time.Since(calm)
	h := s.recording.all(s.T)

	o := s.options(h)
	violations, counts := oracle.CheckAndCount(h, o, oracle.All()...)
	ids := report(s.T, violations)
	if unfinished != nil {
		s.Errorf("epoch %d: %v after the last fault: %v", s.epochs, convergence, unfinished)
		ids = append(ids, unfinishedOracle)
	}
	seen := len(s.takeovers)
	ids = append(ids, s.checkTakeovers(h, o)...)
	counts.Add(oracle.Counts{"L5": {Judged: len(s.takeovers) - seen}})
	excused, gap := s.recording.gap(s.outages)
	if s.gaps += excused; gap != nil {
		s.Errorf("epoch %d: %v", s.epochs, gap)
		ids = append(ids, unfinishedOracle)
	}
	for _, lost := range oracle.Cover(h, o).Problems() {
		s.Errorf("epoch %d: %s", s.epochs, lost)
		ids = append(ids, unfinishedOracle)
	}
	drift := s.checkVitals()
	s.tally.count(ids, faults+s.injected()-before, counts)
	s.Logf("epoch %d: %d revisions, %d requests, %d faults, at rest after %v, %d violations; %s", s.epochs, len(h.Revisions),
		len(h.Requests), faults, recovered.Round(100*time.Millisecond), len(ids), drift)
	if len(ids) > 0 {
		s.keep(h)
	}
	return len(ids) == 0
}

// record begins to record an epoch.
func (s *soak) record() {
	s.Helper()
	recorder, err := record.Start(context.Background(), s.RESTConfig)
	if err != nil {
		s.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recording = &recording{Recorder: recorder, namespaces: append([]string{leaseNamespace}, s.workload.namespaces...), began: time.Now()}
}

// answered records a request of a manager.
func (s *soak) answered(identity string, e proxy.Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording != nil {
		s.recording.answered(identity, e)
	}
}

func (s *soak) injected() (n int) {
	for _, k := range s.candidates {
		n += len(k.proxy.Injections())
	}
	return n
}

func (s *soak) options(h *oracle.History) oracle.Options {
	outages := slices.Clone(s.outages)
	for _, k := range s.candidates {
		outages = append(outages, k.own(k.proxy.Outages(), s.began)...)
	}
	return oracle.Options{
		Manager:  func(oracle.Request) bool { return true }, // only theirs are recorded
		Identity: byUser,
		Lease:    leaseNamespace + "/" + leaseName, Outages: outages, TerminatedPodThreshold: suite.TerminatedThreshold,
		Settled: true, Unhindered: true, Slices: true, Binds: true,
	}
}

// converge waits until nothing is written any more and all is as it should be, and says what is missing if that takes too
// long.
func (s *soak) converge() (unfinished error) {
	s.Helper()
	for deadline := time.Now().Add(convergence); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if unfinished = s.revive(); unfinished != nil {
			continue
		}
		if unfinished = s.workload.settle(s.Context()); unfinished != nil {
			continue
		}
		if unfinished = s.quiet(); unfinished != nil {
			continue
		}
		h := s.recording.now(s.T)
		missing := oracle.Check(h, s.options(h), oracle.EndsAtAFixpoint(), oracle.DeploymentsComplete(), oracle.WhatCanBeBoundIsBound())
		if len(missing) == 0 {
			return nil
		}
		unfinished = fmt.Errorf("%s", missing[0])
	}
	return unfinished
}

// quiet returns an error if something is written within the time of stillness.
func (s *soak) quiet() error {
	before := s.writes()
	time.Sleep(stillness)
	if after := s.writes(); after != before {
		return fmt.Errorf("%d writes in %v", after-before, stillness)
	}
	return nil
}

func (s *soak) writes() (n int) {
	for _, k := range s.candidates {
		n += k.proxy.Writes()
	}
	return n
}

// revive starts processes anew that have ended, and returns an error while one may not start yet.
func (s *soak) revive() (missing error) {
	s.Helper()
	for _, k := range s.candidates {
		if !k.revive() {
			missing = fmt.Errorf("%s has ended, and is not to start yet", k.name)
		}
	}
	return missing
}

// takeover is how long the lease may have no living holder: its own time, and as long again as other faults may last that
// come meanwhile, such as a second death or an API server that is away (L5).
const takeover = leaseDuration + 30*time.Second

// checkTakeovers notes how long the lease had no living holder after each death of a leader. (If nobody takes it at all, the
// work is not finished.)
func (s *soak) checkTakeovers(h *oracle.History, o oracle.Options) (ids []string) {
	s.Helper()
	for _, died := range s.deaths {
		if took, ok := oracle.Takeover(h, o, died); ok {
			s.takeovers = append(s.takeovers, took.Round(10*time.Millisecond))
			if took > takeover {
				s.Errorf("L5: %v after the death of the leader at %v another one led", took, died)
				ids = append(ids, "L5")
			}
		}
	}
	return ids
}

// checkVitals compares each process with itself in its first quiet moment in the same role: a leader runs controllers, and a standby
// none.
func (s *soak) checkVitals() string {
	var lines []string
	leader, _ := s.leader()
	for _, k := range s.candidates {
		now, err := k.vitals()
		if err != nil {
			s.Errorf("vitals of %s: %v", k.name, err)
			continue
		}
		role := now.process + ", standby"
		if k == leader {
			role = now.process + ", leader"
		}
		first, known := s.firsts[role]
		if !known {
			first = now
			s.firsts[role] = now
		}
		if drift := drifted(first, now); drift != "" {
			s.Errorf("epoch %d: process %s has grown: %s", s.epochs, role, drift)
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", now, role))
	}
	return strings.Join(lines, "; ")
}

// pause waits, while processes that have ended are started anew.
func (s *soak) pause(d time.Duration) {
	s.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		_ = s.revive() // it is waited for when the epoch ends
	}
}

// leader is the candidate that renewed the lease last, and the other one.
func (s *soak) leader() (leader, standby *candidate) {
	a, b := s.candidates[0], s.candidates[1]
	if b.lastRenewal().After(a.lastRenewal()) {
		a, b = b, a
	}
	return a, b
}

// breath is how long it takes, at most, after what stops processes until they have read what has come meanwhile.
const breath = 2 * time.Second

// blackout does what stops everything for a while, the recording too.
func (s *soak) blackout(do func()) {
	began := time.Now()
	do()
	s.outages = append(s.outages, oracle.Blackout(began, time.Now().Add(breath)))
}

// fault injects one fault and waits for its end. Deadly ones end or stop processes.
func (s *soak) fault(deadly bool) {
	s.Helper()
	all := []struct {
		name   string
		weight int
		deadly bool
		inject func()
	}{
		{"kill leader", 3, true, s.killLeader},
		{"kill standby", 1, true, s.killStandby},
		{"kill both", 1, true, func() { s.killStandby(); s.killLeader() }},
		{"stop leader past its lease", 3, true, func() { s.stopLeader(leaseDuration + 4*time.Second) }},
		{"stop leader for a moment", 2, false, func() { s.stopLeader(time.Duration(500+s.IntN(2500)) * time.Millisecond) }},
		{"restart kube-apiserver", 2, true, func() { s.blackout(func() { s.restart("kube-apiserver") }) }},
		{"restart etcd", 2, true, func() { s.blackout(func() { s.restart("etcd") }) }},
		{"starve CPU", 2, false, func() { s.blackout(s.starve) }},
		{"script", 4, false, func() { s.randomScript(deadly) }},
		{"cut connections", 1, false, func() { s.candidates[0].proxy.CutAll(); s.candidates[1].proxy.CutAll() }},
	}
	sum := 0
	for _, f := range all {
		if deadly || !f.deadly {
			sum += f.weight
		}
	}
	n := s.IntN(sum)
	for _, f := range all {
		if f.deadly && !deadly {
			continue
		}
		if n -= f.weight; n < 0 {
			s.faults[f.name]++
			f.inject()
			return
		}
	}
}

func (s *soak) killLeader() {
	leader, _ := s.leader()
	s.deaths = append(s.deaths, time.Now())
	leader.Kill(0)
}

func (s *soak) killStandby() {
	_, standby := s.leader()
	standby.Kill(0)
}

// stopLeader lets the leader stand still for a while. If that is longer than its lease, another leads when it wakes up,
// and it must not write any more (S13).
func (s *soak) stopLeader(d time.Duration) {
	leader, _ := s.leader()
	if d > leaseDuration {
		s.deaths = append(s.deaths, time.Now())
	}
	stopped := time.Now()
	leader.Pause(true)
	time.Sleep(d)
	leader.Pause(false)
	s.outages = append(s.outages, oracle.Outage{
		Interval: oracle.Interval{From: stopped, To: time.Now().Add(breath)}, Manager: leader.identity(stopped),
	})
}

// restart kills one of the control plane's programs and has it started again.
func (s *soak) restart(program string) {
	s.Helper()
	id := processOf(s.T, s.Cluster, program)
	pid, err := strconv.Atoi(id)
	if err != nil {
		s.Fatal(err)
	}
	command, err := os.ReadFile(filepath.Join("/proc", id, "cmdline"))
	if err != nil {
		s.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.Fatal(err)
	}
	if !s.supervised[program] {
		s.supervised[program] = true
		go s.supervise(program, strings.Split(strings.TrimRight(string(command), "\x00"), "\x00"))
	}
	cluster.Eventually(s.T, 20*time.Second, program+" has ended", func() error {
		if data, err := os.ReadFile(filepath.Join("/proc", id, "cmdline")); err == nil && len(data) > 0 {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	cluster.Eventually(s.T, 2*time.Minute, "the API server is ready", func() error {
		return s.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(s.Context()).Error()
	})
}

// supervise starts a program, with its flags, a moment after its last process has ended, as a kubelet would: an API server
// that does not find etcd at first ends by itself.
func (s *soak) supervise(program string, argv []string) {
	log, err := os.OpenFile(filepath.Join(s.LogDir, program+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.Errorf("restart %s: %v", program, err)
		return
	}
	defer log.Close()
	for {
		select {
		case <-s.Context().Done():
			return
		case <-time.After(restartDelay):
		}
		cmd := exec.Command(argv[0], argv[1:]...) // from the control plane's folder, with which it will end
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			if s.Context().Err() == nil {
				s.Errorf("restart %s: %v", program, err)
			}
			return
		}
		_ = cmd.Wait() // however it ends
	}
}

// starve keeps all processors busy for some seconds.
func (s *soak) starve() {
	var busy []*exec.Cmd
	for range 8 {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cluster.StartTied(cmd); err != nil {
			s.Fatal(err)
		}
		busy = append(busy, cmd)
	}
	time.Sleep(time.Duration(2+s.IntN(4)) * time.Second)
	for _, cmd := range busy {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// randomScript injects faults between the managers and the API server for some seconds. Unless they are to be deadly, no process ends.
func (s *soak) randomScript(deadly bool) {
	s.Helper()
	lasts := time.Duration(3+s.IntN(6)) * time.Second
	faults := shortened(workload.Faults(s.Uint64(), 3+s.IntN(4), lasts), lasts/2, (leaseDuration-renewDeadline)/2)
	if !deadly {
		faults.Lines = slices.DeleteFunc(faults.Lines, func(l script.Line) bool { return l.Arg(1) == "crash" || l.Arg(1) == "stop" })
	}
	for _, k := range s.candidates {
		if err := k.proxy.Play(faults, k.name); err != nil {
			s.Fatal(err)
		}
	}
	s.pause(lasts)
	for _, k := range s.candidates {
		k.proxy.Calm()
	}
}

func (s *soak) keep(h *oracle.History) {
	s.Helper()
	keep(s.T, fmt.Sprintf("soak-%d-%d", *firstSeed, s.epochs), h)
}
