package mutation

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/suite"
)

var (
	randomSeeds = flag.Int("seeds", 0,
		"how many random scripts TestMutantsAtRandom runs with each mutant at most; by default as many as mutants need that are found soon")
	updateDocs = flag.Bool("docs", false, "write the figures of TestMutantsAtRandom into docs/reliability.md")
)

// Mutants that are found by at most foundSoon random scripts, as docs/reliability.md says, are looked for by the search. The figures
// are the largest of several runs with different scripts, and it is an error only if allowance times as many scripts do not find the
// mutant, since any change of the manager changes what a seed leads to.
const (
	foundSoon = 5
	allowance = 20
	samples   = 3
)

// TestMutantsAtRandom runs mutants with the random scripts of the simulation instead of their own, without faults and with
// them, until a script finds the mistake. It fails if none does, though docs/reliability.md says that one should.
func TestMutantsAtRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many random scripts")
	}
	known, err := readFigures()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	t.Run("all", func(t *testing.T) {
		for _, m := range mutants {
			for mode, faults := range []bool{false, true} {
				before := known[m.Name][mode]
				enough := allowance * before.scripts()
				if !before.soon() && *randomSeeds == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s/faults=%v", m.Name, faults), func(t *testing.T) {
					t.Parallel()
					var now figure
					if *randomSeeds == 0 {
						now = firstSeed(t, m, 1, enough, faults)
					} else {
						now = measure(t, m, faults)
					}
					t.Logf("found after %s random scripts", now)
					if before.soon() && !*updateDocs && !now.found() && now.scripts() >= enough {
						t.Errorf("%s random scripts do not find it; %s says: %s", now, docs, before)
					}
					mu.Lock()
					defer mu.Unlock()
					figures := known[m.Name]
					figures[mode] = now
					known[m.Name] = figures
					if !*updateDocs {
						return
					}
					if err := writeFigures(known); err != nil { // now, so that a run can be ended
						t.Error(err)
					}
				})
			}
		}
	})
	if *randomSeeds > 0 { // otherwise the figures are of single runs
		t.Log("\n" + tableOf(known))
	}
}

// measure returns the figure for docs/reliability.md. Only mutants that are found soon are measured more than once, as only
// they are looked for in each run of the tests.
func measure(t *testing.T, m suite.Mutant, faults bool) figure {
	var worst figure
	for i := range samples {
		now := firstSeed(t, m, 1+i**randomSeeds, *randomSeeds, faults)
		if i == 0 || now.scripts() > worst.scripts() {
			worst = now
		}
		if !worst.soon() {
			break
		}
	}
	return worst
}

var (
	seedFailed = regexp.MustCompile(`seed (\d+): \d+ violations, the first one:\s+(\S+)`)
	seedsRun   = regexp.MustCompile(`: (\d+) seeds, `)
)

// firstSeed returns how many random scripts, of those with the seeds from first on, are run until the mutant is found.
func firstSeed(t *testing.T, m suite.Mutant, first, limit int, faults bool) figure {
	output, _ := run(t, m.Name, "-test.run=^TestSeeds$", "-test.v", "-shrink=0",
		fmt.Sprint("-first=", first), fmt.Sprint("-seeds=", limit), fmt.Sprint("-faults=", faults))
	if found := seedFailed.FindStringSubmatch(output); found != nil {
		seed, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		n := figure(strconv.Itoa(seed - first + 1))
		if found[2] == m.Oracle {
			return n
		}
		return n + figure(" ("+found[2]+")")
	}
	if done := seedsRun.FindStringSubmatch(output); done != nil {
		return figure("> " + done[1])
	}
	if strings.HasSuffix(output, doesNotEnd) {
		return doesNotEnd
	}
	t.Fatalf("no seed ends:\n%s", tail(output))
	return ""
}

// figure says how many random scripts find a mutant: "12", or "12 (L1)" if another oracle than its own does, or "> 1000" if
// as many do not, or that one of them does not end; empty if it was not measured.
type figure string

// scripts is how many were run.
func (f figure) scripts() int {
	number, _, _ := strings.Cut(strings.TrimPrefix(string(f), "> "), " ")
	n, _ := strconv.Atoi(number) // 0 if that is not known
	return n
}

// found is whether the last script has found the mutant.
func (f figure) found() bool {
	return f.scripts() > 0 && !strings.HasPrefix(string(f), "> ")
}

// soon is whether it was found by so few scripts that each run of the tests looks for it.
func (f figure) soon() bool {
	return f.found() && f.scripts() <= foundSoon
}

// figures are those without faults and with them, by the names of mutants.
type figures map[string][2]figure

// docs has the table of mutants, which begins with tableHead.
const (
	docs      = "docs/reliability.md"
	tableHead = "| mistake | caught by | random scripts until it is caught | with faults |\n|---|---|---:|---:|\n"
)

// tableOf is the table of all mutants, in Markdown.
func tableOf(known figures) string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, m := range mutants {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.Name, m.Oracle, known[m.Name][0], known[m.Name][1])
	}
	return b.String()
}

// cutTable returns the page as it is before the table, the table without its head, and what follows.
func cutTable() (before, rows, after string, err error) {
	page, err := os.ReadFile(filepath.Join(root, docs))
	if err != nil {
		return "", "", "", err
	}
	before, rest, ok1 := strings.Cut(string(page), tableHead)
	rows, after, ok2 := strings.Cut(rest, "\n\n")
	if !ok1 || !ok2 {
		return "", "", "", errors.New(docs + " has no table of mutants")
	}
	return before, rows + "\n", "\n" + after, nil
}

func readFigures() (figures, error) {
	_, rows, _, err := cutTable()
	known := figures{}
	for row := range strings.Lines(rows) {
		if cells := strings.Split(row, "|"); len(cells) == 6 {
			known[strings.TrimSpace(cells[1])] = [2]figure{figure(strings.TrimSpace(cells[3])), figure(strings.TrimSpace(cells[4]))}
		}
	}
	return known, err
}

func writeFigures(known figures) error {
	before, _, after, err := cutTable()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, docs), []byte(before+tableOf(known)+after), 0o644)
}

// The page has all mutants, with their oracles.
func TestMutantsInDocs(t *testing.T) {
	known, err := readFigures()
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _, err := cutTable()
	if want := tableOf(known); err != nil || tableHead+rows != want {
		t.Errorf("%s, %v; the table should be:\n%s\nwrite it with: go test ./test/mutation -run TestMutantsAtRandom -seeds=20 -docs -timeout=0", docs, err, want)
	}
}

func TestFigure(t *testing.T) {
	for f, want := range map[figure]string{
		"": "0 false false", "5": "5 true true", "6": "6 true false", "3 (L1)": "3 true true", "> 5": "5 false false", doesNotEnd: "0 false false",
	} {
		if got := fmt.Sprint(f.scripts(), " ", f.found(), " ", f.soon()); got != want {
			t.Errorf("%q: %s, want %s", f, got, want)
		}
	}
}
