package suite

import (
	"math/rand/v2"
	"slices"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
)

// always run in scripts with a focus: nodes go, and so do owners and namespaces.
var always = []string{"pod-garbage-collector-controller", "garbage-collector-controller", "namespace-controller"}

// RandomFocused returns the script of a seed in which users are busy with the objects of three to five controllers, and only these and
// those that they need run. Their mistakes show more often than among all controllers.
func RandomFocused(seed uint64) script.Script {
	random := rand.New(rand.NewPCG(seed, 9))
	entries := slices.DeleteFunc(Entries(), func(e Entry) bool { return len(e.Choices) == 0 })
	random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	chosen := entries[:3+random.IntN(3)]
	controllers := slices.Clone(always)
	for _, e := range chosen {
		controllers = append(controllers, e.Controller)
	}
	for i := 0; i < len(controllers); i++ { // it grows
		needs := entryOf(controllers[i]).Needs
		controllers = append(controllers, slices.DeleteFunc(slices.Clone(needs), func(name string) bool { return slices.Contains(controllers, name) })...)
	}
	slices.Sort(controllers)
	var mix workload.Mix
	for _, e := range Entries() { // in their order, with what makes the objects that the chosen ones need
		if e.Begin != nil && slices.Contains(controllers, e.Controller) {
			mix.Begin = append(mix.Begin, e.Begin)
		}
		if slices.ContainsFunc(chosen, func(c Entry) bool { return c.Controller == e.Controller }) {
			mix.Choices = append(mix.Choices, e.Choices...)
		}
	}
	return mix.Focused(seed, slices.Compact(controllers))
}

func entryOf(controller string) Entry {
	entries := Entries()
	return entries[slices.IndexFunc(entries, func(e Entry) bool { return e.Controller == controller })]
}
