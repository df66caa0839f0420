package manager

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// explainPath is where [Manager.Explain] belongs, with all that is below.
const explainPath = "/debug/explain"

// mostKeys bounds how many keys of a controller a list shows.
const mostKeys = 100

// Explain is [Manager.Explain].
func (m *instance) Explain() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		path, _ := strings.CutPrefix(r.URL.Path, explainPath)
		answer, err := m.explain(strings.FieldsFunc(path, func(c rune) bool { return c == '/' }))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(answer) // whoever asked may have gone
	})
}

// explained is a controller in an answer.
type explained struct {
	Controller       string   `json:"controller"`
	Alias            string   `json:"alias,omitempty"`
	Kinds            []string `json:"kinds,omitempty"`
	Running          bool     `json:"running"`
	Queued           int      `json:"queued"`           // keys that wait for a worker
	Failing          int      `json:"failing"`          // keys in backoff
	Debounced        int      `json:"reportsDebounced"` // status reports that wait for a newer one
	FailingOrWaiting int      `json:"failingOrWaiting"` // keys that fail, or wait for a cache
	Keys             []record `json:"keys"`             // the first of them
}

// record is an reconcile.Record in an answer.
type record struct {
	Controller    string    `json:"controller"`
	Namespace     string    `json:"namespace,omitempty"`
	Name          string    `json:"name"`
	Time          time.Time `json:"time"`
	Why           string    `json:"why"`
	Wrote         int       `json:"wrote"`
	Error         string    `json:"error,omitempty"`
	Retries       int       `json:"retries"`
	NextReconcile float64   `json:"nextReconcileSeconds"` // from time on; 0: only an event leads to one
	Waiting       string    `json:"cacheWaiting,omitempty"`
}

// explain returns the answer to the parts of a path, or an error that says what does not exist.
func (m *instance) explain(path []string) (any, error) {
	if len(path) == 0 {
		all := struct {
			Controllers []explained `json:"controllers"`
			Off         []OffState  `json:"off"`
		}{[]explained{}, append([]OffState{}, m.OffStates()...)}
		for _, r := range m.runners {
			all.Controllers = append(all.Controllers, m.overview(r))
		}
		return all, nil
	}
	i := slices.IndexFunc(m.runners, func(r *named) bool { return r.answersTo(path[0]) })
	if i < 0 {
		for _, off := range m.OffStates() {
			if path[0] == off.Name || path[0] == off.Alias {
				return nil, fmt.Errorf("%s is off: %s", off.Name, off.Reason)
			}
		}
		return nil, fmt.Errorf("no controller %q runs in this process", path[0])
	}
	r, key := m.runners[i], plan.Key{}
	switch len(path) {
	case 1:
		return m.overview(r), nil
	case 2:
		key.Name = path[1]
	case 3:
		key = plan.Key{Namespace: path[1], Name: path[2]}
	default:
		return nil, fmt.Errorf("want %s/<controller>/<namespace>/<name>", explainPath)
	}
	for _, status := range r.statuses() {
		if rec, ok := m.shared.Explain.Get(status.Name, key); ok {
			return recordOf(r, key, rec), nil
		}
	}
	return nil, fmt.Errorf("%s has nothing to tell of %s: it has not reconciled it, or nothing was to be done", r.Name, key)
}

// overview sums up the queues of a controller.
func (m *instance) overview(r *named) explained {
	e := explained{Controller: r.Name, Alias: r.Alias, Running: r.running.Load(), Keys: []record{}}
	for _, s := range r.statuses() {
		found, total := m.shared.Explain.Failing(s.Name, mostKeys-len(e.Keys))
		e.Kinds = append(e.Kinds, s.Kinds...)
		e.Queued += s.Queued
		e.Failing += s.Failing
		e.Debounced += s.Debounced
		e.FailingOrWaiting += total
		for _, entry := range found {
			e.Keys = append(e.Keys, recordOf(r, entry.Key, entry.Record))
		}
	}
	return e
}

func recordOf(r *named, key plan.Key, rec reconcile.Record) record {
	return record{
		Controller: r.Name, Namespace: key.Namespace, Name: key.Name, Time: rec.Time, Why: rec.Why, Wrote: rec.Wrote,
		Error: rec.Error, Retries: rec.Retries, NextReconcile: rec.Next.Seconds(), Waiting: rec.Waiting,
	}
}

// statuses are those of the controller's queues; none for a runner that does not tell.
func (r *named) statuses() []reconcile.Status {
	if o, ok := r.Runner.(observed); ok {
		return o.Statuses()
	}
	return nil
}

// answersTo reports whether the controller is meant: by its name, its alias, a queue, or a kind of its objects, also in the
// plural.
func (r *named) answersTo(asked string) bool {
	if asked == r.Name || asked == r.Alias {
		return true
	}
	return slices.ContainsFunc(r.statuses(), func(s reconcile.Status) bool {
		return asked == s.Name || slices.ContainsFunc(s.Kinds, func(kind string) bool {
			return strings.EqualFold(asked, kind) || strings.EqualFold(asked, kind+"s")
		})
	})
}
