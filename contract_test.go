package tidy

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

const (
	contractFolder = "docs/contract"
	keepMark       = "**keep**"
)

// fact is a numbered fact of the contract (docs/contract/README.md).
type fact struct {
	id     string // a prefix, a number, and a letter if several facts have the number
	number int
	file   string
	cells  []string // of its row, the ID first; one if it is a paragraph
	text   string   // its row or paragraph, and what stands below that
	keep   bool
	tested bool // the name of a test cites it
}

// prefix is a line of the README's table.
type prefix struct {
	name, file string
	built      bool // the code that its facts are about exists, in all of its folders
}

// contract is the index of all facts, and what is wrong with it and with the citations read so far.
type contract struct {
	facts      []*fact
	byID       map[string]*fact
	prefixes   []prefix // in the order of the README
	untestable map[string]string
	missing    map[string]bool // those of controllers that this build does not have
	problems   []string

	cited, named *regexp.Regexp // a citation in a text, and in the name of a test
}

var (
	prefixLine  = regexp.MustCompile("^\\| ([A-Z]+) \\| \\[([a-z-]+\\.md)\\]\\(([a-z-]+\\.md)\\) \\|.*\\| (`[^`|]+`(?:, `[^`|]+`)*) \\|$")
	definition  = regexp.MustCompile(`^(?:\| )?(([A-Z]+)-(\d+)[a-z]?) (.*)$`)
	markedRange = regexp.MustCompile(`^([A-Z]+-\d+[a-z]?)\.\.(\d+[a-z]?) \*\*keep\*\*`)
	reasonLine  = regexp.MustCompile(`^\| ([A-Z]+-\d+[a-z]?) \| (.*) \|$`)
	missingLine = regexp.MustCompile(`^Not in this build: ([A-Z0-9, -]+)\.`)
	looksLikeID = regexp.MustCompile(`\b([A-Z]{2,4})-\d`)
)

// readContract reads docs/contract below root.
func readContract(root fs.FS) *contract {
	c := &contract{byID: map[string]*fact{}, untestable: map[string]string{}, missing: map[string]bool{}}
	names, err := fs.Glob(root, contractFolder+"/*.md")
	if err != nil || len(names) == 0 {
		c.wrong("no file in %s (%v)", contractFolder, err)
	}
	c.readPrefixes(root)
	for _, name := range names {
		text := c.read(root, name)
		switch path.Base(name) {
		case "README.md":
		case "untestable.md":
			c.readReasons(text)
		default:
			c.readFacts(path.Base(name), text)
		}
	}
	return c
}

func (c *contract) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *contract) read(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		c.wrong("%v", err)
	}
	return string(text)
}

// readPrefixes reads the README's table of prefixes, and makes of it what a citation looks like.
func (c *contract) readPrefixes(root fs.FS) {
	for line := range strings.Lines(c.read(root, contractFolder+"/README.md")) {
		m := prefixLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		if m[2] != m[3] {
			c.wrong("README.md: the link to %s goes to %s", m[2], m[3])
		}
		if _, err := fs.Stat(root, contractFolder+"/"+m[2]); err != nil {
			c.wrong("README.md: %s has no file: %v", m[1], err)
		}
		missing := slices.ContainsFunc(strings.Split(m[4], ", "), func(folder string) bool {
			_, err := fs.Stat(root, strings.Trim(folder, "`"))
			return err != nil
		})
		c.prefixes = append(c.prefixes, prefix{name: m[1], file: m[2], built: !missing})
	}
	var names []string
	for _, p := range c.prefixes {
		names = append(names, p.name)
	}
	known := "(" + strings.Join(names, "|") + ")"
	c.cited = regexp.MustCompile(`\b` + known + `-(\d+)([a-z]?)\b(?:\.(\d+)\b|\.\.(?:` + known + `-)?(\d+)[a-z]?\b| to ` + known +
		`-(\d+)[a-z]?\b)?`)
	c.named = regexp.MustCompile(known + `(\d+)([a-z]?)`)
}

func (c *contract) readReasons(text string) {
	for line := range strings.Lines(text) {
		if m := reasonLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			c.untestable[m[1]] = strings.TrimSpace(m[2])
		}
	}
}

// readFacts reads the facts of a file: rows and paragraphs that begin with an ID. What stands below one, up to the next,
// belongs to it. A heading with a mark marks all facts up to the next heading. A paragraph that begins with a range marks the facts
// of that range, wherever they stand in the file. A mark anywhere else belongs to no fact, and is a mistake.
func (c *contract) readFacts(file, text string) {
	var latest *fact
	var marked [][]string
	all := false // the heading marks what is below
	for line := range strings.Lines(text) {
		if m := markedRange.FindStringSubmatch(line); m != nil {
			marked = append(marked, m)
			continue
		}
		heading := strings.HasPrefix(line, "#")
		if m := definition.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			latest = c.define(file, m)
			latest.keep = all
			continue
		}
		switch {
		case heading:
			latest, all = nil, strings.Contains(line, keepMark)
		case latest != nil:
			latest.text += "\n" + strings.TrimSpace(line)
		case strings.Contains(line, keepMark) && !strings.HasPrefix(line, "Marks:"):
			c.wrong("%s: a mark of no fact: %.40s", file, line)
		}
		if m := missingLine.FindStringSubmatch(line); m != nil {
			for id := range strings.SplitSeq(m[1], ", ") {
				c.missing[id] = true
			}
		}
	}
	for _, f := range c.facts {
		f.keep = f.keep || strings.Contains(f.text, keepMark)
	}
	for _, m := range marked {
		for _, f := range c.between(file, m[1], m[2]) {
			f.keep = true
		}
	}
}

func (c *contract) define(file string, m []string) *fact {
	f := &fact{id: m[1], file: file, text: m[4]}
	f.number, _ = strconv.Atoi(m[3])
	for _, cell := range strings.Split(strings.Trim(m[0], "| "), " |") {
		f.cells = append(f.cells, strings.TrimSpace(cell))
	}
	if other := c.byID[f.id]; other != nil {
		c.wrong("%s is defined in %s and in %s", f.id, other.file, file)
		return f
	}
	if !slices.ContainsFunc(c.prefixes, func(p prefix) bool { return p.name == m[2] && p.file == file }) {
		c.wrong("%s of %s: README.md has no line for this prefix and file", f.id, file)
	}
	c.facts = append(c.facts, f)
	c.byID[f.id] = f
	return f
}

// between returns the facts from one ID to the last number with the same prefix; none if one of the two ends does not exist.
func (c *contract) between(where, first, last string) []*fact {
	name, _, _ := strings.Cut(first, "-")
	begin, end := numberOf(first), numberOf(name+"-"+last)
	var all []*fact
	ends := map[int]bool{}
	for _, f := range c.facts {
		if strings.HasPrefix(f.id, name+"-") && f.number >= begin && f.number <= end {
			all = append(all, f)
			ends[f.number] = true
		}
	}
	if !ends[begin] || !ends[end] {
		c.wrong("%s: there is no range %s..%s", where, first, last)
		return nil
	}
	return all
}

func numberOf(id string) int {
	_, digits, _ := strings.Cut(id, "-")
	n, _ := strconv.Atoi(strings.TrimRight(digits, "abcdefghijklmnopqrstuvwxyz"))
	return n
}

// find returns the fact with the ID, or those whose IDs only add a letter to it, or the one that has the letter as an item,
// "(a)".
func (c *contract) find(id string) (found []*fact) {
	if f := c.byID[id]; f != nil {
		return []*fact{f}
	}
	for _, f := range c.facts {
		if f.id[:len(f.id)-1] == id && f.id[len(f.id)-1] >= 'a' {
			found = append(found, f)
		}
	}
	if whole := id[:len(id)-1]; found == nil && c.byID[whole] != nil && strings.Contains(c.byID[whole].text, "("+id[len(id)-1:]+")") {
		found = append(found, c.byID[whole])
	}
	return found
}

// hasItem reports whether a fact has a step ("4. ...") or a row ("| 4 | ...") of that number.
func (f *fact) hasItem(number string) bool {
	return regexp.MustCompile(`(?m)^\| ` + number + ` \||\b` + number + `\. `).MatchString(f.text)
}

// citations returns the facts that a file cites, and notes those that do not exist.
func (c *contract) citations(name, text string) (all []*fact) {
	for _, m := range c.cited.FindAllStringSubmatch(text, -1) {
		id := m[1] + "-" + m[2] + m[3]
		found := c.find(id)
		switch other := cmp.Or(m[5], m[7]); {
		case len(found) == 0:
			c.wrong("%s cites %s, which does not exist", name, id)
		case other != "" && other != m[1]:
			c.wrong("%s: the range %s goes from one prefix to another", name, m[0])
		case m[4] != "" && !found[0].hasItem(m[4]):
			c.wrong("%s cites %s.%s, which does not exist", name, id, m[4])
		case m[6] != "" || m[8] != "":
			found = c.between(name, id, cmp.Or(m[6], m[8]))
		}
		all = append(all, found...)
	}
	return all
}

// namedFacts returns the facts that the names of a file's tests cite.
func (c *contract) namedFacts(name, text string) (all []*fact) {
	functions, cases := namesOfCases(name, text)
	for _, each := range cases {
		all = append(all, c.citations(name, each)...)
	}
	for _, test := range functions {
		for _, at := range c.named.FindAllStringSubmatchIndex(test, -1) {
			if before := test[at[0]-1]; before >= 'A' && before <= 'Z' {
				continue // the end of a longer word
			}
			id := test[at[2]:at[3]] + "-" + test[at[4]:at[5]]
			found := c.find(id + test[at[6]:at[7]])
			if len(found) == 0 {
				found = c.find(id) // the letter is of the next word
			}
			if len(found) == 0 {
				c.wrong("%s: %s cites %s, which does not exist", name, test, id)
			}
			all = append(all, found...)
		}
	}
	return all
}

// readCitations reads all text below root that may cite facts.
func (c *contract) readCitations(root fs.FS) {
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == "bin" || name == "dist" || name != "." && name != ".ci" && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir // nothing of it is in the repository
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 || d.Name() == "go.sum" {
			return err
		}
		text := c.read(root, name)
		if !utf8.ValidString(text) {
			return nil
		}
		for _, f := range c.namedFacts(name, text) {
			f.tested = true
		}
		for _, f := range c.citations(name, text) {
			if strings.HasPrefix(name, "pkg/") && !c.prefixOf(f).built {
				c.wrong("%s cites %s, but README.md says that its code is elsewhere", name, f.id)
			}
		}
		if path.Dir(name) == contractFolder {
			c.onlyKnownPrefixes(name, text)
		}
		return nil
	})
	if err != nil {
		c.wrong("%v", err)
	}
}

func (c *contract) prefixOf(f *fact) prefix {
	for _, p := range c.prefixes {
		if strings.HasPrefix(f.id, p.name+"-") {
			return p
		}
	}
	return prefix{}
}

// onlyKnownPrefixes notes what looks like an ID, in a file of the contract, and is of no known prefix.
func (c *contract) onlyKnownPrefixes(name, text string) {
	for _, m := range looksLikeID.FindAllStringSubmatch(text, -1) {
		if m[1] != "FNV" && !slices.ContainsFunc(c.prefixes, func(p prefix) bool { return p.name == m[1] }) {
			c.wrong("%s: README.md has no prefix %s", name, m[1])
		}
	}
}

// judge notes keep facts that nothing checks, and reasons that are no longer true.
func (c *contract) judge() {
	for _, f := range c.facts {
		reason, excused := c.untestable[f.id]
		switch {
		case c.missing[f.id] && f.tested:
			c.wrong("%s: %s is not in this build, and a test cites it", f.file, f.id)
		case c.missing[f.id]:
		case excused && !f.keep:
			c.wrong("untestable.md: %s is not marked keep", f.id)
		case excused && f.tested:
			c.wrong("untestable.md: the name of a test cites %s", f.id)
		case excused && reason == "":
			c.wrong("untestable.md: %s has no reason", f.id)
		case f.keep && !excused && !f.tested && c.prefixOf(f).built:
			c.wrong("no test has %s in its name, which is marked keep, and untestable.md has no reason for that", f.id)
		}
	}
}

// summary has a line of figures for each file, and one for all.
func (c *contract) summary() string {
	out := fmt.Sprintf("%-28s %6s %6s %6s %11s %11s %8s", "file", "facts", "tested", "keep", "keep tested", "untestable", "missing")
	line := func(name string, of func(*fact) bool) {
		var facts, tested, keep, kept, excused, missing int
		for _, f := range c.facts {
			if !of(f) {
				continue
			}
			facts++
			tested += count(f.tested)
			keep += count(f.keep)
			kept += count(f.keep && f.tested)
			excused += count(c.untestable[f.id] != "")
			missing += count(c.missing[f.id])
		}
		out += fmt.Sprintf("\n%-28s %6d %6d %6d %11d %11d %8d", name, facts, tested, keep, kept, excused, missing)
	}
	for i, p := range c.prefixes {
		if i > 0 && slices.ContainsFunc(c.prefixes[:i], func(other prefix) bool { return other.file == p.file }) {
			continue
		}
		line(p.file, func(f *fact) bool { return f.file == p.file })
		if !p.built {
			out += "  (not built yet)"
		}
	}
	line("all", func(*fact) bool { return true })
	return out
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// checkContract checks the contract below root. More names of cases, besides those in the source, are those that tests make up.
func checkContract(root fs.FS, more ...string) *contract {
	c := readContract(root)
	c.readCitations(root)
	for _, name := range more {
		for _, f := range c.citations("a test", name) {
			f.tested = true
		}
	}
	c.judge()
	return c
}

func TestContract(t *testing.T) {
	c := checkContract(os.DirFS("."), slices.Collect(maps.Keys(namesOfThisBuild(t)))...)
	for _, problem := range c.problems {
		t.Error(problem)
	}
	if len(c.facts) < 500 || len(c.prefixes) < 11 {
		t.Errorf("only %d facts of %d prefixes found", len(c.facts), len(c.prefixes))
	}
	t.Logf("facts in the names of tests:\n%s", c.summary())
}

// TestContractNamesOfThisBuild: the controllers that we have bear the names, aliases and accounts of the original (REG-1..52,
// CI-20, CLI-52).
func TestContractNamesOfThisBuild(t *testing.T) {
	for name, check := range namesOfThisBuild(t) {
		t.Run(name, check)
	}
}

// namesOfThisBuild has a case for each controller of the registry, named after its fact. The facts of the other controllers are those
// that the page of the registry calls missing.
func namesOfThisBuild(t *testing.T) map[string]func(*testing.T) {
	c := readContract(os.DirFS("."))
	rows := map[string][]string{} // by canonical name
	for _, f := range c.facts {
		if strings.HasPrefix(f.id, "REG-") && len(f.cells) == 7 {
			rows[f.cells[1]] = f.cells
		}
	}
	cases := map[string]func(*testing.T){}
	for _, entry := range controllers.Registry() {
		row := rows[entry.Name]
		if row == nil {
			t.Errorf("the original has no %s; the registry holds only controllers of the original (CONTRIBUTING, Adding a controller)",
				entry.Name)
			continue
		}
		delete(rows, entry.Name)
		cases[row[0]+" "+entry.Name] = func(t *testing.T) {
			if entry.Root != (row[5] == "none (root)") {
				t.Errorf("it has the root identity: %t; in the original its account is %q", entry.Root, row[5])
			}
			if entry.Alias != row[2] || !entry.Root && entry.Account != row[5] {
				t.Errorf("it has the alias %q and the account %q; in the original, %q and %q", entry.Alias, entry.Account, row[2], row[5])
			}
			if off := row[3] == "**off**"; entry.OffByDefault != off {
				t.Errorf("it is off by default: %t; in the original, %t", entry.OffByDefault, off)
			}
		}
	}
	var missing []string
	for _, row := range rows {
		missing = append(missing, row[0])
	}
	slices.SortFunc(missing, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) })
	if listed := slices.SortedFunc(maps.Keys(c.missing),
		func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) }); !slices.Equal(missing, listed) {
		t.Errorf("registry.md must say %q", "Not in this build: "+strings.Join(missing, ", ")+".")
	}
	return cases
}

// TestContractAccounts: the accounts of controllers, and the names under which they record events, where they differ from their names.
func TestContractAccounts(t *testing.T) {
	for _, c := range []struct{ name, controller, account, source string }{
		{"CI-20 of the endpoints controller", "endpoints-controller", "endpoint-controller", ""},
		{"CI-20 of the replicaset controller", "replicaset-controller", "replicaset-controller", ""},
		{"CI-20 of the deployment controller", "deployment-controller", "deployment-controller", ""},
		{"CI-20 of podgc", "pod-garbage-collector-controller", "pod-garbage-collector", ""},
		{"DS-109 of the daemonset controller", "daemonset-controller", "daemon-set-controller", "daemonset-controller"},
		{"DIS-55 of the disruption controller", "disruption-controller", "disruption-controller", "controllermanager"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := slices.IndexFunc(controllers.Registry(), func(e manager.Controller) bool { return e.Name == c.controller })
			if entry := controllers.Registry()[i]; entry.Account != c.account || entry.EventSource != c.source {
				t.Errorf("the account is %q, the source of events %q", entry.Account, entry.EventSource)
			}
		})
	}
}

// TestContractProblemsAreFound: the check itself, on a contract of its own.
func TestContractProblemsAreFound(t *testing.T) {
	const (
		readme = "| ZZ | [zz.md](zz.md) | toys | `pkg/toys` |\n| YY | [yy.md](yy.md) | more | `pkg/later` |\n"
		facts  = "ZZ-3..4 **keep**: two of them.\n\n| ID | Fact |\n|---|---|\n| ZZ-1a | One. |\n| ZZ-1b | Two. 1. First. 2. Then. |\n" +
			"| ZZ-2 | A table: |\n\n| # | Row |\n|---|---|\n| 7 | seven |\n\n## More\n\n| ZZ-3 | Three. |\n| ZZ-4 | Four: (a) this, (b) " +
			"that. |\n\nZZ-5 **keep** A paragraph\nof two lines.\n"
		tests = "package toys\n\nfunc TestZZ3toZZ4(t *testing.T) {\n\tt.Run(\"ZZ-5 too\", nil)\n}\n"
	)
	for _, test := range []struct {
		name, file, text string
		want             string // the one problem
	}{
		{"nothing", "pkg/toys/a.go", "// ZZ-1, ZZ-1a, ZZ-2.7, ZZ-1b.2; ZZ-4b; ZZ-2..4, ZZ-2 to ZZ-4, ZZ-5. UTF-8, XZZ-9, ZZ-top", ""},
		{"a fact that does not exist", "deploy/a.yaml", "# (ZZ-9)", "deploy/a.yaml cites ZZ-9, which does not exist"},
		{"a letter that does not exist", "a.md", "ZZ-1c", "a.md cites ZZ-1c, which does not exist"},
		{"an item that does not exist", "a.md", "ZZ-4c", "a.md cites ZZ-4c, which does not exist"},
		{"a row that does not exist", "a.md", "ZZ-2.8", "a.md cites ZZ-2.8, which does not exist"},
		{"a range without end", "a.md", "ZZ-2..9", "a.md: there is no range ZZ-2..9"},
		{"a range without end, in words", "a.md", "ZZ-2 to ZZ-9", "a.md: there is no range ZZ-2..9"},
		{"a range backwards", "a.md", "ZZ-4..2", "a.md: there is no range ZZ-4..2"},
		{"a range over prefixes", "a.md", "ZZ-2..YY-1", "a.md: the range ZZ-2..YY-1 goes from one prefix to another"},
		{"a test's name", "b_test.go", "package b\n\nfunc TestZZ9Toys(t *testing.T) {}",
			"b_test.go: TestZZ9Toys cites ZZ-9, which does not exist"},
		{"keep without a test", "pkg/toys/a_test.go", "package toys\n\nfunc TestZZ3(t *testing.T) { t.Run(\"ZZ-5\", nil) } // ZZ-4",
			"no test has ZZ-4 in its name, which is marked keep, and untestable.md has no reason for that"},
		{"a paragraph without a test", "pkg/toys/a_test.go",
			"package toys\n\nvar rows = []row{{\"ZZ-3..4 both\", \"ZZ-5\"}, {title: \"ZZ-5\"}}\n\nfunc TestX(t *testing.T) { " +
				"t.Error(\"ZZ-5\") }",
			"no test has ZZ-5 in its name, which is marked keep, and untestable.md has no reason for that"},
		{"twice", "docs/contract/zz.md", facts + "| ZZ-5 | Again. |\n", "ZZ-5 is defined in zz.md and in zz.md"},
		{"in the wrong file", "docs/contract/yy.md", "| ZZ-6 | Elsewhere. |\n",
			"ZZ-6 of yy.md: README.md has no line for this prefix and file"},
		{"a prefix that nobody knows", "docs/contract/zz.md", facts + "See QQ-1.\n", "docs/contract/zz.md: README.md has no prefix QQ"},
		{"a file that is missing", "docs/contract/README.md", readme + "| XX | [xx.md](xx.md) | none | `pkg/toys` |\n",
			"README.md: XX has no file: open docs/contract/xx.md: file does not exist"},
		{"a reason for a fact that is tested", "docs/contract/untestable.md", "| ZZ-5 | too hard |\n",
			"untestable.md: the name of a test cites ZZ-5"},
		{"a reason for a fact that may differ", "docs/contract/untestable.md", "| ZZ-2 | too hard |\n",
			"untestable.md: ZZ-2 is not marked keep"},
		{"a reason for no fact", "docs/contract/untestable.md", "| ZZ-8 | too hard |\n",
			"docs/contract/untestable.md cites ZZ-8, which does not exist"},
		{"a reason counts", "docs/contract/untestable.md", "| YY-1 | too hard |\n", ""},
		{"code that is built, under another name", "pkg/latest/a.go", "// YY-1",
			"pkg/latest/a.go cites YY-1, but README.md says that its code is elsewhere"},
		{"code in two folders", "docs/contract/README.md", strings.Replace(readme, "`pkg/later`", "`pkg/toys`, `docs`", 1),
			"no test has YY-1 in its name, which is marked keep, and untestable.md has no reason for that"},
		{"code in two folders, one of which is missing", "docs/contract/README.md",
			strings.Replace(readme, "`pkg/later`", "`pkg/toys`, `pkg/later`", 1), ""},
		{"names of rows", "pkg/toys/a_test.go",
			"package toys\n\nvar a = []row{{name: \"ZZ-3..4\"}}\n\nvar b = map[string]int{\"ZZ-5\" + x: 1}", ""},
		{"a heading marks what is below it", "docs/contract/zz.md",
			strings.Replace(facts, "## More", "## More. **keep**: all", 1) +
				"## End\n\n| ZZ-6 | Six. |\n\n## Again **keep**\n\n| ZZ-7 | Seven. |\n",
			"no test has ZZ-7 in its name, which is marked keep, and untestable.md has no reason for that"},
		{"a mark of no fact", "docs/contract/zz.md", "Marks: **keep** and others.\n\nAbove all (**keep**).\n\n" + facts,
			"zz.md: a mark of no fact: Above all (**keep**).\n"},
		{"missing", "docs/contract/zz.md", "Not in this build: ZZ-6, ZZ-7.\n\n" + facts + "\nZZ-6 **keep** Six.\n\nZZ-7 **keep** Seven.\n",
			""},
		{"missing, and tested", "docs/contract/zz.md", "Not in this build: ZZ-5.\n\n" + facts,
			"zz.md: ZZ-5 is not in this build, and a test cites it"},
		{"a build's output does not count", "bin/a.txt", "ZZ-9", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fstest.MapFS{
				"docs/contract/README.md": {Data: []byte(readme)},
				"docs/contract/zz.md":     {Data: []byte(facts)},
				"docs/contract/yy.md":     {Data: []byte("| YY-1 | Later (**keep**). |\n")},
				"pkg/toys/a_test.go":      {Data: []byte(tests)},
			}
			root[test.file] = &fstest.MapFile{Data: []byte(test.text)}
			c := checkContract(root)
			if got := strings.Join(c.problems, "\n"); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}
