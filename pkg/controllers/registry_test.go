package controllers

import (
	"slices"
	"testing"
)

// Of pods, the caches keep only some fields, so a controller may patch them and must not replace them: api.MethodFor would
// choose an update for a controller that declares no right to patch.
func TestPodsAreOnlyPatched(t *testing.T) {
	for _, entry := range Registry() {
		for _, rule := range entry.Rights().Own {
			if (rule.Resource == "pods" || rule.Resource == "pods/status") && slices.Contains(rule.Verbs, "update") {
				t.Errorf("%s declares that it updates %s", entry.Name, rule.Resource)
			}
		}
	}
}

func TestEachCallReturnsOptionsOfItsOwn(t *testing.T) {
	a, b := Registry(), Registry()
	for i := range a {
		if a[i].Options == b[i].Options {
			t.Errorf("two registries share the options of %s", a[i].Name)
		}
	}
}
