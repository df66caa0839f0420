package plantest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Failer is a test or the check of a property.
type Failer interface {
	Helper()
	Fatal(...any)
	Errorf(string, ...any)
}

// Same fails the test unless two plans ask for the same: the same live reads, the same writes and events in the same
// order, for the same reason, and the same time of the next reconcile.
func Same(t Failer, want, got plan.Plan) {
	t.Helper()
	if diff := cmp.Diff(want.Proof, got.Proof); diff != "" {
		t.Errorf("asks for other live reads: %s", diff)
	}
	if diff := cmp.Diff(Writes(want), Writes(got)); diff != "" || want.Why != got.Why || want.Requeue != got.Requeue {
		t.Errorf("%q, again in %v; and then %q, again in %v:\n%s", want.Why, want.Requeue, got.Why, got.Requeue, diff)
	}
}

// Writes returns a plan as text, with a line for each object that is written and for each event. Of changes it has
// what differs, so that the plans from whole objects and from those of a cache that keeps less have the same text.
func Writes(p plan.Plan) []string { return writes("", p.Steps) }

func writes(indent string, steps []plan.Step) (lines []string) {
	line := func(words ...any) { lines = append(lines, indent+strings.TrimSuffix(fmt.Sprintln(words...), "\n")) }
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Create:
			line("create", s.Count, s.IfAbsent, named(s.Object), text(s.Object), s.Events)
		case plan.CreateAll:
			for _, o := range s.Objects {
				line("create", named(o), text(o), s.Events)
			}
		case plan.Change:
			before, after := s.Old, s.New
			if before == nil {
				before = reflect.New(reflect.TypeOf(after).Elem()).Interface().(plan.Object)
			}
			line("change", s.Kind.Kind, s.Subresource, named(after), s.Adopt, s.CheckVersion, s.Touch, s.Sign,
				text(s.Apply), s.Events)
			for _, difference := range differences("", tree(before), tree(after)) {
				line(" ", difference)
			}
		case plan.Delete:
			for _, o := range s.Objects {
				line("delete", named(o), text(s.Grace), s.CheckVersion, s.Propagation, s.Evict, s.Events)
			}
		case plan.DeleteCollection:
			line("delete all", s.Kind, s.Namespace, s.Propagation)
		case plan.Each:
			for _, sequence := range s.Sequences {
				line("at once")
				lines = append(lines, writes(indent+"  ", sequence)...)
			}
		case plan.RecordEvent:
			line("event", named(s.Object), s.Event)
		default:
			panic(fmt.Sprintf("a step that has no text: %T", step))
		}
	}
	return lines
}

func named(o plan.Object) string {
	return fmt.Sprintf("%s %s/%s%s %q", reflect.TypeOf(o).Elem().Name(), o.GetNamespace(), o.GetName(),
		o.GetGenerateName(), o.GetUID())
}

// differences are the fields that differ. Of lists they are the items that only one of them has, as patches of
// lists are by items.
func differences(path string, before, after any) (all []string) {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	switch was := before.(type) {
	case map[string]any:
		if is, ok := after.(map[string]any); ok {
			keys := maps.Clone(was)
			maps.Copy(keys, is)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				all = append(all, differences(path+"/"+key, was[key], is[key])...)
			}
			return all
		}
	case []any:
		if is, ok := after.([]any); ok {
			for _, item := range lacking(was, is) {
				all = append(all, path+" - "+text(item))
			}
			for _, item := range lacking(is, was) {
				all = append(all, path+" + "+text(item))
			}
			if len(all) == 0 {
				all = append(all, path+" in another order")
			}
			return all
		}
	case nil:
		if list, ok := after.([]any); ok {
			return differences(path, []any{}, list)
		}
	}
	if list, ok := before.([]any); ok && after == nil {
		return differences(path, list, []any{})
	}
	return []string{fmt.Sprintf("%s = %s", path, text(after))}
}

// lacking are the items of a list that the other one lacks.
func lacking(list, other []any) []any {
	return slices.DeleteFunc(slices.Clone(list), func(item any) bool {
		return slices.ContainsFunc(other, func(o any) bool { return reflect.DeepEqual(item, o) })
	})
}

// tree is an object as JSON has it.
func tree(o any) (all any) {
	if err := json.Unmarshal([]byte(text(o)), &all); err != nil {
		panic(err)
	}
	return all
}

func text(o any) string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Kept returns an object as a cache has it that keeps less than the whole: a projection.Projection says what. Of
// nil it returns nil.
func Kept[T interface {
	plan.Object
	comparable
}](t Failer, cache interface {
	Project(runtime.Object) (runtime.Object, error)
}, o T) T {
	t.Helper()
	var none T
	if o == none {
		return o
	}
	kept, err := cache.Project(o)
	if err != nil {
		t.Fatal(err)
	}
	return kept.(T)
}
