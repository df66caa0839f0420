package leaderelection

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

// jumpingClock is the bubble's clock with jumps.
type jumpingClock struct {
	mu         sync.Mutex
	real       func() instant
	mono, wall time.Duration
}

func newJumpingClock() *jumpingClock { return &jumpingClock{real: realClock()} }

func (c *jumpingClock) now() instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.real()
	return instant{mono: i.mono + c.mono, wall: i.wall.Add(c.wall)}
}

func (c *jumpingClock) jump(mono, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono, c.wall = c.mono+mono, c.wall+wall
}

// weather makes a way to the server bad at random: requests and answers get lost, at once or after a hang, or are late, or
// hang without heeding their context and are carried out all the same.
func weather(roll func(n int) int) func(*http.Request) error {
	return func(r *http.Request) error {
		switch roll(20) {
		case 0, 1, 2, 3:
			return errDown
		case 4, 5, 6, 7:
			return hang(r)
		case 8, 9, 10, 11:
			select {
			case <-time.After(time.Duration(roll(4000)) * time.Millisecond):
			case <-r.Context().Done():
				return r.Context().Err()
			}
		case 12:
			time.Sleep(time.Duration(roll(40)) * time.Second)
		}
		return nil
	}
}

// world is three managers that compete, and a lease.
type world struct {
	t      *testing.T
	s      *server
	timing [3]time.Duration // lease duration, renew deadline, retry period
	roll   func(n int) int
	names  int
	ps     []*process
	old    []*process
}

func (w *world) launch() *process {
	w.names++
	return start(w.t, w.s, fmt.Sprint("p", w.names), func(p *process, c *Config) {
		c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = w.timing[0], w.timing[1], w.timing[2]
		c.OnLoss, c.ShutdownTimeout = Standby, time.Minute
		p.stopFor = time.Duration(w.roll(30000)) * time.Millisecond
		switch w.roll(3) {
		case 0:
			p.sees = &watcher{server: w.s}
		case 1:
			p.sees = &watcher{server: w.s, frozen: true}
		}
	})
}

// step lets something happen, or nothing.
func (w *world) step() {
	i := w.roll(len(w.ps))
	p := w.ps[i]
	switch w.roll(150) {
	case 0, 1:
		p.wire.cut(weather(w.roll), weather(w.roll))
	case 2, 3:
		p.wire.cut(nil, nil)
	case 4:
		p.wire.cut(down, nil)
	case 5:
		p.end()
	}
	select {
	case err := <-p.done: // it ended, because we said so or because it was stuck: start it anew
		p.done <- err
		w.old = append(w.old, p)
		w.ps[i] = w.launch()
	default:
	}
}

func (w *world) holders() (n int) {
	for _, p := range append(w.old[:len(w.old):len(w.old)], w.ps...) {
		if p.Held() {
			n++
		}
	}
	return n
}

// TestNeverTwoHold lets three managers compete in bad weather, with restarts and slow shutdowns. At no time do two of them
// hold the lease by their own judgement, at no time does one work twice, and in good weather one of them leads soon.
func TestNeverTwoHold(t *testing.T) {
	timings := [][3]time.Duration{
		{15 * time.Second, 10 * time.Second, 2 * time.Second}, // the defaults
		{15500 * time.Millisecond, 15400 * time.Millisecond, 5 * time.Second},
		{2 * time.Second, time.Second, 300 * time.Millisecond},
	}
	for seed := range uint64(15) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var mu sync.Mutex
				rnd := rand.New(rand.NewPCG(seed, 0))
				w := &world{t: t, s: &server{}, timing: timings[seed%3], roll: func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return rnd.IntN(n)
				}}
				w.ps = []*process{w.launch(), w.launch(), w.launch()}
				for step := range 4000 {
					time.Sleep(100 * time.Millisecond)
					if n := w.holders(); n > 1 {
						t.Fatalf("after %d steps %d hold the lease", step, n)
					}
					w.step()
				}
				for _, p := range w.ps {
					p.wire.cut(nil, nil)
				}
				wait(t, 3*time.Minute, "a leader in good weather", func() bool { return w.holders() == 1 })
				for _, p := range append(w.old, w.ps...) {
					p.mu.Lock()
					if p.most > 1 {
						t.Errorf("%d leads of one process at once", p.most)
					}
					p.mu.Unlock()
					p.end()
				}
				time.Sleep(3 * time.Minute)
				t.Logf("%d processes, version %s of the lease", w.names, w.s.get().ResourceVersion)
			})
		})
	}
}
