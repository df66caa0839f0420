package tidy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// measuredPages have tables of figures. Each such table has, under its heading or above it, the line
//
//	Measured: 2026-11-27, commit 46b77cea, controllers: SET
//
// SET is "all N", also with "and those that are off by default", "N, all but A, B", "those of the scenario", or names. Where it begins
// with a number, or with all, it counts the controllers that are on by default: whoever adds one has to measure again, or to say that the
// figures are without it.
var (
	measuredPages = []string{"docs/operations.md", "docs/performance.md", "docs/reliability.md"}
	measuredText  = regexp.MustCompile(`(?m)^Measured:.*(?:\n.+)*`)
	measured      = regexp.MustCompile(`^Measured: (\d{4}-\d\d-\d\d), commit ([0-9a-f]{7,12}), controllers: (.*)$`)
	figureTable   = regexp.MustCompile(`(?m)^\|.*\b(original|ours|before|resident memory at rest|oracle \| crash|random scripts until)\b` +
		`.*\|\n\|[-:| ]+\|$`)
	setOfAll = regexp.MustCompile(`^(?:all ([0-9]+)(?: and those that are off by default)?|([0-9]+), all but ([a-z, -]+))\.?$`)
	madeBy   = regexp.MustCompile(`(?m)^([0-9]{4}-[0-9]{2}-[0-9]{2}), (?:commit ([0-9a-f]+)|[0-9]+ cores)`)
)

// onByDefault returns the aliases of the controllers that are on by default.
func onByDefault() (names []string) {
	for _, c := range controllers.Registry() {
		if c.OnByDefault() {
			names = append(names, c.Alias)
			if c.Alias == "" {
				names[len(names)-1] = c.Name
			}
		}
	}
	return names
}

// wrongFigures finds tables of figures that do not say when they were measured, of what, and with which controllers.
func wrongFigures(_ *project, p page) (found []mistake) {
	if !slices.Contains(measuredPages, p.path) {
		return nil
	}
	text, _ := p.prose()
	lineOf := func(at int) int { return 1 + strings.Count(text[:at], "\n") }
	for _, line := range measuredText.FindAllStringIndex(text, -1) {
		said := measuredLine(text[line[0]:line[1]])
		if said == nil {
			found = append(found, mistakenf(lineOf(line[0]), "the line is not of the form %q", measured))
		} else if wrong := wrongSet(said[3]); wrong != "" {
			found = append(found, mistakenf(lineOf(line[0]), "%s", wrong))
		}
	}
	for _, table := range figureTable.FindAllStringIndex(text, -1) {
		section := text[max(0, strings.LastIndex(text[:table[0]], "\n#")):table[0]]
		var last []string
		if lines := measuredText.FindAllString(section, -1); len(lines) > 0 {
			last = measuredLine(lines[len(lines)-1])
		}
		if last == nil {
			found = append(found, mistakenf(lineOf(table[0]), `its section has no line "Measured: DATE, commit HASH, controllers: SET"`))
			continue
		}
		if made := madeBy.FindStringSubmatch(section); made != nil && (made[1] != last[1] || !sameCommit(made[2], last[2])) {
			found = append(found,
				mistakenf(lineOf(table[0]), "the table says %s, the line above it %s, commit %s", made[0], last[1], last[2]))
		}
	}
	return found
}

// measuredLine returns the date, the commit and the set of a line, which may go on over several.
func measuredLine(text string) []string {
	return measured.FindStringSubmatch(strings.Join(strings.Fields(text), " "))
}

// sameCommit compares two abbreviations. The benchmark names no commit.
func sameCommit(a, b string) bool {
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// wrongSet says what is wrong with a set of controllers.
func wrongSet(said string) string {
	on := onByDefault()
	match := setOfAll.FindStringSubmatch(said)
	var without []string
	switch {
	case said == "those of the scenario":
		return ""
	case match == nil:
		for _, name := range strings.Split(said, ", ") {
			if !slices.Contains(aliases(), name) {
				return strconv.Quote(name) + " is no controller of this build"
			}
		}
		return ""
	case match[3] != "":
		without = strings.Split(match[3], ", ")
	}
	for _, name := range without {
		if !slices.Contains(on, name) {
			return strconv.Quote(name) + " is no controller that is on by default"
		}
	}
	count, _ := strconv.Atoi(match[1] + match[2])
	if count+len(without) != len(on) {
		return strconv.Itoa(count) + " controllers and those that are left out are not the " + strconv.Itoa(len(on)) +
			" that are on by default"
	}
	return ""
}

func TestWrongFigures(t *testing.T) {
	const table = "\n\n| work | original | ours |\n|---|---:|---:|\n| x | 1 | 2 |\n"
	all, but := strconv.Itoa(len(onByDefault())), strconv.Itoa(len(onByDefault())-1)
	anew := func(said string) string {
		return "\n\nMeasured: 2026-11-27, commit 46b77cea, controllers: all " + all + "\n\n" + said + table
	}
	line := func(rest string) page {
		return page{path: "docs/performance.md", text: "## Results\n\nMeasured: 2026-11-27, commit 46b77cea, controllers: " + rest + table}
	}
	testCheck(t, wrongFigures, []pageCase{
		{"all", line("all " + all), nil},
		{"all but one", line(but + ", all but job"), nil},
		{"names", line("job, cronjob"), nil},
		{"those of the scenario", line("those of the scenario"), nil},
		{"the newest controller is not in it", line("all " + but),
			[]string{but + " controllers and those that are left out are not the " + all}},
		{"nor named as left out", line(strconv.Itoa(len(onByDefault())-2) + ", all but job"), []string{"that are on by default"}},
		{"left out, but not on", line(but + ", all but tokencleaner"), []string{"tokencleaner"}},
		{"not a controller", line("job, nosuch"), []string{"nosuch"}},
		{"no line", page{path: "docs/performance.md", text: "## Results" + table}, []string{"no line"}},
		{"a line of another section", page{path: "docs/performance.md", text: line("all "+all).text + "\n## Other" + table},
			[]string{"no line"}},
		{"a table of mistakes", page{path: "docs/reliability.md", text: "| mistake | random scripts until then |\n|---|---:|\n| x | 5 |\n"},
			[]string{"no line"}},
		{"no commit", page{path: "docs/performance.md", text: "\n\nMeasured: 2026-11-27, controllers: all " + all + table},
			[]string{"not of the form", "no line"}},
		{"measured anew", page{path: "docs/performance.md", text: anew("2026-12-01, 2 cores, x:")},
			[]string{"2026-12-01"}},
		{"another commit", page{path: "docs/reliability.md", text: anew("2026-11-27, commit 0123456789ab. x")},
			[]string{"0123456789ab"}},
	})
}
