package features

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
	binary "k8s.io/component-base/version"
)

//go:embed features.txt
var text string

// Gate is what there is to know of a feature gate.
type Gate struct {
	Stages  featuregate.VersionedSpecs // what it was in each version, the oldest first
	Needs   []featuregate.Feature      // the gates that must be on for it to be on
	Removed string                     // the version that no longer knows it, such as 1.37; empty if there is none
	Meaning string                     // what is so where it is on; only of those that are locked or removed
}

// At returns the stage of the gate in a version, and whether there was such a gate then.
func (g Gate) At(v *version.Version) (stage featuregate.FeatureSpec, existed bool) {
	for _, s := range g.Stages {
		if s.Version.GreaterThan(v) {
			break
		}
		stage, existed = s, true
	}
	return stage, existed
}

// Locked returns the stage since which the gate cannot be switched, and whether there is one.
func (g Gate) Locked() (stage featuregate.FeatureSpec, ok bool) {
	for _, s := range g.Stages {
		if s.LockToDefault {
			return s, true
		}
	}
	return stage, false
}

// All returns all gates. The head of features.txt describes the form of what it reads.
func All() map[featuregate.Feature]Gate {
	all := map[featuregate.Feature]Gate{}
	for line := range strings.Lines(text) {
		facts, meaning, _ := strings.Cut(line, "|")
		fields := strings.Fields(facts)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		all[featuregate.Feature(fields[0])] = parseGate(fields[1:], strings.TrimSpace(meaning))
	}
	return all
}

// Library returns the gates in the form in which the library of Kubernetes takes them.
func Library() (map[featuregate.Feature]featuregate.VersionedSpecs, map[featuregate.Feature][]featuregate.Feature) {
	specs, needs := map[featuregate.Feature]featuregate.VersionedSpecs{},
		map[featuregate.Feature][]featuregate.Feature{}
	for name, gate := range All() {
		specs[name] = gate.Stages
		if len(gate.Needs) > 0 {
			needs[name] = gate.Needs
		}
	}
	return specs, needs
}

// defaults are the gates that are on in this version if nobody has switched them, and those that are off.
var defaults = sync.OnceValue(func() map[string]bool {
	gate := featuregate.NewVersionedFeatureGate(version.MustParse(binary.DefaultKubeBinaryVersion))
	specs, _ := Library()
	if err := gate.AddVersioned(specs); err != nil {
		panic(fmt.Sprintf("features.txt: %v", err)) // a test would have seen it
	}
	on := map[string]bool{}
	for name := range specs {
		on[string(name)] = gate.Enabled(name)
	}
	return on
})

// Default reports whether a gate is on if nobody has switched it, and whether there is such a gate.
func Default(gate string) (on, known bool) {
	on, known = defaults()[gate]
	return on, known
}

// parseGate reads what stands behind the name of a gate.
func parseGate(fields []string, meaning string) Gate {
	gate := Gate{Meaning: meaning}
	for _, field := range fields {
		if needs, ok := strings.CutPrefix(field, "needs="); ok {
			for need := range strings.SplitSeq(needs, ",") {
				gate.Needs = append(gate.Needs, featuregate.Feature(need))
			}
		} else if removed, ok := strings.CutPrefix(field, "removed="); ok {
			gate.Removed = removed
		} else {
			gate.Stages = append(gate.Stages, parseStage(field))
		}
	}
	return gate
}

// parseStage reads `1.36:beta:on` and `1.31:GA:on:locked`.
func parseStage(field string) featuregate.FeatureSpec {
	parts := strings.Split(field, ":")
	if len(parts) < 3 {
		panic(fmt.Sprintf("features.txt: %q", field)) // a test would have seen it
	}
	spec := featuregate.FeatureSpec{
		Version:       version.MustParse(parts[0]),
		Default:       parts[2] == "on",
		LockToDefault: len(parts) > 3,
	}
	switch parts[1] {
	case "alpha":
		spec.PreRelease = featuregate.Alpha
	case "beta":
		spec.PreRelease = featuregate.Beta
	case "GA":
		spec.PreRelease = featuregate.GA
	case "deprecated":
		spec.PreRelease = featuregate.Deprecated
	default:
		panic(fmt.Sprintf("features.txt: %q", field))
	}
	return spec
}
