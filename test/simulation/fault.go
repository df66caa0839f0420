package simulation

import (
	"fmt"
	"time"

	"github.com/standalone-kcm/controller-manager/test/simulation/faults"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// takeover is how long it may take until a manager works again whose predecessor has died: the lease expires, a candidate
// sees it, caches fill.
const takeover = 30 * time.Second

// lasts is how long a line has an effect beyond its moment.
func lasts(l script.Line) time.Duration {
	d, _ := l.Duration("for")
	return d
}

// fault does what a line says that begins with "fault", to one process or (m*) to all.
//
//	delay RESOURCE TIME for=TIME           events come later
//	lag RESOURCE TIME for=TIME             the server's cache is behind: events come later, and lists may show the past
//	freeze RESOURCE for=TIME hide=true     events come not at all; hidden ones never, there is a relist instead
//	cut RESOURCE                           watches break
//	expire RESOURCE                        watches break, and cannot go on where they were
//	refuse n= code= after= resource= verb= the next requests fail; see faults.Refusal
//	slow TIME for=TIME                     requests take up to this time, each way
//	down for=TIME                          the server cannot be reached
//	pause for=TIME                         the process stands still
//	crash writes=N after=true back=TIME    the process dies at its N+1st write from now, and the next one begins later
//	stop back=TIME                         the process ends in good order
func (w *world) fault(l script.Line) error {
	for _, p := range w.processes {
		if target := l.Arg(0); target != p.name && target != "m*" {
			continue
		}
		if err := p.fault(l); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) fault(l script.Line) error {
	link := p.link
	resource := l.Arg(2)
	if resource == "all" {
		resource = ""
	}
	lasting := func(begin, end func()) {
		p.world.faulted(lasts(l))
		begin()
		p.world.cluster.After(lasts(l), end)
	}
	switch l.Arg(1) {
	case "delay", "lag":
		d, err := time.ParseDuration(l.Arg(3))
		if err != nil {
			return err
		}
		set := link.Delay
		if l.Arg(1) == "lag" {
			set = link.LagBehind
		}
		lasting(func() { set(resource, d) }, func() { set(resource, 0) })
	case "freeze":
		lasting(func() { link.Freeze(resource, true) }, func() {
			if hide, _ := l.Get("hide"); hide == "true" {
				p.world.server.Compact()
				link.Cut(resource)
			}
			link.Freeze(resource, false)
		})
	case "cut":
		p.world.faulted(0)
		link.Cut(resource)
	case "expire":
		p.world.faulted(0)
		p.world.server.Compact()
		link.Cut(resource)
	case "slow":
		d, err := time.ParseDuration(l.Arg(2))
		if err != nil {
			return err
		}
		lasting(func() { link.Slow(d) }, func() { link.Slow(p.world.latency()) })
	case "down":
		lasting(func() { link.Down(true) }, func() { link.Down(false) })
	case "pause":
		lasting(func() { link.Pause(true) }, func() { link.Pause(false) })
	default:
		return p.single(l)
	}
	return nil
}

// single does the faults that happen once.
func (p *process) single(l script.Line) error {
	after, _ := l.Get("after")
	switch l.Arg(1) {
	case "refuse":
		n, _ := l.Int("n")
		code, _ := l.Int("code")
		resource, _ := l.Get("resource")
		verb, _ := l.Get("verb")
		p.world.faulted(takeover)
		p.link.Refuse(faults.Refusal{Left: n, Code: code, After: after == "true", Resource: resource, Verb: verb})
	case "crash", "stop":
		if back, ok := l.Duration("back"); ok {
			p.back = back
		}
		p.world.faulted(p.back + takeover)
		if l.Arg(1) == "stop" {
			p.stop()
			break
		}
		writes, _ := l.Int("writes")
		p.link.CrashAt(faults.Crash{Writes: writes, After: after == "true"})
	default:
		return fmt.Errorf("no such fault")
	}
	return nil
}

// aftermath is how long a manager may be blind after a fault has ended: client-go waits for up to 30s, and a jitter, before it
// opens a watch again that has failed some times (CI-13).
const aftermath = 40 * time.Second

// faulted notes that managers may be blind or lame for a while.
func (w *world) faulted(d time.Duration) {
	w.faulty = append(w.faulty, interval{time.Now(), time.Now().Add(d + aftermath)})
}
