package explain

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/truncate"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Bounds of what a record holds.
const (
	mostText  = 2000 // bytes of a text
	mostSteps = 8
	mostNames = 3 // of the objects of one step
)

// Record is about one reconcile of a key, or of several in a row that were alike.
type Record struct {
	Time    time.Time `json:"time"`            // of the reconcile; of several, the last one
	Why     string    `json:"why"`             // what was decided and what is waited for
	Wrote   int       `json:"wrote"`           // writes tried in that reconcile
	Error   string    `json:"error,omitempty"` // what went wrong; empty if nothing did
	Held    string    `json:"held,omitempty"`  // what is held until there is proof, and why; empty for nothing
	Retries int       `json:"retries"`         // failures in a row
	// until the next reconcile by the clock, from Time on; zero: only an event leads to one
	Next Seconds `json:"nextReconcileSeconds"`
	// the kind whose cache does not show our own writes yet; empty if none
	Waiting string `json:"cacheWaiting,omitempty"`

	// Inferred: the process only observes. It has planned the steps as a leader would that remembers nothing of the
	// time before, and has not carried them out.
	Inferred bool `json:"inferred,omitempty"`

	Version string    `json:"resourceVersion,omitempty"` // of the key's object, as it was seen
	Steps   []string  `json:"steps,omitempty"`           // what was planned and reported, in a few words
	Outcome []Write   `json:"outcome,omitempty"`         // what became of it, write by write
	Since   time.Time `json:"since,omitzero"`            // of several reconciles that were alike: of the first one
	Alike   int       `json:"alike,omitempty"`           // how many there were before the last one
}

// Write is one write that was tried.
type Write struct {
	Verb        plan.Verb `json:"verb"`
	Kind        string    `json:"kind"`
	Name        string    `json:"name"`
	Subresource string    `json:"subresource,omitempty"`
	Error       string    `json:"error,omitempty"`
}

// Seconds is a duration that is a number of seconds in JSON.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	var seconds float64
	err := json.Unmarshal(data, &seconds)
	*s = Seconds(seconds * float64(time.Second))
	return err
}

// Planned adds the steps of a plan to the record.
func (r *Record) Planned(steps []plan.Step) {
	for _, step := range steps {
		if each, ok := step.(plan.Each); ok {
			for _, sequence := range each.Sequences {
				r.Planned(sequence)
			}
			continue
		}
		if len(r.Steps) > mostSteps {
			return
		}
		if len(r.Steps) == mostSteps {
			r.Steps = append(r.Steps, "and more")
			return
		}
		r.Steps = append(r.Steps, clip(words(step)))
	}
}

// Did adds what became of a plan to the record, but for the number of writes.
func (r *Record) Did(did plan.Outcome) {
	for _, result := range did.Results {
		if len(r.Outcome) == mostSteps {
			return
		}
		w := Write{Verb: result.Verb, Kind: kindOf(result.Object), Name: strings.Clone(result.Name),
			Subresource: result.Subresource}
		if result.Err != nil {
			w.Error = clip(result.Err.Error())
		}
		r.Outcome = append(r.Outcome, w)
	}
}

// failing reports whether the last reconcile has failed, or waits for a cache.
func (r *Record) failing() bool { return r.Error != "" || r.Waiting != "" }

// silent reports whether the record says nothing.
func (r *Record) silent() bool { return r.Why == "" && r.Wrote == 0 && !r.failing() }

// alike reports whether two records say the same.
func (r *Record) alike(other *Record) bool {
	return r.Why == other.Why && r.Held == other.Held && r.Error == other.Error && r.Waiting == other.Waiting &&
		r.Wrote == other.Wrote && slices.Equal(r.Steps, other.Steps) && slices.Equal(r.Outcome, other.Outcome)
}

// words says what a step does.
func words(step plan.Step) string {
	switch s := step.(type) {
	case plan.Create:
		copies := ""
		if s.Count > 1 {
			copies = fmt.Sprintf("%d copies of ", s.Count)
		}
		return because("create "+copies+reference(s.Object), s.Why)
	case plan.CreateAll:
		return because("create "+references(s.Objects), s.Why)
	case plan.Change:
		what := "change "
		if s.Subresource != "" {
			what += "the " + s.Subresource + " of "
		}
		return because(what+reference(s.New), s.Why)
	case plan.Delete:
		return because("delete "+references(s.Objects), s.Why)
	case plan.DeleteCollection:
		return because("delete all of kind "+s.Kind.Kind+" in "+s.Namespace, s.Why)
	case plan.RecordEvent:
		return "event " + s.Event.Reason + " about " + reference(s.Object)
	}
	return fmt.Sprintf("%T", step)
}

// Held says what a plan holds, and why; empty for nothing.
func Held(h plan.Hold) string {
	if h.What == "" {
		return ""
	}
	return clip(because(h.What, h.Why))
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// reference names an object, as in "Pod shop/web-1", or "Pod shop/web-*" if the server is to make up the name.
func reference(o plan.Object) string {
	name := o.GetName()
	if name == "" {
		name = o.GetGenerateName() + "*"
	}
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return kindOf(o) + " " + name
}

// references names the first objects of a list.
func references(all []plan.Object) string {
	var names []string
	for _, o := range all[:min(len(all), mostNames)] {
		names = append(names, reference(o))
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// kindOf returns the kind that an object says it is of. A typed object mostly says nothing, and its type is named
// after the kind.
func kindOf(o plan.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.Indirect(reflect.ValueOf(o)).Type().Name()
}

// clip cuts a text that is too long.
func clip(s string) string { return truncate.Text(s, mostText) }
