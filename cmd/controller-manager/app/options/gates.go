package options

import (
	_ "embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
)

//go:embed features.txt
var gatesOf136 string

type (
	gateSpecs = map[featuregate.Feature]featuregate.VersionedSpecs // what the gates were in each version
	gateNeeds = map[featuregate.Feature][]featuregate.Feature      // which others must be on for one to be on
)

// parseGates reads features.txt, whose head describes its form.
func parseGates(text string) (gateSpecs, gateNeeds) {
	specs, needs := gateSpecs{}, gateNeeds{}
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
