package simulation

import (
	"flag"
	"strconv"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

var mutantsFlag = flag.String("mutants", "", "for TestMutants: the numbers of the known mistakes to run, separated by commas")

// switchMutant switches a known mistake on, and all others off. It is nil if the program was compiled without the overlay of
// test/overlay.
var switchMutant func(name string)

// TestMutants runs the scripts of known mistakes, each with its mistake, for test/mutation, which reads what the oracles say.
func TestMutants(t *testing.T) {
	if *mutantsFlag == "" {
		t.Skip("for test/mutation: give it -mutants")
	}
	if switchMutant == nil {
		t.Fatal("this was compiled without mutants")
	}
	mutants := suite.Mutants()
	for number := range strings.SplitSeq(*mutantsFlag, ",") {
		t.Run(number, func(t *testing.T) {
			n, err := strconv.Atoi(number)
			if err != nil || n < 0 || n >= len(mutants) {
				t.Fatalf("there is no mutant %s", number)
			}
			s, err := script.Parse(strings.NewReader("seed 1\n" + mutants[n].Script))
			if err != nil {
				t.Fatal(err)
			}
			switchMutant(mutants[n].Name)
			defer switchMutant("")
			replay(t, s)
		})
	}
}
