package fixedseed

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // has the flag
)

// Seed is the one that is set.
const Seed = "1"

func init() {
	if _, given := os.LookupEnv("RAPID_SEED"); given {
		return
	}
	if err := flag.Set("rapid.seed", Seed); err != nil { // the command line, which is parsed later, overrides it
		panic(err)
	}
}
