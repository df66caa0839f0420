// Package table puts what test/chaos has found with two managers side by side.
package table

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Tally is what became of the runs of one test with one manager.
type Tally struct {
	Manager    string
	Faults     string // what was done to it
	Runs       int
	Injections int
	Rows       map[string]Row // by oracle
}

// Row is what one oracle has found in all runs.
type Row struct {
	Judged     int // 0 if it had nothing to judge; the other fields then say nothing
	Violations int
	Runs       int // in which there was a violation
}

// Parse reads the tables that test/chaos appends to the file that CHAOS_TABLE names.
func Parse(text string) (all []Tally, err error) {
	var t *Tally
	for n, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "### "):
			manager, faults, _ := strings.Cut(strings.TrimPrefix(line, "### "), ": ")
			all = append(all, Tally{Manager: manager, Faults: faults, Rows: map[string]Row{}})
			t = &all[len(all)-1]
		case line == "" || strings.HasPrefix(line, "| oracle |") || strings.HasPrefix(line, "| --- |"):
		case t == nil:
			err = errors.New("no heading before it")
		case strings.HasPrefix(line, "| "):
			err = t.row(line)
		default:
			_, err = fmt.Sscanf(line, "%d runs, %d faults injected", &t.Runs, &t.Injections)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", n+1, line, err)
		}
	}
	return all, nil
}

// row reads "| oracle | what holds | judged | excused | violations | in runs |".
func (t *Tally) row(line string) error {
	cells := strings.Split(strings.Trim(line, "| "), " | ")
	if len(cells) != 6 {
		return fmt.Errorf("%d cells", len(cells))
	}
	var numbers [3]int
	for i, cell := range []string{cells[2], cells[4], cells[5]} {
		if cell == "-" {
			continue
		}
		n, err := strconv.Atoi(cell)
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	t.Rows[cells[0]] = Row{Judged: numbers[0], Violations: numbers[1], Runs: numbers[2]}
	return nil
}

// Suite is one test of test/chaos, with what it has found with ours and with the original. Original is nil where that was not run.
type Suite struct {
	Name           string
	Ours, Original *Tally
}

// Render returns two tables in Markdown: what was done, and for each oracle how many of its judgements were violations.
func Render(suites []Suite) string {
	var b strings.Builder
	b.WriteString("| | what was done | runs: ours / original | faults injected: ours / original |\n|---|---|---|---|\n")
	for _, s := range suites {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.Name, s.Ours.Faults,
			s.both(func(t *Tally) string { return strconv.Itoa(t.Runs) }),
			s.both(func(t *Tally) string { return strconv.Itoa(t.Injections) }))
	}
	b.WriteString("\n| oracle |")
	rule := "|---|"
	for _, s := range suites {
		b.WriteString(" " + s.Name + " |")
		rule += "---|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, oracle := range oracles(suites) {
		fmt.Fprintf(&b, "| %s |", oracle)
		for _, s := range suites {
			fmt.Fprintf(&b, " %s |", s.both(func(t *Tally) string { return t.Rows[oracle].String() }))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// both is a cell about both managers.
func (s Suite) both(of func(*Tally) string) string {
	original := "not run"
	if s.Original != nil {
		original = of(s.Original)
	}
	return of(s.Ours) + " / " + original
}

// String is how many of the judgements were violations, in bold if some were, with the number of runs.
func (r Row) String() string {
	switch {
	case r.Judged == 0:
		return "-"
	case r.Violations == 0:
		return fmt.Sprintf("0 of %d", r.Judged)
	}
	return fmt.Sprintf("**%d** of %d (%d)", r.Violations, r.Judged, r.Runs)
}

// oracles are the names of all oracles: by letters, S first, and then by numbers.
func oracles(suites []Suite) (names []string) {
	for _, s := range suites {
		for name := range s.Ours.Rows {
			names = append(names, name)
		}
	}
	order := func(name string) (kind, number int) {
		number, _ = strconv.Atoi(strings.TrimLeft(name, "SL"))
		return slices.Index([]string{"S", "L"}, name[:1]), number
	}
	slices.SortFunc(names, func(a, b string) int {
		kindA, a1 := order(a)
		kindB, b1 := order(b)
		if kindA < 0 || kindB < 0 { // neither S nor L: last
			return cmp.Compare(kindB, kindA)
		}
		return cmp.Or(cmp.Compare(kindA, kindB), cmp.Compare(a1, b1))
	})
	return slices.Compact(names)
}
