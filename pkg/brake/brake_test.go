package brake

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestExceeded(t *testing.T) {
	for _, row := range []struct {
		name   string
		budget Budget
		n, of  int
		want   bool
	}{
		{"nothing of nothing", Budget{}, 0, 0, false},
		{"half is ordinary", Budget{}, 5, 10, false},
		{"more than half is not", Budget{}, 6, 10, true},
		{"all of a few are ordinary", Budget{}, 4, 4, false},
		{"five are not a few", Budget{}, 5, 5, true},
		{"a tenth", Budget{Share: 0.1}, 11, 100, true},
		{"all, and that is allowed", Budget{Share: 1}, 100, 100, false},
		{"switched off", Budget{Share: -1}, 100, 100, false},
		{"a hundred are a few", Budget{MinObjects: 101}, 100, 100, false},
		{"nothing is small", Budget{MinObjects: -1}, 1, 1, true},
		{"nothing is small, and there is nothing", Budget{MinObjects: -1}, 0, 0, false},
	} {
		if got := row.budget.Exceeded(row.n, row.of); got != row.want {
			t.Errorf("%s: %t", row.name, got)
		}
	}
}

// To remove more, or of fewer that are not too few, never makes it ordinary. A brake that is released never trips.
func TestMoreIsNeverLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Budget{Share: rapid.Float64Range(0, 1).Draw(t, "share"), MinObjects: rapid.IntRange(0, 20).Draw(t, "least")}
		of := rapid.IntRange(0, 1000).Draw(t, "of")
		n := rapid.IntRange(0, of).Draw(t, "n")
		more := rapid.IntRange(n, of).Draw(t, "more")
		if b.Exceeded(n, of) && (!b.Exceeded(more, of) || n <= of/2 && b.Share == 0) {
			t.Fatalf("%d of %d exceed %+v, %d do not", n, of, b, more)
		}
		k := New(b)
		k.SetReleased(true)
		if k.Trips(n, of) || k.Applies(of) {
			t.Fatal("it trips though it is released")
		}
		if k.SetReleased(false); k.Trips(n, of) != b.Exceeded(n, of) || k.Trips(n, of) && !k.Applies(of) {
			t.Fatal("it does not do as its budget says")
		}
	})
}

// Whatever is held and released: what is told began before it ended, each once, and only what has lasted.
func TestEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, at := New(Budget{}), now
		held, told := map[string]time.Time{}, map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			what := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "what")
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				b.Hold(at, what, "why")
				if _, ok := held[what]; !ok && !told[what] {
					held[what] = at
				} else if !ok {
					held[what] = now // it goes on, for all that people know
				}
			case 1:
				b.Release(what, ByProof)
				delete(held, what)
			case 2:
				began, ended := b.Events(at)
				for _, h := range began {
					if since, ok := held[h.What]; !ok || told[h.What] || at.Sub(since) < MinHeld {
						t.Fatalf("told of %+v at %s, held since %s", h, at, since)
					}
					told[h.What] = true
				}
				for _, r := range ended {
					if _, ok := held[r.What]; ok || !told[r.What] || r.Cause != ByProof {
						t.Fatalf("told of the end of %+v", r)
					}
					delete(told, r.What)
				}
			}
			for _, h := range b.Holds(at) {
				if _, ok := held[h.What]; !ok {
					t.Fatalf("holds %+v", h)
				}
			}
		}
	})
}

func TestCauses(t *testing.T) {
	for _, row := range []struct {
		released bool
		cause    Cause
		want     Cause
	}{
		{false, ByProof, ByProof}, {false, ByTime, ByTime}, {false, NothingLeft, NothingLeft},
		{true, ByProof, ByOperator}, {true, NothingLeft, NothingLeft},
	} {
		b := New(Budget{})
		b.Hold(now, "b", "first")
		b.Hold(now.Add(time.Second), "b", "then")
		b.Hold(now, "a", "too")
		if all := b.Holds(now.Add(MinHeld)); !slices.Equal(all, []Hold{{"a", "too", now}, {"b", "then", now}}) ||
			len(b.Holds(now.Add(MinHeld-1))) > 0 {
			t.Errorf("holds %v", all)
		}
		b.Events(now.Add(time.Minute))
		b.SetReleased(row.released)
		b.Release("b", row.cause)
		b.Release("b", NothingLeft) // it is over
		if _, ended := b.Events(now.Add(time.Minute)); len(ended) != 1 || ended[0].Cause != row.want {
			t.Errorf("%+v: %v", row, ended)
		}
	}
}

// What the previous leader has held counts for an hour, and for some minutes of the term at least. It does not count for brakes that
// are switched off or released.
func TestInherited(t *testing.T) {
	for _, row := range []struct {
		name   string
		budget Budget
		since  time.Duration // before the term
		after  time.Duration // in the term
		want   bool
	}{
		{"held a moment ago", Budget{}, time.Minute, 0, true},
		{"for an hour", Budget{}, time.Minute, 58 * time.Minute, true},
		{"and no longer", Budget{}, time.Minute, 59 * time.Minute, false},
		{"for long: the controller has not looked yet", Budget{}, 3 * time.Hour, 9 * time.Minute, true},
		{"for long: it has", Budget{}, 3 * time.Hour, 10 * time.Minute, false},
		{"by a clock that was ahead", Budget{}, -time.Hour, 59 * time.Minute, true},
		{"by a clock that was ahead, for an hour", Budget{}, -time.Hour, time.Hour, false},
		{"there is no brake", Budget{Share: -1}, time.Minute, 0, false},
	} {
		b := New(row.budget)
		b.Hold(now, "b", "an earlier term")
		b.Inherit(now, []Hold{{What: "a", Since: now.Add(-row.since)}})
		if since, ok := b.Inherited(now.Add(row.after), "a"); ok != row.want || ok && since.After(now) {
			t.Errorf("%s: %t since %s", row.name, ok, since)
		}
		if _, ok := b.Inherited(now, "b"); ok {
			t.Errorf("%s: it inherits what it has held itself", row.name)
		}
		b.SetReleased(true)
		if _, ok := b.Inherited(now.Add(row.after), "a"); ok {
			t.Errorf("%s: released, and held", row.name)
		}
	}
}

// What was inherited is told of when it is held again, with when that began. If it never is, its end is told when it counts no longer.
func TestInheritedIsTold(t *testing.T) {
	b, since := New(Budget{}), now.Add(-20*time.Minute)
	b.Inherit(now, []Hold{{What: "again", Since: since}, {What: "never", Since: since}})
	if all := b.Holds(now); len(all) > 0 {
		t.Errorf("holds %v before anybody has looked", all)
	}
	if all := b.Noted(now); len(all) != 2 || all[0].Since != since || all[1].Since != since {
		t.Errorf("noted %v", all)
	}
	b.Hold(now, "again", "why")
	if held, ended := b.Events(now); len(held) != 1 || held[0] != (Hold{"again", "why", since}) || len(ended) > 0 {
		t.Errorf("told: %v %v", held, ended)
	}
	b.Release("again", ByProof)
	if all := b.Noted(now); len(all) != 1 || all[0].What != "never" {
		t.Errorf("noted %v", all)
	}
	b.Events(now)
	b.Hold(now.Add(time.Minute), "again", "why")
	if all := b.Noted(now.Add(time.Minute)); len(all) != 2 || all[0].Since != now.Add(time.Minute) {
		t.Errorf("noted %v, though it was released meanwhile", all)
	}
	if _, ended := b.Events(now.Add(39 * time.Minute)); len(ended) > 0 {
		t.Errorf("ended: %v", ended)
	}
	if _, ended := b.Events(now.Add(40 * time.Minute)); len(ended) != 1 ||
		ended[0] != (Release{Hold{What: "never", Since: since}, NothingLeft}) {
		t.Errorf("ended: %v", ended)
	}
	if _, ended := b.Events(now.Add(50 * time.Minute)); len(ended) > 0 {
		t.Errorf("ended again: %v", ended)
	}
}
