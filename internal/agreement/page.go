package agreement

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"
)

// What a disagreement is about.
const (
	NotDone   = "not done"  // it has been planned for longer than 50 s, and nobody does it
	Otherwise = "otherwise" // something else was done in its place
)

// noRow stands for the row of a disagreement that no row explains.
const noRow = "unexplained"

// Disagreement is a planned write that was not done as planned.
type Disagreement struct {
	Controller string    `json:"controller"`
	Namespace  string    `json:"namespace,omitempty"` // of the key
	Name       string    `json:"name"`
	Time       time.Time `json:"time"`
	Step       string    `json:"step"` // what was planned
	Rule       string    `json:"rule"` // [NotDone] or [Otherwise]
	// Field is the first one that differs, as it was planned and as it was found. It is empty if nothing was written.
	Field   string `json:"field,omitempty"`
	Planned string `json:"planned,omitempty"`
	Found   string `json:"found,omitempty"`
	// Row of docs/parity.md that explains it, by its fact, such as DS-61. "unexplained" if there is none.
	Row string `json:"row"`

	verb, kind string
}

// Report is what the page /debug/agreement shows.
type Report struct {
	Since       time.Time         `json:"since"`
	Controllers []ControllerCount `json:"controllers"`
	// Rows of docs/parity.md that explain disagreements, with how many of them.
	Rows map[string]int `json:"rows,omitempty"`
	// Dropped are planned writes that were not compared, because too many were waited for.
	Dropped       int            `json:"dropped"`
	Disagreements []Disagreement `json:"disagreements"` // the last ones, the latest first
}

// ControllerCount is how the plans of one controller compare.
type ControllerCount struct {
	Controller string          `json:"controller"`
	Decisions  int             `json:"decisions"` // all verdicts
	Verdicts   map[Verdict]int `json:"verdicts"`
	Pending    int             `json:"pending"` // planned, and neither done nor given up yet
}

// Unexplained is the number of disagreements that no row explains.
func (r Report) Unexplained() (n int) {
	for _, c := range r.Controllers {
		n += c.Verdicts[Unexplained]
	}
	return n
}

// disagreement returns one about a write, without what is wrong.
func (c *Comparison) disagreement(id keyID, i *item, now time.Time) Disagreement {
	return Disagreement{Controller: id.controller, Namespace: id.key.Namespace, Name: id.key.Name, Time: now.UTC(),
		Step: i.String(), verb: string(i.verb), kind: i.kind.Kind}
}

// about says which field differs.
func (d *Disagreement) about(i *item, path, planned, found string) {
	d.Field, d.Planned, d.Found = path, shown(i.kind.Kind, path, planned), shown(i.kind.Kind, path, found)
}

// Report returns what was compared up to now.
func (c *Comparison) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(c.Now())
	pending := map[string]int{}
	for id, k := range c.keys {
		for _, i := range k.items {
			if !i.judged {
				pending[id.controller] += i.count
			}
		}
	}
	for _, s := range slices.Concat(c.asking, c.suspects) {
		if !c.partlyDone(s) { // else it counts among those that are waited for
			pending[s.Controller]++
		}
	}
	r := Report{Since: c.began.UTC(), Rows: maps.Clone(c.rows), Dropped: c.dropped,
		Controllers: []ControllerCount{}, Disagreements: append([]Disagreement{}, c.last...)}
	slices.Reverse(r.Disagreements)
	names := maps.Clone(pending)
	for name := range c.counts {
		names[name] += 0
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		one := ControllerCount{Controller: name, Verdicts: maps.Clone(c.counts[name]), Pending: pending[name]}
		for _, n := range one.Verdicts {
			one.Decisions += n
		}
		r.Controllers = append(r.Controllers, one)
	}
	return r
}

// ServeHTTP shows the [Report] as JSON.
func (c *Comparison) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(c.Report()) // who asked has gone
}
