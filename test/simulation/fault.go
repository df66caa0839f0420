package simulation

import (
	"slices"
	"time"

	"github.com/standalone-kcm/controller-manager/test/faults"
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

// fault does what a line says that begins with "fault", to one process or (m*) to all. Package faults has the words.
func (w *world) fault(l script.Line) error {
	f, err := faults.Parse(l)
	if err != nil {
		return err
	}
	for _, p := range w.processes {
		if target := l.Arg(0); target == p.name || target == "m*" {
			p.fault(f)
		}
	}
	return nil
}

func (p *process) fault(f faults.Fault) {
	server := p.world.server
	switch f.Word {
	case "expire":
		server.Compact()
	case "vanish":
		server.Hide(f.Group, true)
	case "crash", "stop":
		p.back = f.Back
		if f.Word == "stop" {
			p.stop()
			return
		}
	}
	end := p.link.Begin(f)
	if f.For == 0 {
		return
	}
	p.world.cluster.After(f.For, func() {
		if f.Hide {
			server.Compact()
		}
		if f.Word == "vanish" {
			server.Hide(f.Group, false)
		}
		end()
	})
}
