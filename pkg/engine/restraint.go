package engine

import (
	"sync"
	"time"
)

// What a held-back report may cost. Up to paceFew at a time go out as soon as they have been held for their time. When
// there are more, and the controller is busy, reports that tell of mere progress take at most one in paceShare of its
// writes plus one per paceEvery; once it has had nothing else to write for paceIdle they are free. So the number of writes
// that a large piece of work takes depends on the work, not on the speed of the machine, and yet nothing stays unreported
// for long after things have come to rest, and never longer than paceLongest.
const (
	paceFew     = 20
	paceShare   = 64
	paceEvery   = time.Second
	paceBurst   = 5
	paceIdle    = time.Second
	paceLongest = 15 * time.Second
)

// pace decides when a controller may write a report that has been held back for its time.
type pace struct {
	mu       sync.Mutex
	credit   float64
	refilled time.Time
	worked   time.Time // the last write that was no held-back report
}

// work notes a write that had to be.
func (p *pace) work(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refill(now)
	p.credit = min(paceBurst, p.credit+1.0/paceShare)
	p.worked = now
}

// allow reports whether a held-back report may be written now.
func (p *pace) allow(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refill(now)
	if now.Sub(p.worked) >= paceIdle {
		return true
	}
	if p.credit < 1 {
		return false
	}
	p.credit--
	return true
}

func (p *pace) refill(now time.Time) {
	if p.refilled.IsZero() {
		p.credit, p.refilled = paceBurst, now
	}
	p.credit = min(paceBurst, p.credit+float64(now.Sub(p.refilled))/float64(paceEvery))
	p.refilled = now
}
