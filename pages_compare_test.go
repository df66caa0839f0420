package tidy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	number = regexp.MustCompile(`\d+(?:,\d{3})*(?:\.\d+)?`)
	// measuredFigure is one that README.md takes from the comparison.
	measuredFigure = regexp.MustCompile(`\d+(?:\.\d+)?(?: s\b| MB\b| and )`)
	tableRow       = regexp.MustCompile(`(?m)^\|(.*)\|$`)
	// notOurs are figures of the simulated kubelet and of the API server, and those for which more is no worse.
	notOurs = regexp.MustCompile(`simulated kubelet|API server's own|^events$|^watches$|live heap|` +
		`pods a second|deletions for A|reads of a second client`)
)

// comparison is a row of a table that has both managers.
type comparison struct {
	work           string
	original, ours []string
}

// comparisons returns the rows of all tables that have the columns "original" and "ours".
func comparisons(text string) (rows []comparison) {
	original, ours := -1, -1
	for line := range strings.Lines(text) {
		match := tableRow.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			original, ours = -1, -1
			continue
		}
		cells := strings.Split(match[1], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if slices.Contains(cells, "original") {
			original, ours = slices.Index(cells, "original"), slices.Index(cells, "ours")
		} else if ours >= 0 && !strings.HasPrefix(cells[0], "-") {
			work := cells[0]
			if original > 1 && cells[0] == "" || slices.Contains(cells, "writes") {
				work = cells[1]
			}
			rows = append(rows, comparison{work, number.FindAllString(cells[original], -1), number.FindAllString(cells[ours], -1)})
		}
	}
	return rows
}

// worse returns the pairs of figures of which ours is more than a twentieth larger.
func (c comparison) worse() (pairs [][2]string) {
	for i := range min(len(c.original), len(c.ours)) {
		a, errA := strconv.ParseFloat(strings.ReplaceAll(c.original[i], ",", ""), 64)
		b, errB := strconv.ParseFloat(strings.ReplaceAll(c.ours[i], ",", ""), 64)
		if errA == nil && errB == nil && a > 0 && b > 1.05*a && !notOurs.MatchString(c.work) {
			pairs = append(pairs, [2]string{c.original[i], c.ours[i]})
		}
	}
	return pairs
}

// TestPagesCompareAlike: each row of the table in docs/comparison.md ends with a day, and has no figure that is not in a section of
// docs/performance.md that was measured on that day. Each row of that page in which ours is worse has its figures in one row of
// docs/comparison.md. README.md says how many rows there are, and in how many a figure of ours is worse; its own figures are from there.
func TestPagesCompareAlike(t *testing.T) {
	performance := read(t, "docs/performance.md")
	known := figuresByDay(performance)
	comparison := read(t, "docs/comparison.md")
	rows := tableRow.FindAllString(comparison, -1)
	rows = rows[min(2, len(rows)):]
	for _, row := range rows {
		for _, each := range unknownFigures(known, row) {
			t.Errorf("docs/comparison.md: no section of docs/performance.md of that day has %s: %s", each, row)
		}
	}
	for _, c := range comparisons(performance) {
		for _, pair := range c.worse() {
			if !slices.ContainsFunc(rows, func(row string) bool {
				have := number.FindAllString(row, -1)
				return slices.Contains(have, pair[0]) && slices.Contains(have, pair[1])
			}) {
				t.Errorf("docs/comparison.md does not say that ours has %s where the original has %s: %s", pair[1], pair[0], c.work)
			}
		}
	}
	wrong := slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return !strings.Contains(row, "**") })
	_, why, _ := strings.Cut(read(t, "README.md"), "\n## Why\n")
	why, _, _ = strings.Cut(why, "\n## ")
	if said := fmt.Sprintf("has %d rows; in %d of them", len(rows), len(wrong)); !strings.Contains(why, said) {
		t.Errorf("README.md does not say that the comparison %s a figure of ours is worse", said)
	}
	for _, figure := range measuredFigure.FindAllString(why, -1) {
		if !slices.Contains(number.FindAllString(comparison, -1), number.FindString(figure)) {
			t.Errorf("README.md has %s, and docs/comparison.md does not", figure)
		}
	}
	if len(rows) < 15 || len(known) < 4 {
		t.Errorf("only %d rows and %d days found", len(rows), len(known))
	}
}

// figuresByDay returns the figures in the sections of a page by the day on which they were measured.
func figuresByDay(text string) map[string][]string {
	known := map[string][]string{}
	for section := range strings.SplitSeq(text, "\n#") {
		if line := measuredLine(measuredText.FindString(section)); line != nil {
			known[line[1]] = append(known[line[1]], number.FindAllString(section, -1)...)
		}
	}
	return known
}

// unknownFigures returns what a row has that was not measured on its day.
func unknownFigures(known map[string][]string, row string) (unknown []string) {
	cells := strings.Split(strings.Trim(row, "|"), "|")
	last := len(cells) - 1
	day := strings.TrimSpace(cells[last])
	if known[day] == nil {
		return []string{day}
	}
	for _, each := range number.FindAllString(strings.Join(cells[1:last], "|"), -1) {
		if !slices.Contains(known[day], each) {
			unknown = append(unknown, each)
		}
	}
	return unknown
}

func TestWorse(t *testing.T) {
	rows := comparisons(
		"| work | floor | original | ours |\n|---|---:|---:|---:|\n| a: writes; CPU | 1 | 2,021; 1.88 s | 2005; 2.23 s |\n" +
			"| events | | 1 | 2 |\n| b | | 1.0 | 1.05 |\n\n| x | y |\n|---|---|\n| 1 | 2 |\n")
	var got [][2]string
	for _, c := range rows {
		got = append(got, c.worse()...)
	}
	if want := [][2]string{{"1.88", "2.23"}}; len(rows) != 3 || !slices.Equal(got, want) {
		t.Errorf("got %v of %v, want %v", got, rows, want)
	}
}

func TestUnknownFigures(t *testing.T) {
	known := figuresByDay("# A\n## B\n\nMeasured: 2026-11-27, commit 46b77cea, controllers: job\n\n| 1.5 s, 20,000 |\n## C\n7\n")
	for row, want := range map[string][]string{
		"| a 3 | | 1.5 s | 20,000 writes | 2026-11-27 |": nil,
		"| a | | 1.4 s | 7 | 2026-11-27 |":               {"1.4", "7"}, // 7 is in a section without a day
		"| a | | 1.5 s | 20,000 | 2026-11-26 |":          {"2026-11-26"},
	} {
		if got := unknownFigures(known, row); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", row, got, want)
		}
	}
}
