package simulation

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// In the environment of another process of TestASeedIsARun: the seeds that it runs, and the folder for what happened.
const (
	historiesOf = "SIM_HISTORIES_OF"
	historiesIn = "SIM_HISTORIES_IN"
)

// TestASeedIsARun runs 20 seeds twice in a process, and once in another process: there after others, in another order, and beside
// goroutines that have nothing to do with the simulation. The same must happen each time: as many versions, at the same times, by the same
// clients, with the same names, and the same requests.
func TestASeedIsARun(t *testing.T) {
	if seedBubble == nil {
		t.Skip("without the overlay of test/overlay a seed does not decide a run: make simulate")
	}
	if dir := os.Getenv(historiesIn); dir != "" {
		leaveHistories(t, dir)
		return
	}
	var seeds []uint64
	for n := range uint64(20) {
		seeds = append(seeds, 1001+n)
	}
	first := map[uint64][]string{}
	for _, seed := range seeds {
		first[seed] = history(t, seed)
	}
	for _, seed := range seeds {
		wantSame(t, fmt.Sprintf("seed %d again", seed), first[seed], history(t, seed))
	}
	others := []uint64{1, 2, 3}
	slices.Reverse(seeds)
	dir := inAnotherProcess(t, slices.Concat(others, seeds))
	for _, seed := range seeds {
		text, err := os.ReadFile(historyFile(dir, seed))
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, fmt.Sprintf("seed %d in another process", seed), first[seed], slices.Collect(strings.Lines(string(text))))
	}
}

// history runs a seed and returns what happened.
func history(t *testing.T, seed uint64) []string {
	return Run(t, random(seed), controllers.Registry).record.happened()
}

func historyFile(dir string, seed uint64) string {
	return filepath.Join(dir, strconv.FormatUint(seed, 10))
}

// wantSame shows where two runs of a seed part.
func wantSame(t *testing.T, which string, first, other []string) {
	if slices.Equal(first, other) {
		return
	}
	at := 0
	for at < min(len(first), len(other)) && first[at] == other[at] {
		at++
	}
	part := func(lines []string, from, to int) string {
		return strings.Join(lines[max(from, 0):min(to, len(lines))], "")
	}
	t.Errorf("%s is another run. The first %d lines are the same, and end with:\n%sThen comes at first:\n%sbut now:\n%s",
		which, at, part(first, at-10, at), part(first, at, at+10), part(other, at, at+10))
}

// inAnotherProcess runs seeds one after the other in a new process and returns the folder for what happened.
func inAnotherProcess(t *testing.T, seeds []uint64) (dir string) {
	dir = t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestASeedIsARun$")
	cmd.Env = append(os.Environ(), historiesIn+"="+dir, historiesOf+"="+strings.Trim(fmt.Sprint(seeds), "[]"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// leaveHistories is the work of the other process.
func leaveHistories(t *testing.T, dir string) {
	defer disturb()()
	for word := range strings.FieldsSeq(os.Getenv(historiesOf)) {
		seed, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(historyFile(dir, seed), []byte(strings.Join(history(t, seed), "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// disturb has goroutines outside of bubbles woken all the time, until the returned function is called: by timers that start goroutines,
// like those of idle connections, and by timers and pipes for which goroutines wait.
func disturb() (end func()) {
	const often = 100 * time.Microsecond
	var ended atomic.Bool
	var all sync.WaitGroup
	all.Add(1)
	var again func()
	again = func() {
		if ended.Load() {
			all.Done()
			return
		}
		time.AfterFunc(often, again)
	}
	again()
	read, write, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	all.Go(func() { _, _ = io.Copy(io.Discard, read) })
	all.Go(func() {
		defer write.Close()
		for !ended.Load() {
			time.Sleep(often)
			_, _ = write.Write([]byte("x"))
		}
	})
	return func() {
		ended.Store(true)
		all.Wait()
		_ = read.Close()
	}
}
