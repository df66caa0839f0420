package explainhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// The paths where a [Handler] belongs, with all that is below. What a controller sees has a path of its own, so that
// the right to ask why nothing happens does not include the contents of objects.
const (
	explainPath  = "/debug/explain"
	snapshotPath = "/debug/snapshot"
)

// detailWithin bounds how long a detail may take: it may read live, and others wait for it.
const detailWithin = 30 * time.Second

// mostKeys bounds how many keys of a controller a list shows.
const mostKeys = 100

// Controller is a controller that people ask about.
type Controller struct {
	Name, Alias string
	Running     bool
	Queues      []reconcile.Status // none for a runner that does not report them
	Records     []*explain.Records // none for a runner that keeps none
	Held        []brake.Hold       // what its brake holds
}

// Off is a controller that does not run in this process, and why.
type Off struct {
	Name   string `json:"controller"`
	Alias  string `json:"alias,omitempty"`
	Reason string `json:"reason"`
}

// Handler answers what people ask about controllers.
type Handler struct {
	Controllers func() []Controller
	Off         func() []Off

	detailing atomic.Bool // a detail of a key is being sent
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !onlyGet(w, r) {
		return
	}
	path, full := strings.CutPrefix(r.URL.EscapedPath(), snapshotPath)
	path = strings.TrimPrefix(path, explainPath)
	answer, err := h.explain(r.Context(), partsOf(path), full)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	answerJSON(w, answer)
}

// onlyGet reports whether the request only reads, and answers others.
func onlyGet(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "only GET", http.StatusMethodNotAllowed)
	return false
}

func answerJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(answer) // whoever asked may have gone
}

// partsOf splits a path at the slashes that are not escaped: names of volumes have slashes.
func partsOf(path string) []string {
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	for i, part := range parts {
		if whole, err := url.PathUnescape(part); err == nil {
			parts[i] = whole
		}
	}
	return parts
}

// explained is a controller in an answer.
type explained struct {
	Controller       string       `json:"controller"`
	Alias            string       `json:"alias,omitempty"`
	Kinds            []string     `json:"kinds,omitempty"`
	Running          bool         `json:"running"`
	Queued           int          `json:"queued"`           // keys that wait for a worker
	Failing          int          `json:"failing"`          // keys in backoff
	Debounced        int          `json:"reportsDebounced"` // status reports that wait for a newer one
	FailingOrWaiting int          `json:"failingOrWaiting"` // keys that fail, or wait for a cache
	Keys             []record     `json:"keys"`             // the first of them
	Held             []brake.Hold `json:"held,omitempty"`   // what the brake holds
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

// explain returns the answer to the parts of a path, or an error that says what does not exist.
func (h *Handler) explain(ctx context.Context, path []string, full bool) (any, error) {
	controllers := h.Controllers()
	if len(path) == 0 {
		all := struct {
			Controllers []explained `json:"controllers"`
			Off         []Off       `json:"off"`
		}{[]explained{}, append([]Off{}, h.Off()...)}
		for _, c := range controllers {
			all.Controllers = append(all.Controllers, c.overview())
		}
		return all, nil
	}
	i := slices.IndexFunc(controllers, func(c Controller) bool { return c.answersTo(path[0]) })
	if i < 0 {
		for _, off := range h.Off() {
			if path[0] == off.Name || path[0] == off.Alias {
				return nil, fmt.Errorf("%s is off: %s", off.Name, off.Reason)
			}
		}
		return nil, fmt.Errorf("no controller %q runs in this process", path[0])
	}
	switch len(path) {
	case 1:
		return controllers[i].overview(), nil
	case 2:
		return h.explainKey(ctx, controllers[i], plan.Key{Name: path[1]}, full)
	case 3:
		return h.explainKey(ctx, controllers[i], plan.Key{Namespace: path[1], Name: path[2]}, full)
	}
	return nil, fmt.Errorf("want %s/<controller>/<namespace>/<name>", explainPath)
}

// explainKey returns what a controller knows about a key; if everything is asked for, also the present snapshot and
// plan.
func (h *Handler) explainKey(ctx context.Context, c Controller, key plan.Key, full bool) (any, error) {
	for _, records := range c.Records {
		last, ok := records.Get(key)
		if !ok && !full {
			continue
		}
		answer := explainedKey{record: record{c.Name, key.Namespace, key.Name, last}, History: records.History(key)}
		if full {
			detail, err := h.detail(ctx, records, key)
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
	return nil,
		fmt.Errorf("%s has nothing to tell of %s: it has not reconciled it, or nothing was to be done", c.Name, key)
}

// detail makes one detail at a time: it may read live, and a large one takes memory.
func (h *Handler) detail(ctx context.Context, records *explain.Records, key plan.Key) (explain.Detail, error) {
	if !h.detailing.CompareAndSwap(false, true) {
		return explain.Detail{}, errors.New("another detail is being made, ask again")
	}
	defer h.detailing.Store(false)
	ctx, cancel := context.WithTimeout(ctx, detailWithin)
	defer cancel()
	return records.Detail(ctx, key)
}

// overview sums up the queues of a controller.
func (c Controller) overview() explained {
	e := explained{Controller: c.Name, Alias: c.Alias, Running: c.Running, Keys: []record{}, Held: c.Held}
	for _, s := range c.Queues {
		e.Kinds = append(e.Kinds, s.Kinds...)
		e.Queued += s.Queued
		e.Failing += s.Failing
		e.Debounced += s.Debounced
	}
	for _, records := range c.Records {
		found, total := records.Failing(mostKeys - len(e.Keys))
		e.FailingOrWaiting += total
		for _, entry := range found {
			e.Keys = append(e.Keys, record{c.Name, entry.Key.Namespace, entry.Key.Name, entry.Record})
		}
	}
	return e
}

// answersTo reports whether the controller is meant: by its name, its alias, a queue, or a kind of its objects, also
// in the plural.
func (c Controller) answersTo(asked string) bool {
	if asked == c.Name || asked == c.Alias {
		return true
	}
	return slices.ContainsFunc(c.Queues, func(s reconcile.Status) bool {
		return asked == s.Name || slices.ContainsFunc(s.Kinds, func(kind string) bool {
			return strings.EqualFold(asked, kind) || strings.EqualFold(asked, kind+"s")
		})
	})
}
