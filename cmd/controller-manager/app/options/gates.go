package options

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/features"
)

// quietGate keeps to itself what a gate has to say about values that are set, until there is a log to say it to. Of
// what it is given it hands on only what decides something: command lines outlive releases, so gates that are gone or
// locked do not stop the process (CLI-28).
type quietGate struct {
	featuregate.MutableVersionedFeatureGate
	loud     featuregate.MutableFeatureGateWithLogger // the same gate
	known    map[featuregate.Feature]features.Gate
	set      []string // as given
	handedOn []string // the items of it that decide something
}

// Set implements featuregate.MutableFeatureGate. The version to emulate is known by then.
func (g *quietGate) Set(value string) error {
	g.set = append(g.set, value)
	for item := range strings.SplitSeq(value, ",") {
		if name, on, ok := parseItem(item); ok {
			if _, found := g.remark(name, on); found {
				continue
			}
		}
		g.handedOn = append(g.handedOn, item) // the library says what is wrong with it
	}
	return g.loud.SetWithLogger(klog.Logger{}, strings.Join(g.handedOn, ","))
}

// parseItem reads `Name=true`.
func parseItem(item string) (name string, on, ok bool) {
	name, value, ok := strings.Cut(item, "=")
	on, err := strconv.ParseBool(strings.TrimSpace(value))
	return strings.TrimSpace(name), on, ok && err == nil
}

// given returns the gates that were given, with the last value of each. Values that are no booleans are off.
func (g *quietGate) given() map[string]bool {
	all := map[string]bool{}
	for _, value := range g.set {
		for item := range strings.SplitSeq(value, ",") {
			if name, on, _ := parseItem(item); name != "" {
				all[name] = on
			}
		}
	}
	return all
}

// switchedOff reports whether the last value that was given for the gate is false.
func (g *quietGate) switchedOff(name string) bool {
	on, given := g.given()[name]
	return given && !on
}

// withoutEffect are the gates that were given and change nothing here, but for those that a remark names.
func (g *quietGate) withoutEffect() (names []string) {
	for name, on := range g.given() {
		if _, found := g.remark(name, on); !found && !slices.Contains(obeyed, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// remark is what there is to say about a gate that was given, but can no longer be switched, or not yet.
type remark struct{ gate, because, meaning, advice string }

// remarks has one for each gate of that kind, in the order of their names.
func (g *quietGate) remarks() (all []remark) {
	given := g.given()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if r, found := g.remark(name, given[name]); found {
			all = append(all, r)
		}
	}
	return all
}

// remark returns what there is to say about a gate with a value, and whether there is anything.
func (g *quietGate) remark(name string, on bool) (r remark, found bool) {
	known, exists := g.known[featuregate.Feature(name)]
	stage, began := known.At(g.EmulationVersion())
	locked, isLocked := known.Locked()
	switch {
	case !exists:
		return r, false
	case !began:
		r.because = fmt.Sprintf("it begins in %s, and features here are those of %s", known.Stages[0].Version,
			minor(g.EmulationVersion()))
		r.advice = "keep it if other components need it"
	case !on && slices.Contains(neededGates, clientfeatures.Feature(name)) && !stage.LockToDefault:
		r.because = "it is always on here: controllers need it to know whether their caches show what they have written"
		r.advice = "leave it out"
	case stage.LockToDefault, decidesNothing(name) && (isLocked || known.Removed != ""):
		r.because, r.meaning, r.advice = gone(known, locked, isLocked), known.Meaning, "leave it out"
		if isLocked && on != locked.Default {
			r.advice = "leave it out: what it asks for cannot be had any more"
		}
	default:
		return r, false
	}
	r.gate = fmt.Sprintf("%s=%t", name, on)
	return r, true
}

// decidesNothing reports whether the value of a gate that can be switched changes nothing here.
func decidesNothing(name string) bool {
	return !slices.Contains(obeyed, name) && !slices.Contains(alwaysOn, name)
}

// gone says since when a gate cannot be switched.
func gone(gate features.Gate, locked featuregate.FeatureSpec, isLocked bool) (because string) {
	if isLocked {
		because = fmt.Sprintf("it is always %s since %s", map[bool]string{true: "on", false: "off"}[locked.Default],
			locked.Version)
	}
	if gate.Removed != "" {
		because = strings.TrimPrefix(because+", and removed in "+gate.Removed, ", and ")
	}
	return because
}

// minor is a version without its patch.
func minor(v *version.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }
