package suite

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
)

// always run in scripts with a focus: nodes go, and so do owners and namespaces.
var always = []string{"pod-garbage-collector-controller", "garbage-collector-controller", "namespace-controller"}

// RandomFocused returns the script of a seed in which users are busy with the objects of three to five controllers, and only these and
// those that they need run. Their mistakes show more often than among all controllers.
func RandomFocused(seed uint64) script.Script {
	random := rand.New(rand.NewPCG(seed, 9))
	entries := withChoices()
	random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	running, mix := focusOn(entries[:3+random.IntN(3)])
	return mix.Focused(seed, running)
}

// RandomAround returns the script of a seed that stays with one controller, and at times another one: users do much to few of its objects,
// and faults meet the resources that it has rights for. It finds the mistakes of the controller sooner than RandomFocused does.
func RandomAround(controller string, rights rbac.Rights, seed uint64) script.Script {
	random := rand.New(rand.NewPCG(seed, 12))
	chosen := []Entry{entryOf(controller)}
	if random.IntN(4) == 0 {
		others := withChoices()
		chosen = append(chosen, others[random.IntN(len(others))])
	}
	running, mix := focusOn(chosen)
	for range 2 {
		mix.Choices = append(mix.Choices, chosen[0].Choices...)
	}
	for _, name := range chosen[0].Needs { // what happens to these objects concerns the controller
		mix.Choices = append(mix.Choices, entryOf(name).Choices...)
	}
	return mix.Around(seed, running, resourcesOf(rights))
}

func withChoices() []Entry {
	return slices.DeleteFunc(Entries(), func(e Entry) bool { return len(e.Choices) == 0 })
}

// focusOn returns the controllers that run in scripts about some entries, and what users do in them.
func focusOn(chosen []Entry) (running []string, mix workload.Mix) {
	running = slices.Clone(always)
	for _, e := range chosen {
		running = append(running, e.Controller)
	}
	for i := 0; i < len(running); i++ { // it grows
		needs := entryOf(running[i]).Needs
		running = append(running,
			slices.DeleteFunc(slices.Clone(needs), func(name string) bool { return slices.Contains(running, name) })...)
	}
	slices.Sort(running)
	for _, e := range Entries() { // in their order, with what makes the objects that the chosen ones need
		if e.Begin != nil && slices.Contains(running, e.Controller) {
			mix.Begin = append(mix.Begin, e.Begin)
		}
		if slices.ContainsFunc(chosen, func(c Entry) bool { return c.Controller == e.Controller }) {
			mix.Choices = append(mix.Choices, e.Choices...)
		}
	}
	return slices.Compact(running), mix
}

// resourcesOf are those that a controller reads and writes; none if it may do so with all.
func resourcesOf(rights rbac.Rights) (names []string) {
	for _, r := range rights.Caches {
		names = append(names, r.Name)
	}
	for _, r := range rights.Own {
		name, _, _ := strings.Cut(r.Resource, "/")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "events" || name == "*" })
}

func entryOf(controller string) Entry {
	entries := Entries()
	return entries[slices.IndexFunc(entries, func(e Entry) bool { return e.Controller == controller })]
}
