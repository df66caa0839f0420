package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// TestAnObserverAloneReadsLittle: while nobody carries out what an observer plans, no controller asks the API server for the same again and
// again. A plan is made again after a minute, and what it asks proof of is read once then. Discovery, which is about no object, does not
// count.
func TestAnObserverAloneReadsLittle(t *testing.T) {
	const watched, most = 10 * time.Minute, 45
	asked := 0
	for n := range uint64(10) {
		s := random(2 * (n + 1)) // of even seeds, as these have no faults
		s.Settings["observe"] = "1"
		inBubble(t, s.Seed, func(t *testing.T) {
			w := newWorld(s, controllers.Registry)
			w.addNodes()
			w.start()
			last := w.schedule()
			end := w.animate(t.Context())
			time.Sleep(last + 2*time.Minute)
			begin := w.record.count()
			time.Sleep(watched)
			times := w.record.readsSince(begin)
			w.finish()
			end()
			for what, n := range times {
				if asked += n; n > most {
					t.Errorf("seed %d: within %v the observer has asked %d times for %s", s.Seed, watched, n, what)
				}
			}
			if sent := w.record.writes(); sent > 0 {
				t.Errorf("seed %d: the observer has sent %d writes", s.Seed, sent)
			}
		})
	}
	if asked == 0 {
		t.Error("nothing was asked")
	}
}

// count is how many requests of managers there were.
func (r *record) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

// readsSince counts the requests to read of managers, but for watches, after so many others.
func (r *record) readsSince(begin int) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	times := map[string]int{}
	for _, q := range r.requests[begin:] {
		if q.Resource != "" && (q.Verb == "get" || q.Verb == "list") {
			times[fmt.Sprint(q.Verb, " ", q.Resource, " ", q.Subresource, " ", q.Namespace, "/", q.Name)]++
		}
	}
	return times
}

// writes is how many requests of managers there were that write.
func (r *record) writes() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.requests {
		if q.Verb != "get" && q.Verb != "list" && q.Verb != "watch" {
			n++
		}
	}
	return n
}
