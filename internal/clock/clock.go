package clock

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// tolerated is by how much the wall clock may be set without a doubt.
const tolerated = 5 * time.Second

// Clock is the clock of a process. The nil Clock is that of the machine.
type Clock struct {
	read func() time.Time // that of the machine

	// the wall clock of the machine has jumped, and the API server has not said yet that it is right
	doubted atomic.Bool

	mu          sync.Mutex
	base        time.Time // a moment at which the wall clock was believed
	doubtLogged bool      // the log has said of the present doubt
}

// New returns a clock that believes the machine's as it is now.
func New() *Clock { return Of(time.Now) }

// Of returns a clock that reads another one than that of the machine, for tests.
func Of(now func() time.Time) *Clock { return &Clock{read: now, base: now()} }

// Now returns the time. Its monotonic reading is always that of the machine, so what this process has seen begin is
// measured by that.
func (c *Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, steady, jump := c.compare()
	if jump.Abs() <= tolerated {
		c.believe(now)
		return now
	}
	c.doubted.Store(true)
	if !c.doubtLogged {
		c.doubtLogged = true
		klog.Background().Info("The wall clock has jumped, and does not count until the API server's agrees with it",
			"by", jump.Round(time.Second).String())
	}
	return steady
}

// compare returns the time by the machine's wall clock, the time if that had gone on steadily, and the difference.
// Without a monotonic reading, as in virtual time, there is none.
func (c *Clock) compare() (now, steady time.Time, jump time.Duration) {
	now = c.read()
	steady = c.base.Add(now.Sub(c.base))
	return now, steady, now.Round(0).Sub(steady.Round(0))
}

// believe takes the wall clock of the machine for right. It is called under the lock.
func (c *Clock) believe(now time.Time) {
	c.base, c.doubtLogged = now, false
	c.doubted.Store(false)
}

// Heard is called with the Date of an answer of the API server. It decides whether the clock of the machine is right if
// that has jumped: it is if the server's is closer to it than to what the time was before. Where answers have no date,
// that cannot be known, and the machine is believed.
func (c *Clock) Heard(date string) {
	if c == nil || !c.doubted.Load() {
		return
	}
	at, err := http.ParseTime(date)
	c.mu.Lock()
	defer c.mu.Unlock()
	now, steady, jump := c.compare()
	if err != nil || now.Sub(at.Round(0)).Abs() < steady.Round(0).Sub(at).Abs() {
		klog.Background().Info("The wall clock that has jumped counts from now on", "by",
			jump.Round(time.Second).String(), "serverTime", date)
		c.believe(now)
	}
}

// Listen wraps the transport of a client, whose answers have the time of the API server.
func (c *Clock) Listen(next http.RoundTripper) http.RoundTripper { return &listener{next, c} }

// listener is a transport that shows the clock each answer.
type listener struct {
	next  http.RoundTripper
	clock *Clock
}

// WrappedRoundTripper lets client-go find the transport inside.
func (l *listener) WrappedRoundTripper() http.RoundTripper { return l.next }

// RoundTrip implements http.RoundTripper.
func (l *listener) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err == nil {
		l.clock.Now() // notices a jump, also while no controller works
		l.clock.Heard(answer.Header.Get("Date"))
	}
	return answer, err
}
