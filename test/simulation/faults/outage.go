package faults

import (
	"time"

	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/oracle/outage"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// aftermath is how long after the end of a fault a process may not have caught up yet: its reflectors wait before they ask again
// (CI-13), and so do keys whose requests have failed.
const aftermath = 40 * time.Second

// Outages are the times, until now, in which the process could not see or act.
func (l *Link) Outages() []oracle.Outage { return l.outages.Outages() }

func objectOf(r apiserver.Request) outage.Object {
	return outage.Object{Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}
}

// noteFaults notes what faults have begun or ended. Cut are the resources whose watches break.
func (l *Link) noteFaults(cut func(resource string) bool) {
	if stopped := l.stopped(); stopped != l.wasStopped {
		l.wasStopped = stopped
		l.note(outage.Watch{}, stopped)
		l.outages.CaughtUp(outage.Watch{})
	}
	for watch, hidden := range l.watched {
		if hides := l.hides(watch.Resource); hides != hidden || cut(watch.Resource) {
			l.watched[watch] = hides
			l.note(watch, hides)
		}
	}
}

// note notes that a fault of a watch lasts, or has just ended.
func (l *Link) note(watch outage.Watch, lasts bool) {
	if lasts {
		l.outages.Blind(watch, time.Time{})
	} else {
		l.outages.Blind(watch, time.Now())
	}
}

// watches notes that the process begins a watch.
func (l *Link) watches(watch outage.Watch) {
	if _, known := l.watched[watch]; known {
		return
	}
	l.watched[watch] = l.hides(watch.Resource)
	if l.watched[watch] {
		l.note(watch, true)
	}
}

// stopped reports whether nothing arrives in time that the process sends.
func (l *Link) stopped() bool { return l.paused || l.down || l.latency > l.usual }

// hides reports whether events of a resource are held back.
func (l *Link) hides(resource string) bool {
	return l.stopped() || l.frozen[resource] > 0 || l.frozen[""] > 0 || l.delays[resource] > 0 || l.delays[""] > 0 || l.lag(resource) > 0
}
