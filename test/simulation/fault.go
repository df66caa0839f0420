package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/standalone-kcm/controller-manager/test/simulation/faults"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// lasts is how long a line has an effect beyond its moment.
func lasts(l script.Line) time.Duration {
	d, _ := l.Duration("for")
	return d
}

// withoutFaults returns a script that does the same, except that nothing hinders the managers.
func withoutFaults(s script.Script) script.Script {
	s.Lines = slices.DeleteFunc(slices.Clone(s.Lines), func(l script.Line) bool { return l.Op() == "fault" })
	return s
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
//	vanish GROUP for=TIME                  discovery, which all processes share, does not show an API group
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
		link.Cut(resource)
	case "expire":
		p.world.server.Compact()
		link.Cut(resource)
	case "slow":
		d, err := time.ParseDuration(l.Arg(2))
		if err != nil {
			return err
		}
		lasting(func() { link.Slow(d) }, func() { link.Slow(p.world.latency()) })
	case "vanish":
		server := p.world.server
		lasting(func() { server.Hide(l.Arg(2), true) }, func() { server.Hide(l.Arg(2), false) })
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
		p.link.Refuse(faults.Refusal{Left: n, Code: code, After: after == "true", Resource: resource, Verb: verb})
	case "crash", "stop":
		if back, ok := l.Duration("back"); ok {
			p.back = back
		}
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
