package selection

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestNamesAreThoseOfTheContract compares all names and aliases, and which are off by default, with the contract's table
// (REG-1..54, CLI-53, CLI-55).
func TestNamesAreThoseOfTheContract(t *testing.T) {
	table, err := os.ReadFile("../../../../../docs/contract/registry.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []controller
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(line, "|")
		if len(cells) != 9 || !strings.HasPrefix(cells[1], " REG-") {
			continue
		}
		want = append(want, controller{
			name: strings.TrimSpace(cells[2]), alias: strings.TrimSpace(cells[3]), offByDefault: strings.TrimSpace(cells[4]) == "**off**",
		})
	}
	byName := func(a, b controller) int { return cmp.Compare(a.name, b.name) }
	slices.SortFunc(want, byName)
	got := slices.SortedFunc(slices.Values(upstream), byName)
	for i := range got {
		got[i].needed, got[i].flag, got[i].elsewhere = "", "", "" // which the table does not have
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(controller{})); diff != "" {
		t.Errorf("(- want, + got):\n%s", diff)
	}
}
