package table

import (
	"strings"
	"testing"
)

func TestRender(t *testing.T) {
	ours := &Tally{Manager: "controller-manager", Faults: "faults for 3s", Runs: 26, Injections: 658,
		Rows: map[string]Row{"S1": {Judged: 12}, "S10": {Judged: 7}, "S2": {}, "L1": {Judged: 3}, "end": {Judged: 26}}}
	original := &Tally{Runs: 25, Injections: 599, Rows: map[string]Row{"S1": {Judged: 14, Violations: 2, Runs: 1}, "S10": {Judged: 9}}}
	soak := &Tally{Faults: "soak", Runs: 4, Injections: 9, Rows: map[string]Row{"S1": {Judged: 5}}}
	want := strings.TrimSpace(`
| | what was done | runs: ours / original | faults injected: ours / original |
|---|---|---|---|
| faults | faults for 3s | 26 / 25 | 658 / 599 |
| soak | soak | 4 / not run | 9 / not run |

| oracle | faults | soak |
|---|---|---|
| S1 | 0 of 12 / **2** of 14 (1) | 0 of 5 / not run |
| S2 | - / - | - / not run |
| S10 | 0 of 7 / 0 of 9 | - / not run |
| L1 | 0 of 3 / - | - / not run |
| end | 0 of 26 / - | - / not run |
`) + "\n"
	if got := Render([]Suite{{"faults", ours, original}, {"soak", soak, nil}}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParseRefusesWhatIsNoTable(t *testing.T) {
	for _, text := range []string{"| S1 | x | 1 | 2 | 3 | 4 |", "### a: b\n| S1 | x | 1 |", "### a: b\n| S1 | x | one | 2 | 3 | 4 |",
		"### a: b\nsome runs"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
