package explain

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Bounds of a detail. What is larger is left out, and the text in its place says how large it is.
const (
	mostBytes  = 1 << 20       // of the snapshot, and of each object of a plan
	mostOfPlan = 8 * mostBytes // of all objects of a plan together
	// objects in a snapshot: no object takes fewer bytes, and to encode them all would take much memory
	mostInside   = mostBytes / 64
	mostVersions = 1000
	mostObjects  = 20 // of one step that are shown whole
)

// Detail is what there is about a key at one moment, and what would be done about it.
type Detail struct {
	Observed time.Time       `json:"observed"`
	Versions []Version       `json:"versions,omitempty"` // of the objects in the snapshot
	Snapshot json.RawMessage `json:"snapshot"`
	Decision json.RawMessage `json:"decision,omitempty"`
	Plan     Plan            `json:"plan"`
	// nil if there is none, or if it depends on what becomes of the plan
	Report *Plan `json:"report,omitempty"`
}

// Version reports which version of an object was seen.
type Version struct {
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Plan is a [plan.Plan].
type Plan struct {
	Why   string   `json:"why"`
	Next  Seconds  `json:"nextReconcileSeconds"`
	Proof []string `json:"proof,omitempty"` // what is read live before the steps are carried out
	Held  string   `json:"held,omitempty"`  // what is held until there is proof, and why
	Steps []Step   `json:"steps"`
}

// Step is a [plan.Step].
type Step struct {
	Does    string            `json:"does"`              // in a few words, as in a Record
	Objects []json.RawMessage `json:"objects,omitempty"` // that are created or applied
	Deleted []Version         `json:"deleted,omitempty"` // objects that are deleted
	Patch   json.RawMessage   `json:"patch,omitempty"`   // what changes
	// what is put in right before the change is sent, such as a signature
	Sign      []string `json:"sign,omitempty"`
	Sequences [][]Step `json:"sequences,omitempty"` // that do not stop one another
}

// Mapping returns how objects of a kind are addressed.
type Mapping func(schema.GroupVersionKind) (client.Mapping, error)

// NewDetail makes one of the parts of a reconcile. The report may be nil.
func NewDetail(now time.Time, snapshot, decision any, p plan.Plan, report *plan.Plan, mapping Mapping) Detail {
	d := Detail{Observed: now, Decision: described(decision), Plan: planned(p, mapping)}
	var objects int
	if d.Versions, objects = versions(snapshot); objects > mostInside {
		d.Snapshot = text(fmt.Sprintf("%s: %d objects", leftOut, objects))
	} else {
		d.Snapshot = masked(snapshot)
	}
	if report != nil {
		r := planned(*report, mapping)
		d.Report = &r
	}
	return d
}

func planned(p plan.Plan, mapping Mapping) Plan {
	w := writer{mapping: mapping, left: mostOfPlan}
	shown := Plan{Why: clip(p.Why), Next: Seconds(p.Requeue), Held: Held(p.Hold), Steps: w.steps(p.Steps)}
	for _, ref := range p.Proof[:min(len(p.Proof), mostVersions)] {
		shown.Proof = append(shown.Proof, ref.String())
	}
	return shown
}

// writer shows the steps of one plan.
type writer struct {
	mapping Mapping
	left    int // bytes that may be shown of objects
}

func (w *writer) steps(all []plan.Step) []Step {
	shown := make([]Step, 0, len(all))
	for _, one := range all[:min(len(all), mostVersions)] {
		step := Step{Does: clip(words(one))}
		switch s := one.(type) {
		case plan.Create:
			step.Objects = w.whole(s.Object)
		case plan.CreateAll:
			step.Objects = w.whole(s.Objects...)
		case plan.Change:
			step.Sign = s.Sign
			if s.Apply != nil || s.Old == nil {
				step.Objects = w.whole(s.New)
			} else {
				step.Patch = w.difference(s)
			}
		case plan.Delete:
			for _, o := range s.Objects[:min(len(s.Objects), mostVersions)] {
				step.Deleted = append(step.Deleted, versionOf(o))
			}
		case plan.Each:
			step.Does = "each"
			for _, sequence := range s.Sequences[:min(len(s.Sequences), mostVersions)] {
				step.Sequences = append(step.Sequences, w.steps(sequence))
			}
		}
		shown = append(shown, step)
	}
	if more := len(all) - len(shown); more > 0 {
		shown = append(shown, Step{Does: fmt.Sprintf("and %d more", more)})
	}
	return shown
}

func (w *writer) whole(all ...plan.Object) (shown []json.RawMessage) {
	for _, o := range all[:min(len(all), mostObjects)] {
		shown = append(shown, w.masked(o))
	}
	return shown
}

// masked is [masked] of a value, unless too much was shown already.
func (w *writer) masked(v any) json.RawMessage {
	if w.left <= 0 {
		return text(leftOut + ": the plan is large")
	}
	data := masked(v)
	w.left -= len(data)
	return data
}

// difference returns what a change sends.
func (w *writer) difference(s plan.Change) json.RawMessage {
	kind, err := s.Kind, error(nil)
	if kind.Empty() {
		kind, err = client.KindOf(s.New)
	}
	if err != nil {
		return text(err.Error())
	}
	m, err := w.mapping(kind)
	if err != nil {
		return text(err.Error())
	}
	patch, err := m.Difference(s.Old, s.New, client.WriteOptions{Touch: s.Touch})
	switch {
	case err != nil:
		return text(err.Error())
	case patch.Data == nil:
		return nil
	}
	return w.masked(json.RawMessage(patch.Data))
}

func versionOf(o plan.Object) Version {
	return Version{Kind: kindOf(o), Namespace: o.GetNamespace(), Name: o.GetName(),
		ResourceVersion: o.GetResourceVersion()}
}

// versions lists the versions of the first objects in a snapshot, and counts all.
func versions(snapshot any) (all []Version, total int) {
	seen := map[plan.Object]bool{}
	walk(open(snapshot), deepest, func(o plan.Object) {
		if seen[o] {
			return
		}
		seen[o] = true
		if len(all) < mostVersions {
			all = append(all, versionOf(o))
		}
	})
	return all, len(seen)
}

// walk visits the objects in a value.
func walk(v reflect.Value, depth int, visit func(plan.Object)) {
	if o, ok := object(v); ok {
		visit(o)
		return
	}
	if depth == 0 || !v.IsValid() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		walk(v.Elem(), depth-1, visit)
	case reflect.Struct:
		for i := range v.NumField() {
			walk(field(v, i), depth-1, visit)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			walk(v.Index(i), depth-1, visit)
		}
	case reflect.Map:
		for _, key := range sortedKeys(v) {
			walk(v.MapIndex(key), depth-1, visit)
		}
	}
}
