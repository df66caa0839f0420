package leaderelection

import (
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"
)

// What a leader says in annotations goes with its renewals: there is no request more. It stays when the leader ends, and when another
// process leads. A standby says nothing, and annotations of others stay.
func TestAnnotations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		says := func(key string, on *atomic.Bool) func(*process, *Config) {
			return func(p *process, _ *Config) {
				p.notes = func(annotations map[string]string) {
					if on.Load() {
						annotations[key] = "said"
					}
				}
			}
		}
		var first, second atomic.Bool
		second.Store(true)
		a := start(t, s, "a", says("a", &first))
		a.untilLeading(t)
		b := start(t, s, "b", says("b", &second))
		time.Sleep(10 * time.Second)
		is := func(when, want string) {
			t.Helper()
			if got := fmt.Sprint(s.get().Annotations); got != want {
				t.Errorf("%s: the annotations are %s, not %s", when, got, want)
			}
		}
		perMinute := func() int {
			before := len(a.wire.log())
			time.Sleep(time.Minute)
			return len(a.wire.log()) - before
		}
		is("nothing is said", "map[]")
		time.Sleep(time.Second) // in between two renewals: each minute has the same number of them
		quiet := perMinute()
		first.Store(true)
		if n := perMinute(); n != quiet {
			t.Errorf("%d requests a minute, and %d while something is said", quiet, n)
		}
		is("something is said", "map[a:said]")

		lease := s.get()
		lease.Annotations["others"] = "too"
		s.set(lease)
		time.Sleep(10 * time.Second)
		is("somebody else has annotated it", "map[a:said others:too]")
		if got := fmt.Sprint(a.Metadata().Annotations); got != "map[a:said others:too]" {
			t.Errorf("the leader sees %s", got)
		}
		if err := a.finish(t); err != nil {
			t.Fatal(err)
		}
		is("the leader has ended", "map[a:said others:too]")
		b.untilLeading(t)
		seen := maps.Clone(b.Metadata().Annotations)
		delete(seen, "b") // its first renewal may be over by now
		if got := fmt.Sprint(seen); got != "map[a:said others:too]" {
			t.Errorf("the next leader sees %s of others", got)
		}
		time.Sleep(10 * time.Second)
		is("the next leader has renewed it", "map[a:said b:said others:too]")
		if err := b.finish(t); err != nil {
			t.Fatal(err)
		}
	})
}
