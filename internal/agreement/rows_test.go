package agreement

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each row that explains something is on the page, and names a controller.
func TestRowsAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/parity.md")
	if err != nil {
		t.Fatal(err)
	}
	var facts []string
	for line := range strings.Lines(string(page)) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok {
			facts = append(facts, regexp.MustCompile(`[A-Z]+[0-9]*-\d+[a-z]?`).FindAllString(first, -1)...)
		}
	}
	for _, r := range rows {
		if !slices.Contains(facts, r.id) || r.controller == "" {
			t.Errorf("%+v: docs/parity.md has no such row, or no controller is named", r)
		}
	}
}

func TestRowsExplainOnlyWhatTheySay(t *testing.T) {
	d := Disagreement{Controller: "daemonset-controller", verb: "delete", kind: "Pod", Rule: Otherwise, Field: "metadata.name"}
	if rowOf(d) != "DS-61" {
		t.Errorf("%+v is explained by %q", d, rowOf(d))
	}
	for _, change := range []func(*Disagreement){
		func(d *Disagreement) { d.Controller = "job-controller" },
		func(d *Disagreement) { d.verb = "create" },
		func(d *Disagreement) { d.kind = "ControllerRevision" },
		func(d *Disagreement) { d.Rule = NotDone },
		func(d *Disagreement) { d.Field = "" },
	} {
		other := d
		if change(&other); rowOf(other) != "" {
			t.Errorf("%+v is explained by %q", other, rowOf(other))
		}
	}
}
