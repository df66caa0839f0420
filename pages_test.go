package tidy

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is what people read: a file of Markdown, or the comments of a manifest.
type page struct {
	path string
	text string
}

// span is a piece of code on a page: what is in backquotes, or a line of a block of code.
type span struct {
	line  int // counted from 1
	text  string
	block bool
}

// mistake says that a page names something that is not so.
type mistake struct {
	line int
	text string
}

func mistakenf(line int, format string, args ...any) mistake {
	return mistake{line, fmt.Sprintf(format, args...)}
}

// pageChecks find what is not so on a page. Each has a test that shows what it finds. The facts of docs/contract name what is in the
// original, too, so not all checks are for them.
var pageChecks = []struct {
	find   func(*project, page) []mistake
	ofFact bool
}{
	{wrongPaths, true}, {wrongLinks, true}, {wrongCommands, true},
	{wrongNames, false}, {wrongExcerpts, false}, {wrongFlags, false}, {wrongControllers, false}, {wrongLeases, false},
	{wrongFigures, false},
}

func TestPages(t *testing.T) {
	for _, p := range allPages(t) {
		isFact := path.Dir(p.path) == "docs/contract" && path.Base(p.path) != "README.md"
		for _, check := range pageChecks {
			if isFact && !check.ofFact {
				continue
			}
			for _, m := range check.find(loadProject(t), p) {
				t.Errorf("%s:%d: %s", p.path, m.line, m.text)
			}
		}
	}
}

// allPages returns all pages but CHANGELOG.md, which also names what has gone.
func allPages(t *testing.T) (all []page) {
	t.Helper()
	for _, file := range loadProject(t).files {
		switch folder := path.Dir(file); {
		case file == "CHANGELOG.md", strings.Contains(file, "testdata/"):
		case path.Ext(file) == ".md":
			all = append(all, page{file, read(t, file)})
		case path.Ext(file) == ".yaml" && strings.HasPrefix(folder, "deploy"):
			all = append(all, page{file, comments(read(t, file))})
		}
	}
	if len(all) < 90 {
		t.Fatalf("only %d pages found", len(all))
	}
	return all
}

var comment = regexp.MustCompile(`^\s*# ?(.*)`)

// comments keeps the comments of a manifest, and empty lines in place of all others. What they quote is in backquotes then.
func comments(manifest string) string {
	var out []string
	for line := range strings.Lines(manifest) {
		text := ""
		if match := comment.FindStringSubmatch(strings.TrimRight(line, "\n")); match != nil {
			text = strings.ReplaceAll(match[1], `"`, "`")
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

var backquoted = regexp.MustCompile("`([^`]+)`")

// prose returns the page with empty lines in place of blocks of code, and the lines of these blocks.
func (p page) prose() (text string, blocks []span) {
	lines := strings.Split(p.text, "\n")
	fenced, indented, empty := false, false, true
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		fence := strings.HasPrefix(trimmed, "```")
		indented = strings.HasPrefix(line, "    ") && (indented || empty) && !strings.HasPrefix(trimmed, "- ")
		empty = trimmed == ""
		if fence {
			fenced = !fenced
		} else if (fenced || indented) && !empty {
			if last := len(blocks) - 1; last >= 0 && strings.HasSuffix(blocks[last].text, `\`) {
				blocks[last].text = strings.TrimSuffix(blocks[last].text, `\`) + trimmed
			} else {
				blocks = append(blocks, span{i + 1, trimmed, true})
			}
		}
		if fence || fenced || indented {
			lines[i] = ""
		}
		if empty {
			indented = indented || i > 0 && strings.HasPrefix(lines[max(i-1, 0)], "    ")
		}
	}
	return strings.Join(lines, "\n"), blocks
}

// code returns all that is in backquotes, also over the ends of lines, and the lines of blocks of code.
func (p page) code() []span {
	text, spans := p.prose()
	for _, at := range backquoted.FindAllStringSubmatchIndex(text, -1) {
		quoted := text[at[2]:at[3]]
		if !strings.Contains(quoted, "\n\n") {
			spans = append(spans, span{1 + strings.Count(text[:at[0]], "\n"), strings.Join(strings.Fields(quoted), " "), false})
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.line - b.line })
	return spans
}

func TestCodeOfAPage(t *testing.T) {
	p := page{text: "a `b\nc` d\n\n    block \\\n    1\n\n    block 2\n\n- item\n\n  ```console\n  $ fenced `x`\n  ```\n`e`"}
	want := []span{{1, "b c", false}, {4, "block 1", true}, {7, "block 2", true}, {12, "$ fenced `x`", true}, {14, "e", false}}
	if got := p.code(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := comments("a: b # no\n# \"make x\"\n  # c\n"), "\n`make x`\nc"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// pageCase is a page, and what one of the checks finds on it: a part of each message.
type pageCase struct {
	name string
	page page
	want []string
}

func testCheck(t *testing.T, check func(*project, page) []mistake, cases []pageCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.page.path == "" {
				c.page.path = "docs/operations.md"
			}
			got := check(loadProject(t), c.page)
			ok := len(got) == len(c.want)
			for i := 0; ok && i < len(got); i++ {
				ok = strings.Contains(got[i].text, c.want[i])
			}
			if !ok {
				t.Errorf("found %v, want %q", got, c.want)
			}
		})
	}
}

// allFiles returns the files of the project, without what is built.
func allFiles() (files []string, err error) {
	err = filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || file == "bin" || file == "dist") {
			return fs.SkipDir
		}
		if !d.IsDir() {
			files = append(files, filepath.ToSlash(file))
		}
		return nil
	})
	return files, err
}
