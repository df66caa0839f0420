package faults

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// parse reads a fault without what says whose it is.
func parse(t *testing.T, text string) Fault {
	t.Helper()
	f, err := Parse(script.Line{Words: strings.Fields("fault m0 " + text)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "jump", "delay pods", "delay pods soon", "freeze", "freeze pods for=x", "freeze pods n=1", "cut pods 1s", "refuse n=x",
		"refuse code=409 writes=1", "crash writes", "slow", "down 3s", "vanish", "stop back=later", "refuse after=maybe",
	} {
		if f, err := Parse(script.Line{Words: strings.Fields("fault m0 " + text)}); err == nil {
			t.Errorf("%q is read as %+v", text, f)
		}
	}
}

func request(text string) apirequest.Request {
	verb, object, _ := strings.Cut(text, " ")
	path, name, _ := strings.Cut(object, " ")
	resource, subresource, _ := strings.Cut(path, "/")
	return apirequest.Request{Verb: verb, Resource: resource, Subresource: subresource, Namespace: "shop", Name: name}
}

// TestWhichRequestsFail: each row is a fault and requests in order, those with a cross are met.
func TestWhichRequestsFail(t *testing.T) {
	for _, row := range []struct{ fault, requests string }{
		{"refuse code=500", "x create pods a, get pods a, list pods, update leases a, create events, x update deployments/status b"},
		{"refuse code=500 verb=all", "x create pods a, x get pods a, x list pods, x watch pods, get leases a"},
		{"refuse code=500 verb=get,list", "create pods a, x get pods a, x list pods"},
		{"refuse code=500 resource=leases", "x update leases a, get leases a, create pods a"},
		{"refuse code=500 resource=deployments", "x update deployments a, x update deployments/status a"},
		{"refuse code=500 resource=deployments/status", "update deployments a, x update deployments/status a"},
		{"refuse code=409", "create pods a, delete pods a, x update pods a, x patch pods a"},
		{"refuse code=503 n=2", "x create pods a, x create pods b, create pods c"},
		{"refuse code=503 each=1", "x update pods a, x update pods b, update pods a, x patch pods a, update pods b, patch pods a"},
		{"refuse code=503 each=1 n=2", "x update pods a, update pods a, x update pods b, update pods c"},
		{"crash writes=1 after=false", "create pods a, get pods a, x create pods b, create pods c"},
		{"crash writes=1 after=false resource=pods verb=create", "create services a, create pods a, update pods a, x create pods b"},
		{"delay pods 1s", "create pods a"},
	} {
		s, after := New(0), false
		f := parse(t, row.fault)
		s.Begin(f)
		for _, text := range strings.Split(row.requests, ", ") {
			text, want := strings.CutPrefix(text, "x ")
			if after = f.After; s.Hears(request(text)) != nil {
				t.Errorf("%s: the answer to %q is met", row.fault, text)
			}
			if got := s.Sends(request(text)) != nil; got != want {
				t.Errorf("%s: %q is met: %t", row.fault, text, got)
			}
		}
		if after {
			t.Errorf("%s is about answers", row.fault)
		}
	}
}

// TestWhichAnswersAreLost: what was carried out meets its fault on the way back.
func TestWhichAnswersAreLost(t *testing.T) {
	for _, row := range []struct{ fault, requests string }{
		{"refuse code=504 after=true n=1", "x create pods a, create pods b"},
		{"refuse code=0 after=true each=1", "x create pods a, create pods a, x create pods b"},
		{"crash writes=0 after=true", "x create pods a, create pods b"},
		{"crash writes=1 after=true resource=pods", "create services a, create pods a, x create pods b"},
	} {
		s := New(0)
		s.Begin(parse(t, row.fault))
		for _, text := range strings.Split(row.requests, ", ") {
			text, want := strings.CutPrefix(text, "x ")
			if s.Sends(request(text)) != nil {
				t.Errorf("%s: %q does not arrive", row.fault, text)
			}
			if got := s.Hears(request(text)) != nil; got != want {
				t.Errorf("%s: the answer to %q is met: %t", row.fault, text, got)
			}
		}
	}
}

func TestFaultsThatOverlapEndOneByOne(t *testing.T) {
	s := New(0)
	events := s.Watches(Watch{Resource: "pods"})
	first, second := s.Begin(parse(t, "delay pods 1s")), s.Begin(parse(t, "delay all 2s"))
	frozen := s.Begin(parse(t, "freeze pods"))
	sent := time.Now()
	if due := events.Due(sent); !due.IsZero() {
		t.Errorf("while events are frozen one is due at %v", due)
	}
	frozen()
	for _, step := range []struct {
		late time.Duration
		end  func()
	}{{2 * time.Second, second}, {time.Second, first}, {0, func() {}}} {
		if late := events.Due(sent).Sub(sent); late != step.late {
			t.Errorf("events are late by %v, expected %v", late, step.late)
		}
		step.end()
	}
}

func TestWatchesBreak(t *testing.T) {
	for text, want := range map[string]error{
		"cut pods": io.ErrUnexpectedEOF, "cut all": io.ErrUnexpectedEOF, "cut services": nil, "expire pods": ErrExpired,
		"down": io.ErrUnexpectedEOF, "freeze pods hide=true": ErrExpired, "freeze pods": nil, "silent": nil,
	} {
		s := New(0)
		before := s.Watches(Watch{Resource: "pods"})
		s.Begin(parse(t, text))()
		if err := before.Cut(); !errors.Is(err, want) {
			t.Errorf("%s: %v, expected %v", text, err, want)
		}
		if err := s.Watches(Watch{Resource: "pods"}).Cut(); err != nil {
			t.Errorf("after %s, a new watch: %v", text, err)
		}
	}
}

// TestOutages: they are of a resource, and end when its watch has caught up, not with the fault or long after it.
func TestOutages(t *testing.T) {
	const aftermath = 40 * time.Second
	watch := func(s *State, resource string) *Channel { return s.Watches(Watch{Resource: resource}) }
	for name, c := range map[string]struct {
		do   func(s *State)
		want []oracle.Outage // in seconds from the beginning
	}{
		"frozen, and caught up late": {func(s *State) {
			pods, sets := watch(s, "pods"), watch(s, "replicasets")
			end := s.Begin(parse(t, "freeze pods"))
			sets.CaughtUp()
			time.Sleep(10 * time.Second)
			pods.CaughtUp() // nothing has happened
			end()
			time.Sleep(2 * time.Second)
			pods.CaughtUp()
		}, []oracle.Outage{during(0, 12, "pods")}},
		"cut, and another watch caught up": {func(s *State) {
			pods := watch(s, "pods")
			s.Begin(parse(t, "cut pods"))
			pods.CaughtUp()
			time.Sleep(5 * time.Second)
			watch(s, "pods").CaughtUp()
		}, []oracle.Outage{during(0, 5, "pods")}},
		"cut, and of two watches of the resource one caught up late": {func(s *State) {
			metadata := func() *Channel { return s.Watches(Watch{Resource: "pods", Selection: "metadata"}) }
			watch(s, "pods")
			metadata()
			s.Begin(parse(t, "cut pods"))
			metadata().CaughtUp()
			time.Sleep(5 * time.Second)
			watch(s, "pods").CaughtUp()
		}, []oracle.Outage{during(0, 0, "pods"), during(0, 5, "pods")}},
		"never caught up": {func(s *State) {
			watch(s, "pods")
			end := s.Begin(parse(t, "delay all 1s"))
			time.Sleep(10 * time.Second)
			end()
			time.Sleep(10 * time.Minute)
		}, []oracle.Outage{during(0, 10+int(aftermath.Seconds()), "pods")}},
		"down": {func(s *State) {
			end := s.Begin(parse(t, "down"))
			time.Sleep(10 * time.Second)
			end()
		}, []oracle.Outage{during(0, 10, "")}},
		"a request is sent at the end, and another one when that has arrived": {func(s *State) {
			end := s.Begin(parse(t, "down"))
			time.Sleep(10 * time.Second)
			end()
			for range 2 {
				sent := time.Now()
				time.Sleep(time.Second)
				s.Outages.Took("pods", sent)
			}
		}, []oracle.Outage{during(0, 10, ""), during(10, 11, "pods")}},
		"nothing": {func(s *State) { watch(s, "pods").CaughtUp() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(aftermath)
				c.do(s)
				time.Sleep(time.Minute)
				if have := s.Outages.All(); !slices.EqualFunc(have, c.want, func(a, b oracle.Outage) bool {
					return a.Resource == b.Resource && a.From.Equal(b.From) && a.To.Equal(b.To)
				}) {
					t.Errorf("has %v, expected %v", have, c.want)
				}
			})
		})
	}
}

func during(from, to int, resource string) oracle.Outage {
	at := func(second int) time.Time { return time.Date(2000, 1, 1, 0, 0, second, 0, time.UTC) }
	return oracle.Outage{Interval: oracle.Interval{From: at(from), To: at(to)}, Resource: resource}
}
