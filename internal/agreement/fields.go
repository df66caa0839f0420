package agreement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/truncate"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Bounds of what is kept of one planned write.
const (
	mostLeaves = 500     // fields that a change brings to new values
	mostTree   = 1 << 16 // bytes of an object that is created
	mostShown  = 120     // bytes of a value
	hidden     = "(hidden)"
)

// absent stands for a field that is not there; no JSON is like it.
const absent = "(none)"

// sameTime is how far apart two times may be that two managers have taken from their clocks for the same reason.
const sameTime = time.Minute

// aTime is one among the items of a list, which are compared as a whole.
var aTime = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^"]*"`)

// field is a value that a field is to have.
type field struct{ path, value string }

// ofServer are the fields of metadata that no manager decides.
var ofServer = []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink",
	"deletionTimestamp", "deletionGracePeriodSeconds"}

// remembered are fields that follow from what only a leader remembers.
var remembered = []string{"metadata.annotations.endpoints.kubernetes.io/last-change-trigger-time"}

// tree returns an object as JSON values, without what only the server sets; nil if it cannot be encoded.
func tree(o any) map[string]any {
	data, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	var all map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if decoder.Decode(&all) != nil {
		return nil
	}
	delete(all, "kind")
	delete(all, "apiVersion")
	if metadata, ok := all["metadata"].(map[string]any); ok {
		for _, name := range ofServer {
			delete(metadata, name)
		}
	}
	return all
}

// leaves returns the values of an object by the paths of their fields.
func leaves(of map[string]any) map[string]string {
	all := map[string]string{}
	addLeaves(all, "", of)
	return all
}

func addLeaves(all map[string]string, path string, of any) {
	switch of := of.(type) {
	case nil:
	case map[string]any:
		for name, value := range of {
			addLeaves(all, strings.TrimPrefix(path+"."+name, "."), value)
		}
	case []any:
		if key := keyOf(of); key != "" {
			for _, item := range of {
				item := item.(map[string]any)
				addLeaves(all, fmt.Sprintf("%s[%v]", path, item[key]), item)
			}
			return
		}
		texts := make([]string, len(of)) // in any order
		for i, item := range of {
			texts[i] = aTime.ReplaceAllString(encode(item), `"time"`)
		}
		slices.Sort(texts)
		if len(texts) > 0 {
			all[path] = "[" + strings.Join(texts, ",") + "]"
		}
	default:
		all[path] = encode(of)
	}
}

// keyOf returns the field by which the items of a list are told apart; empty if there is none.
func keyOf(list []any) string {
	for _, key := range []string{"uid", "type", "name"} {
		seen := map[string]bool{}
		for _, item := range list {
			object, _ := item.(map[string]any)
			name, ok := object[key].(string)
			if !ok || seen[name] {
				break
			}
			seen[name] = true
		}
		if len(list) > 0 && len(seen) == len(list) {
			return key
		}
	}
	return ""
}

func encode(v any) string {
	text, _ := json.Marshal(v) // it was decoded from JSON
	return string(text)
}

// changed returns the fields in which two objects differ, with the values of the second.
func changed(from, to plan.Object) []field {
	before := map[string]string{}
	if from != nil {
		before = leaves(tree(from))
	}
	after := leaves(tree(to))
	var all []field
	for path, value := range after {
		if before[path] != value {
			all = append(all, field{path, value})
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			all = append(all, field{path, absent})
		}
	}
	all = slices.DeleteFunc(all, func(f field) bool { return slices.Contains(remembered, f.path) })
	slices.SortFunc(all, func(a, b field) int { return strings.Compare(a.path, b.path) })
	return all[:min(len(all), mostLeaves)]
}

// differing returns the first field that does not have its value, and the value that it has.
func differing(want []field, have map[string]string) (first field, has string, differs bool) {
	for _, f := range want {
		if has := valueAt(have, f.path); !same(f.value, has) {
			return f, has, true
		}
	}
	return field{}, "", false
}

func valueAt(of map[string]string, path string) string {
	if value, ok := of[path]; ok {
		return value
	}
	return absent
}

// same reports whether two values mean the same: times differ from clock to clock, and a field without a value may
// be left out.
func same(a, b string) bool {
	if a == b || empty(a) && empty(b) {
		return true
	}
	first, ok := moment(a)
	second, both := moment(b)
	return ok && both && first.Sub(second).Abs() <= sameTime
}

func empty(value string) bool {
	return slices.Contains([]string{absent, `""`, "0", "false", "null"}, value)
}

func moment(value string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339Nano, strings.Trim(value, `"`))
	return at, err == nil
}

// lacking returns the first field of what was planned that an object lacks, with both values. What the object has
// beyond that is of the server, of admission, or of other writers.
func lacking(want, have any, path string) (at, planned, found string, lacks bool) {
	switch want := want.(type) {
	case nil:
	case map[string]any:
		object, _ := have.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			inner := strings.TrimPrefix(path+"."+name, ".")
			if slices.Contains(remembered, inner) {
				continue
			}
			if at, planned, found, lacks = lacking(want[name], object[name], inner); lacks {
				return at, planned, found, true
			}
		}
	case []any:
		list, _ := have.([]any)
		key := keyOf(want)
		for _, item := range want {
			if n := named(list, key, item); n >= 0 {
				inner := fmt.Sprintf("%s[%v]", path, item.(map[string]any)[key])
				if at, planned, found, lacks = lacking(item, list[n], inner); lacks {
					return at, planned, found, true
				}
				continue
			}
			if !slices.ContainsFunc(list, func(other any) bool {
				_, _, _, lacks := lacking(item, other, "")
				return !lacks
			}) {
				return path, encode(item), text(have), true
			}
		}
	default:
		if planned, found := encode(want), text(have); !same(planned, found) {
			return path, planned, found, true
		}
	}
	return "", "", "", false
}

// named returns where in a list the item is that has the same value of a key; -1 if there is none.
func named(list []any, key string, item any) int {
	if key == "" {
		return -1
	}
	return slices.IndexFunc(list, func(other any) bool {
		object, ok := other.(map[string]any)
		return ok && object[key] == item.(map[string]any)[key]
	})
}

func text(value any) string {
	if value == nil {
		return absent
	}
	return encode(value)
}

// private are parts of paths, in lower case, whose values people may keep credentials in.
var private = []string{"data", "env", "args", "command", "options", "volumeattributes", "httpheaders",
	"template"}

// shown returns a value for people, unless it may be a credential.
func shown(kind, path, value string) string {
	if value == absent {
		return value
	}
	for _, part := range strings.FieldsFunc(strings.ToLower(path), func(r rune) bool { return r == '.' || r == '[' }) {
		if slices.Contains(private, part) {
			return hidden
		}
	}
	if kind == "Secret" || strings.ContainsAny(value, "{}") && strings.Contains(path, "annotations") {
		return hidden // an annotation may have a whole object in it
	}
	return truncate.Text(value, mostShown)
}
