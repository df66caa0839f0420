package fixedseed

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// printed is the variable with which the test binary prints what a property draws.
const printed = "FIXEDSEED_PRINTED"

func TestPrintsWhatItDraws(t *testing.T) {
	if os.Getenv(printed) == "" {
		t.Skip("runs in processes that the other test starts")
	}
	rapid.Check(t, func(r *rapid.T) { t.Log("drawn", rapid.Uint64().Draw(r, "a number")) })
}

func TestRunsDrawTheSameUnlessASeedIsGiven(t *testing.T) {
	if os.Getenv(printed) != "" {
		t.Skip("would start itself")
	}
	drawn := func(env string, args ...string) []string {
		cmd := exec.Command(os.Args[0], append(args, "-test.run=TestPrintsWhatItDraws", "-test.v")...)
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RAPID_SEED=") }), printed+"=1",
			env)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var lines []string
		for line := range strings.Lines(string(out)) {
			if _, number, ok := strings.Cut(line, "drawn "); ok {
				lines = append(lines, number)
			}
		}
		if len(lines) < 10 {
			t.Fatalf("only %d numbers drawn:\n%s", len(lines), out)
		}
		return lines
	}
	usual := drawn("")
	if again := drawn(""); !slices.Equal(usual, again) {
		t.Errorf("two runs draw %v and %v", usual, again)
	}
	// Rapid takes its default from RAPID_SEED, with which a night runs this test.
	if _, given := os.LookupEnv("RAPID_SEED"); !given && flag.Lookup("rapid.seed").DefValue != "0" {
		t.Error("rapid is not random by default any more: this package is not needed")
	}
	for name, other := range map[string][]string{
		"RAPID_SEED=2": drawn("RAPID_SEED=2"), "-rapid.seed=2": drawn("", "-rapid.seed=2"), "RAPID_SEED=0": drawn("RAPID_SEED=0"),
	} {
		if slices.Equal(usual, other) {
			t.Errorf("%s draws the same", name)
		}
	}
}
