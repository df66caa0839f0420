package chaos

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// promises are the oracles that each test promises to ask: it fails if one of them has had nothing to judge.
var promises = map[string]string{
	"TestCrashAtEveryWrite": "S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S14 S15 S16 S17 S18 S19 S20 S21 S22 S23 S24 S25 S26 S27 S29 S30 S31 " +
		"S32 S33 S34 S35 S36 S37 S38 S39 S40 S41 S43 L1 L2 L3",
	"TestFaults": "S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15 S16 S17 S18 S19 S20 S21 S22 S23 S25 S26 S27 S29 S30 S31 " +
		"S32 S33 S34 S35 S36 S37 S38 S39 S40 S41 S43 L1 L2 L3 L4",
	"TestRandomFaults":      "S1 S3 S4 S5 S7 S9 S10 S14 S15 S18 S19 S30 S31 S32 S33 S34 S35 L1 L2 L3 L4",
	"TestStaleAPIServer":    "S1 S2 S3 S4 S5 S10 S14 L1 L2 L3 L4",
	"TestSoak":              "S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S13 S14 S15 S35 L1 L3 L5",
	"TestParallelEvictions": "S1 S14 S24 L1 L4",
	"TestRangesOfNodes":     "S26",
	"TestSilentNodes":       "S28",
}

// promisedOnce says why a second test does not promise an oracle.
var promisedOnce = map[string]string{
	"S28": "a node must be silent for half a minute, longer than kwok takes to renew Leases: TestSilentNodes has such nodes, and TestSoak " +
		"only by chance",
	"L5": "only TestSoak has two managers of which one takes over; test/simulation asks it of all scripts, too",
}

// TestEachOracleIsPromised: an oracle that had nothing to judge on a real control plane has proved nothing there.
func TestEachOracleIsPromised(t *testing.T) {
	ids := []string{"L2", "L4", "L5"} // that are no part of a history
	for _, o := range oracle.All() {
		ids = append(ids, o.ID)
	}
	by := map[string][]string{}
	for test, promised := range promises {
		for _, id := range strings.Fields(promised) {
			if by[id] = append(by[id], test); !slices.Contains(ids, id) {
				t.Errorf("%s promises %s, which is no oracle", test, id)
			}
		}
	}
	for _, id := range ids {
		reason, excused := promisedOnce[id]
		switch n := len(by[id]); {
		case n >= 2 && excused:
			t.Errorf("%v promise %s, so it needs no reason", by[id], id)
		case n < 2 && len(reason) < 40:
			t.Errorf("%s is promised by %v: two tests promise each oracle, or promisedOnce says why not", id, by[id])
		}
	}
}

// TestPromisesAreKeptByTests: each name in the list is that of a test, which counts by newTally.
func TestPromisesAreKeptByTests(t *testing.T) {
	all := ""
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f.Name()); err == nil && strings.HasSuffix(f.Name(), "_test.go") {
			all += string(text)
		}
	}
	for test := range promises {
		body := regexp.MustCompile(`(?ms)^func ` + test + `\(t \*testing\.T\) \{.*?^\}`).FindString(all)
		if !strings.Contains(body, "newTally(") {
			t.Errorf("%s is no test that counts", test)
		}
	}
}
