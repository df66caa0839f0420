package simulation

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// hashesOf names, in the environment of another process of TestASeedIsARun, the seeds whose hashes it prints.
const hashesOf = "SIM_HASHES_OF"

// TestASeedIsARun runs 20 seeds twice in a process, once in another process, and there after others and in another order. The same
// must happen each time: as many versions, at the same times, by the same clients, with the same names.
func TestASeedIsARun(t *testing.T) {
	if seedBubble == nil {
		t.Skip("without the overlay of test/overlay a seed does not decide a run: make simulate")
	}
	if seeds := os.Getenv(hashesOf); seeds != "" {
		for seed := range strings.FieldsSeq(seeds) {
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("%s%d %x\n", hashLine, n, Run(t, random(n), controllers.Registry).Hash)
		}
		return
	}
	var seeds []uint64
	for n := range uint64(20) {
		seeds = append(seeds, 1001+n)
	}
	hashes := map[uint64]map[string]int{}
	note := func(seed uint64, hash string) {
		if hashes[seed] == nil {
			hashes[seed] = map[string]int{}
		}
		hashes[seed][hash]++
	}
	for _, seed := range slices.Concat(seeds, seeds) {
		note(seed, fmt.Sprintf("%x", Run(t, random(seed), controllers.Registry).Hash))
	}
	others := []uint64{1, 2, 3}
	slices.Reverse(seeds)
	for seed, hash := range inAnotherProcess(t, slices.Concat(others, seeds)) {
		note(seed, hash)
	}
	for _, seed := range seeds {
		if len(hashes[seed]) != 1 || slices.Collect(maps.Values(hashes[seed]))[0] != 3 {
			t.Errorf("seed %d: hashes and how often each came: %v", seed, hashes[seed])
		}
	}
}

const hashLine = "the hash of seed "

// inAnotherProcess returns the hashes of seeds that are run one after the other in a new process.
func inAnotherProcess(t *testing.T, seeds []uint64) map[uint64]string {
	cmd := exec.Command(os.Args[0], "-test.run=^TestASeedIsARun$")
	cmd.Env = append(os.Environ(), hashesOf+"="+strings.Trim(fmt.Sprint(seeds), "[]"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	hashes := map[uint64]string{}
	for line := range bytes.Lines(out) {
		rest, ok := strings.CutPrefix(string(line), hashLine)
		seed, hash, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if n, err := strconv.ParseUint(seed, 10, 64); ok && err == nil {
			hashes[n] = hash
		}
	}
	return hashes
}
