package clock

import (
	"net/http"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// machine is a clock whose wall part jumps apart from its monotonic part.
type machine struct {
	began      time.Time
	mono, wall time.Duration
}

func (m *machine) now() time.Time { return plantest.Jumped(m.began.Add(m.mono), m.wall) }

// TestJumps sets the clock of the machine, and lets the API server say what time it is.
func TestJumps(t *testing.T) {
	for _, c := range []struct {
		name string
		jump time.Duration
		// "machine": it agrees with the machine; "steady": it does not; "none": answers have no date; "silent": there are none
		server string
		want   time.Duration // by how much the time is ahead of a steady clock
	}{
		{"a step of NTP", 3 * time.Second, "silent", 3 * time.Second},
		{"an hour ahead, nobody says anything", time.Hour, "silent", 0},
		{"an hour ahead, wrongly", time.Hour, "steady", 0},
		{"an hour ahead, rightly", time.Hour, "machine", time.Hour},
		{"an hour back, nobody says anything", -time.Hour, "silent", 0},
		{"an hour back, wrongly", -time.Hour, "steady", 0},
		{"an hour back, rightly", -time.Hour, "machine", -time.Hour},
		{"an hour ahead, and answers without a date", time.Hour, "none", time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &machine{began: time.Now()}
			clock := Of(m.now)
			first := clock.Now()
			m.mono, m.wall = time.Minute, c.jump
			if c.jump.Abs() > tolerated && clock.Now().Round(0).Sub(first.Round(0)) != time.Minute {
				t.Error("the jump counts at once")
			}
			switch date := m.began.Round(0).Add(m.mono); c.server {
			case "machine":
				clock.Heard(date.Add(c.jump).UTC().Format(http.TimeFormat))
			case "steady":
				clock.Heard(date.UTC().Format(http.TimeFormat))
			case "none":
				clock.Heard("")
			}
			m.mono += time.Minute
			now := clock.Now()
			if got := now.Round(0).Sub(first.Round(0)) - 2*time.Minute; got != c.want {
				t.Errorf("the time is %v ahead, want %v", got, c.want)
			}
			if got := now.Sub(first); got != 2*time.Minute {
				t.Errorf("what this process has seen begin has lasted for %v", got)
			}
			m.wall = 0 // the machine is mended
			if got := clock.Now().Round(0).Sub(first.Round(0)) - 2*time.Minute; c.server == "steady" && got != 0 {
				t.Errorf("mended: %v ahead", got)
			}
		})
	}
}

// The transport notices a jump and hears the server, while no controller asks for the time.
func TestListen(t *testing.T) {
	m := &machine{began: time.Now()}
	clock := Of(m.now)
	m.wall = time.Hour
	transport := clock.Listen(answers(func() *http.Response {
		return &http.Response{Header: http.Header{"Date": {m.now().UTC().Format(http.TimeFormat)}}}
	}))
	if _, err := transport.RoundTrip(&http.Request{}); err != nil {
		t.Fatal(err)
	}
	if got := clock.Now().Round(0).Sub(m.began.Round(0)); got != time.Hour {
		t.Errorf("%v", got)
	}
}

type answers func() *http.Response

func (a answers) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }

// The nil clock is that of the machine.
func TestNil(t *testing.T) {
	var none *Clock
	if none.Now().IsZero() {
		t.Error("no time")
	}
	none.Heard("")
}
