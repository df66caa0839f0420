package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// The paths where [Manager.Explain] belongs, with all that is below. What a controller sees has a path of its own, so that the right to ask
// why nothing happens does not include the contents of objects.
const (
	explainPath  = "/debug/explain"
	snapshotPath = "/debug/snapshot"
)

// detailWithin bounds how long a detail may take: it may read live, and others wait for it.
const detailWithin = 30 * time.Second

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
		path, full := strings.CutPrefix(r.URL.Path, snapshotPath)
		path = strings.TrimPrefix(path, explainPath)
		answer, err := m.explain(r.Context(), strings.FieldsFunc(path, func(c rune) bool { return c == '/' }), full)
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

// record is the last record of a key in an answer.
type record struct {
	Controller string `json:"controller"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	explain.Record
}

// explainedKey is a key in an answer.
type explainedKey struct {
	record
	History []explain.Record `json:"history,omitempty"` // the records before the last one, the newest first
	*explain.Detail
	NoDetail string `json:"noDetail,omitempty"` // why there is none, if it was asked for
}

// recording is a runner that remembers its reconciles, as those of package reconcile do.
type recording interface{ Records() []*explain.Records }

// explain returns the answer to the parts of a path, or an error that says what does not exist.
func (m *instance) explain(ctx context.Context, path []string, full bool) (any, error) {
	if len(path) == 0 {
		all := struct {
			Controllers []explained `json:"controllers"`
			Off         []OffState  `json:"off"`
		}{[]explained{}, append([]OffState{}, m.OffStates()...)}
		for _, r := range m.runners {
			all.Controllers = append(all.Controllers, r.overview())
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
	switch len(path) {
	case 1:
		return m.runners[i].overview(), nil
	case 2:
		return m.tell(ctx, m.runners[i], plan.Key{Name: path[1]}, full)
	case 3:
		return m.tell(ctx, m.runners[i], plan.Key{Namespace: path[1], Name: path[2]}, full)
	}
	return nil, fmt.Errorf("want %s/<controller>/<namespace>/<name>", explainPath)
}

// tell returns what a controller has to tell of a key; if everything is asked for, also what there is now and what it would do.
func (m *instance) tell(ctx context.Context, r *named, key plan.Key, full bool) (any, error) {
	for _, records := range r.records() {
		last, ok := records.Get(key)
		if !ok && !full {
			continue
		}
		answer := explainedKey{record: record{r.Name, key.Namespace, key.Name, last}, History: records.History(key)}
		if full {
			detail, err := m.detail(ctx, records, key)
			switch {
			case err == nil:
				answer.Detail = &detail
			case ok:
				answer.NoDetail = err.Error()
			default:
				continue
			}
			if !ok {
				answer.Time, answer.Why = detail.Observed, detail.Plan.Why
			}
		}
		return answer, nil
	}
	return nil, fmt.Errorf("%s has nothing to tell of %s: it has not reconciled it, or nothing was to be done", r.Name, key)
}

// detail makes one detail at a time: it may read live, and a large one takes memory.
func (m *instance) detail(ctx context.Context, records *explain.Records, key plan.Key) (explain.Detail, error) {
	if !m.detailing.TryLock() {
		return explain.Detail{}, errors.New("another detail is being made, ask again")
	}
	defer m.detailing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, detailWithin)
	defer cancel()
	return records.Detail(ctx, key)
}

// overview sums up the queues of a controller.
func (r *named) overview() explained {
	e := explained{Controller: r.Name, Alias: r.Alias, Running: r.running.Load(), Keys: []record{}}
	for _, s := range r.statuses() {
		e.Kinds = append(e.Kinds, s.Kinds...)
		e.Queued += s.Queued
		e.Failing += s.Failing
		e.Debounced += s.Debounced
	}
	for _, records := range r.records() {
		found, total := records.Failing(mostKeys - len(e.Keys))
		e.FailingOrWaiting += total
		for _, entry := range found {
			e.Keys = append(e.Keys, record{r.Name, entry.Key.Namespace, entry.Key.Name, entry.Record})
		}
	}
	return e
}

// records are those of the controller's queues; none for a runner that keeps none.
func (r *named) records() []*explain.Records {
	if o, ok := r.Runner.(recording); ok {
		return o.Records()
	}
	return nil
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
