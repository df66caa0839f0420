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
	randomSeeds = flag.Int("seeds", 0, "with how many random scripts TestMutantsAtRandom looks for each mutant; by default it trusts "+docs)
	otherSeeds  = flag.Int("others", 0,
		"with how many further random scripts TestMutantsAtRandom looks for the mutants that none has found")
	otherFirst = flag.Int("first", 0, "the seed of the first of these; by default that after those in "+docs)
	updateDocs = flag.Bool("docs", false, "write what TestMutantsAtRandom finds into "+docs)
)

const (
	// allowance is with how many scripts a mutant is looked for whose script in docs/reliability.md does not find it any more: any
	// change of the manager changes what a seed leads to.
	allowance = 100
	// Of a hundred mutants, leastFound are found by at most few random scripts.
	few, leastFound = 20, 60
)

// TestMutantsAtRandom runs mutants with random scripts in the place of their own, which stay with the controller that has the mistake. It
// fails if a mutant is not found any more, or if a script does not end.
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
			before := known[m.Name]
			if *randomSeeds == 0 && *otherSeeds == 0 && !before.found() {
				continue
			}
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				now := look(t, m, before)
				t.Logf("random script: %s", now)
				mu.Lock()
				defer mu.Unlock()
				known[m.Name] = now
				if !*updateDocs {
					return
				}
				if err := writeFigures(known); err != nil { // now, so that a run can be ended
					t.Error(err)
				}
			})
		}
	})
	t.Log("\n" + known.summary() + "\n" + tableOf(known))
}

// look looks for a mutant, and returns what is to be in the table.
func look(t *testing.T, m suite.Mutant, before figure) (now figure) {
	scripts := func(first, n int) (figure, bool) { return runSeeds(t, m, first, n) }
	switch {
	case *randomSeeds > 0:
		now = firstSeed(scripts, 1, *randomSeeds)
		before = "" // it may be found later than it was
	case !before.found():
		now = firstSeed(scripts, max(before.scripts()+1, *otherFirst), *otherSeeds)
	default:
		if now = firstSeed(scripts, before.scripts(), 1); !now.found() && now != doesNotEnd {
			now = firstSeed(scripts, 1, allowance)
		}
	}
	if err := verdict(before, now); err != nil {
		t.Error(err)
	}
	return now
}

// verdict is what is wrong with a mutant that was looked for.
func verdict(before, now figure) error {
	switch {
	case now == doesNotEnd:
		return errors.New("a random script does not end")
	case before.found() && !now.found():
		return fmt.Errorf("%s random scripts do not find it; %s says: %s", now, docs, before)
	}
	return nil
}

// atOnce is how many scripts one process runs.
const atOnce = 20

// firstSeed runs random scripts, from a seed on, and returns the first that finds a mutant. The function runs some in one process. It says
// which of them finds the mutant, and whether they came to an end.
func firstSeed(scripts func(first, n int) (found figure, ended bool), first, limit int) figure {
	for next := first; next < first+limit; next += atOnce {
		n := min(atOnce, first+limit-next)
		found, ended := scripts(next, n)
		for seed := next; !ended && seed < next+n && !found.found(); seed++ { // all together may have had too little time
			var alone bool
			if found, alone = scripts(seed, 1); !alone {
				return doesNotEnd
			}
		}
		if found.found() {
			return found
		}
	}
	return figure(fmt.Sprint("> ", first+limit-1))
}

var (
	seedFailed = regexp.MustCompile(`seed (\d+): \d+ violations, the first one:\s+(\S+)`)
	seedsRun   = regexp.MustCompile(`: (\d+) seeds, `)
)

// runSeeds runs random scripts in one process until one finds the mutant, and reports whether they came to an end.
func runSeeds(t *testing.T, m suite.Mutant, first, n int) (f figure, ended bool) {
	output, _ := run(t, m.Name, "-test.run=^TestSeeds$", "-test.v", "-shrink=0", "-around="+m.Around,
		fmt.Sprint("-first=", first), fmt.Sprint("-seeds=", n))
	if found := seedFailed.FindStringSubmatch(output); found != nil {
		f = figure(found[1])
		if found[2] != m.Oracle {
			f += figure(" (" + found[2] + ")")
		}
		return f, true
	}
	if seedsRun.MatchString(output) {
		return "", true
	}
	if !strings.HasSuffix(output, doesNotEnd) {
		t.Fatalf("no seed ends:\n%s", tail(output))
	}
	return "", false
}

// figure is the seed of the random script that finds a mutant: "12", or "12 (L1)" if another oracle than its own does, or "> 20" if none up
// to that seed does, or that one of them does not end; empty if nobody has looked.
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

// soon is whether few scripts have found it.
func (f figure) soon() bool { return f.found() && f.scripts() <= few }

// figures are those of all mutants, by their names.
type figures map[string]figure

// soon is how many mutants are found by few scripts, of how many, and the same of the mistakes of each controller.
func (f figures) soon() (found int, byController map[string][2]int) {
	byController = map[string][2]int{}
	for _, m := range mutants {
		of := byController[m.Around]
		if of[1]++; f[m.Name].soon() {
			found++
			of[0]++
		}
		byController[m.Around] = of
	}
	return found, byController
}

func (f figures) summary() string {
	found, byController := f.soon()
	text := fmt.Sprintf("%d of %d mutants are found within %d random scripts:\n", found, len(mutants), few)
	for _, e := range suite.Entries() {
		of := byController[e.Controller]
		text += fmt.Sprintf("%3d of %2d  %s\n", of[0], of[1], e.Controller)
	}
	return text
}

// docs has the table of mutants, which begins with tableHead.
const (
	docs      = "docs/reliability.md"
	tableHead = "| mistake | caught by | random scripts until it is caught |\n|---|---|---:|\n"
)

// tableOf is the table of all mutants, in Markdown.
func tableOf(known figures) string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, m := range mutants {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.Name, m.Oracle, known[m.Name])
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
		if cells := strings.Split(row, "|"); len(cells) == 5 {
			known[strings.TrimSpace(cells[1])] = figure(strings.TrimSpace(cells[3]))
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

// The page has all mutants, with their oracles and what is known of random scripts, and enough of them are found soon.
func TestMutantsInDocs(t *testing.T) {
	known, err := readFigures()
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _, err := cutTable()
	if want := tableOf(known); err != nil || tableHead+rows != want {
		t.Errorf("%s, %v; the table should be:\n%s\nwrite it with: go test ./test/mutation -run TestMutantsAtRandom -seeds=20 -docs "+
			"-timeout=0", docs, err, want)
	}
	for _, m := range mutants {
		switch f := known[m.Name]; {
		case f == doesNotEnd:
			t.Errorf("%s says of %q that a random script does not end", docs, m.Name)
		case f == "":
			t.Errorf("%s does not say which random script finds %q", docs, m.Name)
		}
	}
	if found, _ := known.soon(); 100*found < leastFound*len(mutants) {
		t.Errorf("random scripts find too few mutants: %s", known.summary())
	}
}

func TestFigure(t *testing.T) {
	for f, want := range map[figure]string{
		"": "0 false false", "20": "20 true true", "21": "21 true false", "3 (L1)": "3 true true", "> 5": "5 false false",
		doesNotEnd: "0 false false",
	} {
		if got := fmt.Sprint(f.scripts(), " ", f.found(), " ", f.soon()); got != want {
			t.Errorf("%q: %s, want %s", f, got, want)
		}
	}
}

// Scripts that together take too long are run one by one, and only one that does not end by itself counts as such.
func TestFirstSeed(t *testing.T) {
	for _, test := range []struct {
		name    string
		findsIt int // the seed of the script that does; 0 for none
		endless int // that of the script that does not end
		slow    bool
		want    figure
	}{
		{"none finds it", 0, 0, false, "> 25"},
		{"one of the second process finds it", 23, 0, false, "23"},
		{"they take long", 7, 0, true, "7"},
		{"they take long, and none finds it", 0, 0, true, "> 25"},
		{"one does not end", 0, 9, false, doesNotEnd},
		{"one does not end, after another one has found it", 3, 9, false, "3"},
	} {
		got := firstSeed(func(first, n int) (figure, bool) {
			if test.slow && n > 1 {
				return "", false
			}
			for seed := first; seed < first+n; seed++ {
				switch seed {
				case test.findsIt:
					return figure(strconv.Itoa(seed)), true
				case test.endless:
					return "", false
				}
			}
			return "", true
		}, 1, 25)
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// A script that does not end is an error, whatever was known before.
func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		before, now figure
		wrong       bool
	}{
		{"", "7", false}, {"", "> 20", false}, {"7", "9", false}, {"7", "> 100", true},
		{"", doesNotEnd, true}, {"7", doesNotEnd, true}, {"> 20", doesNotEnd, true},
	} {
		if err := verdict(test.before, test.now); (err != nil) != test.wrong {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
