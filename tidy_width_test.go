package tidy

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// Columns of a line, with tabs of four: of what runs in clusters, and of tests and tools.
const (
	productColumns = 120
	testColumns    = 140
)

// TestLinesFitAWindow: no line is wider than a window. A raw string is as wide as what it shows, and tests may have a string whole, so
// that it can be searched for.
func TestLinesFitAWindow(t *testing.T) {
	for _, s := range sources(t) {
		if ast.IsGenerated(s.file) {
			continue
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		most, strings := productColumns, false
		if s.isTest() || underAny(s.path, "test/", "hack/") {
			most, strings = testColumns, true
		}
		for _, n := range wideLines(text, most, strings) {
			t.Errorf("%s:%d is wider than %d columns", s.path, n, most)
		}
	}
}

func underAny(path string, folders ...string) bool {
	for _, f := range folders {
		if strings.HasPrefix(path, f) {
			return true
		}
	}
	return false
}

// wideLines returns the numbers of the lines that are too wide, but for those that raw strings make so, and with anyString any strings.
func wideLines(text []byte, most int, anyString bool) (wide []int) {
	allowed := map[int]bool{}
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := strings.Split(string(text), "\n")
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind != token.STRING {
			continue
		}
		begin := set.Position(pos)
		raw := literal[0] == '`'
		for n := begin.Line; raw && n <= begin.Line+strings.Count(literal, "\n"); n++ {
			allowed[n] = true
		}
		if !raw && anyString && columns(lines[begin.Line-1][:begin.Column-1])+columns(literal)+len(" +,") > most {
			allowed[begin.Line] = true
		}
	}
	for n, line := range lines {
		if columns(line) > most && !allowed[n+1] {
			wide = append(wide, n+1)
		}
	}
	return wide
}

func columns(text string) int {
	return utf8.RuneCountInString(text) + 3*strings.Count(text, "\t")
}

func TestWideLinesAreSeen(t *testing.T) {
	for _, c := range []struct {
		name, text string
		anyString  bool
		wide       int
	}{
		{"narrow", "var a = 1\n", false, 0},
		{"wide", "var a, b, c, d, e = 1, 2\n", false, 1},
		{"a tab counts as four", "func f() {\n\t\t\ta = bbbb + 2\n}\n", false, 1},
		{"a comment", "// aaaaaaaaaaaaaaaaaaaaaaa\n", true, 1},
		{"a string", "var a = \"aaaaaaaaaaaaaaa\"\n", false, 1},
		{"a string in a test", "var a = \"aaaaaaaaaaaaaaa\"\n", true, 0},
		{"a string in a test that is not what is wide", "var a, b, c = \"a\", 22222222\n", true, 1},
		{"a raw string", "var a = `aaaaaaaaaaaaaaa`\n", false, 0},
		{"lines of one", "var a = `a\naaaaaaaaaaaaaaaaaaaaaaaaaa\naaaaaaaaaaaaaaaaaaaaaaaaaaa`\n", false, 0},
		{"after one", "var a = `a`\n// aaaaaaaaaaaaaaaaaaaaaaa\n", false, 1},
		{"letters, not bytes", "// ääääääääää\n", false, 0},
	} {
		if got := wideLines([]byte(c.text), 20, c.anyString); len(got) != c.wide {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
