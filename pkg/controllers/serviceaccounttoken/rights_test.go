package serviceaccounttoken

import (
	"slices"
	"testing"
)

// Secrets with tokens are made by users: the controller fills them, and takes references to those that are gone out of
// ServiceAccounts. It may not create any.
func TestTOK27CreatesNoSecret(t *testing.T) {
	for _, rule := range Rights().Own {
		if slices.Contains(rule.Verbs, "create") || slices.Contains(rule.Verbs, "patch") {
			t.Errorf("%s: %v", rule.Resource, rule.Verbs)
		}
	}
	s := scene{Secret: secret(), Account: account("a1"), Bundle: "CA"}
	if p := planSecret(epoch, s.snapshot()); len(p.Steps) != 1 || s.done(p) != "ca.crt=CA namespace=shop token=T" {
		t.Errorf("besides the Secret something else is written: %+v", p.Steps)
	}
}
