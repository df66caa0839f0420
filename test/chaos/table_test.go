package chaos

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/standalone-kcm/controller-manager/test/chaos/table"
	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// What a tally prints is what "make reliability" reads.
func TestTablesCanBeRead(t *testing.T) {
	y := &tally{faults: "faults: all of them", violations: map[string]int{}, broken: map[string]int{}, counts: oracle.Counts{},
		looked: map[string]int{}}
	y.count([]string{"S1", "S1"}, 7, oracle.Counts{"S1": {Judged: 3, Excused: 1}, "S2": {Judged: 2}, "S3": {Excused: 4}})
	y.count(nil, 5, oracle.Counts{"S1": {Judged: 4}})
	got, err := table.Parse(y.String())
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	rows := got[0].Rows
	if got[0].Faults != y.faults || got[0].Runs != 2 || got[0].Injections != 12 || len(rows) < len(oracle.All()) {
		t.Errorf("%+v", got[0])
	}
	want := map[string]table.Row{"S1": {Judged: 7, Violations: 2, Runs: 1}, "S2": {Judged: 2}, "S3": {}, unfinishedOracle: {Judged: 2}}
	for name, row := range want {
		if diff := cmp.Diff(row, rows[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
