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

// All returns what all gates were in each version, and which others must be on for one to be on. The head of
// features.txt describes the form of what it reads.
func All() (map[featuregate.Feature]featuregate.VersionedSpecs, map[featuregate.Feature][]featuregate.Feature) {
	specs, needs := map[featuregate.Feature]featuregate.VersionedSpecs{},
		map[featuregate.Feature][]featuregate.Feature{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		name := featuregate.Feature(fields[0])
		for _, field := range fields[1:] {
			if list, ok := strings.CutPrefix(field, "needs="); ok {
				for need := range strings.SplitSeq(list, ",") {
					needs[name] = append(needs[name], featuregate.Feature(need))
				}
				continue
			}
			specs[name] = append(specs[name], parseStage(field))
		}
	}
	return specs, needs
}

// defaults are the gates that are on in this version if nobody has switched them, and those that are off.
var defaults = sync.OnceValue(func() map[string]bool {
	gate := featuregate.NewVersionedFeatureGate(version.MustParse(binary.DefaultKubeBinaryVersion))
	specs, _ := All()
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
