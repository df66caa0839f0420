package leaderelection

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/identity"
)

func holder(s *server) string {
	if l := s.get(); l != nil && l.Spec.HolderIdentity != nil {
		return *l.Spec.HolderIdentity
	}
	return ""
}

func TestAcquireLE7LE13(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		begin := time.Now()
		p := start(t, s, "a", nil)
		if took := p.untilLeading(t); took > 50*time.Millisecond {
			t.Errorf("LE-6: the first attempt came after %v", took)
		}
		l := s.get()
		if *l.Spec.HolderIdentity != "a" || *l.Spec.LeaseDurationSeconds != 15 || *l.Spec.LeaseTransitions != 0 ||
			!l.Spec.AcquireTime.Time.Equal(begin) || len(l.Labels) != 0 || len(l.OwnerReferences) != 0 {
			t.Errorf("LE-2, LE-7: lease %v", l)
		}
		if !p.Held() {
			t.Error("not held after it was acquired")
		}
		time.Sleep(time.Minute)
		if !p.Held() || p.Check() != nil {
			t.Error("not held after a minute of renewals")
		}
		puts := 0
		for i, r := range p.wire.log() {
			if want := map[int]string{0: "GET", 1: "POST"}[i]; want != "" && r.Method != want {
				t.Errorf("LE-7: request %d is %s", i, r.Method)
			} else if want == "" && r.Method != "PUT" {
				t.Errorf("LE-13, LE-24: request %d is %s", i, r.Method)
			}
			if r.Method == "PUT" {
				puts++
			}
		}
		if puts < 30 || puts > 31 {
			t.Errorf("LE-31: %d renewals in a minute", puts)
		}
		if l := s.get(); *l.Spec.LeaseTransitions != 0 || !l.Spec.AcquireTime.Time.Equal(begin) || !l.Spec.RenewTime.After(begin) {
			t.Errorf("LE-13: renewed lease %v", l)
		}
		for _, line := range []string{"Attempting to acquire leader lease...", "Successfully acquired lease"} {
			if n := p.logged(line); n != 1 {
				t.Errorf("LE-11, LE-12: %q logged %d times", line, n)
			}
		}
		if err := p.finish(t); err != nil {
			t.Error(err)
		}
		if p.Held() {
			t.Error("held after the end")
		}
	})
}

func TestTakeoverAfterExpiryLE9LE10(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		s.set(leaseOf("dead", 15))
		p := start(t, s, "b", nil)
		time.Sleep(14 * time.Second)
		if p.Held() || holder(s) != "dead" || p.Check() != nil {
			t.Error("LE-8: taken before it expired")
		}
		for _, r := range p.wire.log() {
			if r.Method != "GET" {
				t.Errorf("a standby sent %s", r.Method)
			}
		}
		p.untilLeading(t)
		if at := time.Since(p.wire.log()[0].At); at < 15*time.Second || at > 19500*time.Millisecond {
			t.Errorf("LE-9: taken over after %v", at)
		}
		if l := s.get(); *l.Spec.LeaseTransitions != 4 || *l.Spec.HolderIdentity != "b" {
			t.Errorf("LE-10: %v", l.Spec)
		}
		_ = p.finish(t)
	})
}

// TestLossLE14 lets renewals fail in all ways, from a time on.
func TestLossLE14(t *testing.T) {
	release := make(chan struct{})
	for name, before := range map[string]func(*http.Request) error{
		"refused":                    down,
		"hangs":                      hang,
		"hangs and heeds no context": func(*http.Request) error { <-release; return errDown },
	} {
		t.Run("LE-14: "+name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				release = make(chan struct{})
				s := &server{}
				p := start(t, s, "a", nil)
				p.untilLeading(t)
				time.Sleep(21 * time.Second)
				log := p.wire.log()
				last := log[len(log)-1].At
				p.wire.cut(before, nil)
				renewed := s.get()

				time.Sleep(time.Until(last.Add(12*time.Second - 10*time.Millisecond)))
				if !p.Held() {
					t.Error("given up early")
				}
				time.Sleep(20 * time.Millisecond)
				if p.Held() {
					t.Error("held for more than renewDeadline + retryPeriod after the last renewal")
				}
				p.mu.Lock()
				if !errors.Is(p.cause, ErrLost) || p.told.Sub(last) > 12*time.Second {
					t.Errorf("lead was told %v after %v", p.cause, p.told.Sub(last))
				}
				p.mu.Unlock()
				p.wire.cut(nil, nil)
				if err := p.returned(t, 2*time.Second); !errors.Is(err, ErrLost) ||
					!strings.HasPrefix(err.Error(), "leaderelection lost/stopped") {
					t.Errorf("CLI-61: Run returned %v", err)
				}
				close(release)
				time.Sleep(10 * time.Second)
				if now := s.get(); now.ResourceVersion != renewed.ResourceVersion {
					t.Errorf("the lease was written after the loss: %v", now.Spec)
				}
				if n := p.logged("Failed to renew lease"); n != 1 {
					t.Errorf("logged %d times", n)
				}
				p.end()
			})
		})
	}
}

func TestUnansweredRenewalCountsFromItsStartLE14(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", nil)
		p.untilLeading(t)
		time.Sleep(9 * time.Second)
		// Answers take 4s from now on, and then none comes.
		p.wire.cut(nil, func(*http.Request) error { time.Sleep(4 * time.Second); return nil })
		time.Sleep(20 * time.Second)
		if !p.Held() {
			t.Error("slow answers are answers")
		}
		p.wire.cut(down, nil)
		time.Sleep(5 * time.Second)
		var last time.Time
		for _, r := range p.wire.log() {
			if r.At.Before(time.Now().Add(-5*time.Second)) && r.Method == "PUT" {
				last = r.At
			}
		}
		_ = p.returned(t, time.Minute)
		if got := p.told.Sub(last); got > 12*time.Second {
			t.Errorf("told %v after the start of the last renewal", got)
		}
		p.end()
	})
}

func TestLeaseDeletedLE15(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", nil)
		p.untilLeading(t)
		time.Sleep(5 * time.Second)
		s.set(nil)
		time.Sleep(5 * time.Second)
		if holder(s) != "a" || !p.Held() {
			t.Error("LE-15: not made again")
		}
		if running, leads := p.leading(); !running || leads != 1 {
			t.Errorf("the work was disturbed: %d leads", leads)
		}
		_ = p.finish(t)
	})
}

func TestAnotherHolderLE15(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", nil)
		p.untilLeading(t)
		time.Sleep(5 * time.Second)
		s.set(leaseOf("thief", 15))
		if err := p.returned(t, 3*time.Second); !errors.Is(err, ErrLost) {
			t.Errorf("returned %v", err)
		}
		if holder(s) != "thief" || p.Held() || p.logged("held by thief") != 1 {
			t.Errorf("holder %q, held %v, log %q", holder(s), p.Held(), p.lines)
		}
		p.end()
	})
}

// TestLedMeanwhile suspends the process until another has led and gone. Client-go alone would take the empty lease and go
// on with the old work.
func TestLedMeanwhile(t *testing.T) {
	for name, left := range map[string]func(*server){
		"released": func(s *server) { s.set(leaseOf("", 1)) },
		"deleted":  func(s *server) { s.set(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &server{}
				p := start(t, s, "a", nil)
				p.untilLeading(t)
				time.Sleep(5 * time.Second)
				p.jumps.jump(0, time.Hour) // suspended
				left(s)
				if err := p.returned(t, 3*time.Second); !errors.Is(err, ErrLost) {
					t.Errorf("returned %v", err)
				}
				if holder(s) == "a" {
					t.Error("took the lease and went on")
				}
				p.end()
			})
		})
	}
}

func TestClearedByHandWhileHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", nil)
		p.untilLeading(t)
		time.Sleep(5 * time.Second)
		s.set(leaseOf("", 1)) // nobody else can have led: we hold it until then
		time.Sleep(5 * time.Second)
		if running, leads := p.leading(); holder(s) != "a" || !running || leads != 1 || !p.Held() {
			t.Errorf("holder %q, %d leads", holder(s), leads)
		}
		_ = p.finish(t)
	})
}

func TestStandbyCompetesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", func(p *process, c *Config) { c.OnLoss, p.stopFor = Standby, 8*time.Second })
		p.untilLeading(t)
		s.set(leaseOf("b", 15))
		wait(t, 3*time.Second, "loss", func() bool { return !p.Held() })
		time.Sleep(5 * time.Second)
		requests := len(p.wire.log())
		time.Sleep(2 * time.Second)
		if len(p.wire.log()) != requests {
			t.Error("competes while its work has not ended")
		}
		wait(t, time.Minute, "second lead", func() bool { _, leads := p.leading(); return leads == 2 })
		if p.most != 1 || !p.Held() {
			t.Errorf("%d leads at once", p.most)
		}
		// Of its own lease, when nobody else took it, it needs not wait for the expiry.
		p.wire.cut(down, nil)
		wait(t, 15*time.Second, "loss", func() bool { return !p.Held() })
		time.Sleep(8 * time.Second)
		p.wire.cut(nil, nil)
		wait(t, 5*time.Second, "third lead", func() bool { _, leads := p.leading(); return leads == 3 })
		if err := p.finish(t); err != nil {
			t.Error(err)
		}
		if holder(s) != "" {
			t.Error("not released")
		}
	})
}

func TestStandbyWithStuckWorkEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", func(p *process, c *Config) { c.OnLoss, p.stopFor = Standby, 100*time.Second })
		p.untilLeading(t)
		s.set(leaseOf("b", 15))
		if err := p.returned(t, 15*time.Second); !errors.Is(err, ErrLost) || !errors.Is(err, ErrStuck) {
			t.Errorf("returned %v", err)
		}
		time.Sleep(5 * time.Second)
		if p.Check() != nil {
			t.Error("LE-18: unhealthy early")
		}
		time.Sleep(25 * time.Second)
		if err := p.Check(); err == nil || err.Error() != "failed election to renew leadership on lease kube-controller-manager" {
			t.Errorf("LE-18, LE-20: wedged, and healthy: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if p.Check() != nil {
			t.Error("the work has ended after all")
		}
		p.end()
	})
}

func TestHealthLE18(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", func(p *process, c *Config) { p.stopFor, c.ShutdownTimeout = 2*time.Minute, time.Hour })
		if p.Check() != nil {
			t.Error("before the election")
		}
		p.untilLeading(t)
		log := p.wire.log()
		last := log[len(log)-1].At
		p.wire.cut(down, nil)
		time.Sleep(time.Until(last.Add(34900 * time.Millisecond)))
		if err := p.Check(); err != nil {
			t.Errorf("LE-18: before leaseDuration + 20s: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
		if p.Check() == nil {
			t.Error("LE-18: after leaseDuration + 20s")
		}
		_ = p.returned(t, time.Hour)
		if p.Check() != nil {
			t.Error("after the end")
		}
		p.end()
	})
}

// TestClientAndEventLE5LE21 uses the clients of the product.
func TestClientAndEventLE5LE21(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		w := &wire{server: s}
		b := identity.NewBuilder(&rest.Config{Host: "http://api", Transport: w},
			identity.Options{Component: "kube-controller-manager", ContentType: "application/json"})
		config := Defaults()
		leases, err := kubernetes.NewForConfig(b.Lease(config.RenewDeadline))
		if err != nil {
			t.Fatal(err)
		}
		root, err := b.Root()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		events, stop := identity.NewRecorder(ctx, root.CoreV1(), "kube-controller-manager", 0)
		defer stop()
		elector, err := New(config, "a", leases.CoordinationV1(), events)
		if err != nil {
			t.Fatal(err)
		}
		err = elector.Run(ctx, func(context.Context) error { time.Sleep(time.Second); return nil })
		if err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.events) < 1 {
			t.Fatal("no event")
		}
		e := s.events[0]
		if e.Namespace != "kube-system" || e.Type != "Normal" || e.Reason != "LeaderElection" || e.Message != "a became leader" ||
			e.Source.Component != "kube-controller-manager" || e.ReportingController != "kube-controller-manager" {
			t.Errorf("LE-21: %v", e)
		}
		o := e.InvolvedObject
		if o.Kind != "Lease" || o.APIVersion != "coordination.k8s.io/v1" || o.Name != "kube-controller-manager" ||
			o.Namespace != "kube-system" || o.UID == "" || o.ResourceVersion == "" {
			t.Errorf("LE-21: involvedObject %v", o)
		}
	})
}

func TestAlwaysLE1a(t *testing.T) {
	var a Leadership = Always{}
	want := errors.New("x")
	if got := a.Run(t.Context(), func(context.Context) error { return want }); got != want || !a.Held() || a.Check() != nil {
		t.Error("LE-1a")
	}
}

// TestRepeatedRenewalLE8 loses the answer to a renewal that was carried out. Client-go repeats it with the same time, and a
// standby sees no change: its clock runs from the first.
func TestRepeatedRenewalLE8(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		a := start(t, s, "a", nil)
		a.untilLeading(t)
		b := start(t, s, "b", nil)
		time.Sleep(20*time.Second + time.Millisecond)
		log := a.wire.log()
		a.wire.cut(nil, func(r *http.Request) error {
			if r.Method == "PUT" {
				a.wire.cut(nil, func(r *http.Request) error { // once; the next PUT is the last thing that gets through
					if r.Method == "PUT" {
						a.wire.cut(down, nil)
					}
					return nil
				})
				return hang(r)
			}
			return nil
		})
		first := log[len(log)-1].At.Add(2 * time.Second) // when the renewal without answer was sent
		time.Sleep(time.Until(first.Add(14 * time.Second)))
		if !a.Held() {
			t.Error("given up early: the repetition, 5s later, did succeed")
		}
		wait(t, 10*time.Second, "loss", func() bool { return !a.Held() })
		if at := time.Since(first); at > 15*time.Second+20*time.Millisecond {
			t.Errorf("held %v after the record has last changed", at)
		}
		b.untilLeading(t)
		_ = a.returned(t, time.Minute)
		_ = b.finish(t)
	})
}
