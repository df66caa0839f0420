package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// excerpt is a line before a block of code that says from which function the block is, such as <!-- excerpt: pkg/reconcile/reconcile.go
// run.do -->.
var excerpt = regexp.MustCompile(`^<!-- excerpt: (\S+) (\S+) -->$`)

// omission stands in an excerpt for lines that are left out.
const omission = "// ..."

// wrongExcerpts finds blocks of code that are not, or no longer, in the function that they are from.
func wrongExcerpts(_ *project, p page) (found []mistake) {
	lines := strings.Split(p.text, "\n")
	for i, line := range lines {
		from := excerpt.FindStringSubmatch(line)
		if from == nil {
			continue
		}
		source, err := functionSource(from[1], from[2])
		if err != nil {
			found = append(found, mistakenf(i+1, "%v", err))
			continue
		}
		block := blockAt(lines[i+1:])
		if len(block) < 3 {
			found = append(found, mistakenf(i+1, "the excerpt has fewer than three lines"))
		}
		if missing, ok := contains(source, block); !ok {
			found = append(found, mistakenf(i+1, "%s in %s does not have this line, at this place: %s", from[2], from[1], missing))
		}
	}
	return found
}

// blockAt returns the lines of the block of Go code that begins at the first line.
func blockAt(lines []string) []string {
	if len(lines) == 0 || lines[0] != "```go" {
		return nil
	}
	end := slices.Index(lines[1:], "```")
	if end < 0 {
		return nil
	}
	return lines[1 : 1+end]
}

// contains reports whether a source has the lines of a block one after the other, but for omissions. If not, it returns the first line
// that is missing.
func contains(source, block []string) (missing string, ok bool) {
	at, anywhere := 0, true
	for _, line := range block {
		line = strings.TrimSpace(line)
		if line == omission {
			anywhere = true
			continue
		}
		next := slices.IndexFunc(source[at:], func(s string) bool { return strings.TrimSpace(s) == line })
		if next < 0 || !anywhere && next > 0 {
			return line, false
		}
		at, anywhere = at+next+1, false
	}
	return "", true
}

// functionSource returns the lines of a function, or of a method as "Type.method".
func functionSource(file, name string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && nameOfFunction(f) == name {
			return strings.Split(string(text), "\n")[set.Position(f.Pos()).Line-1 : set.Position(f.End()).Line], nil
		}
	}
	return nil, &os.PathError{Op: "find " + name, Path: file, Err: os.ErrNotExist}
}

func nameOfFunction(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

func TestWrongExcerpts(t *testing.T) {
	block := func(from string, lines ...string) string {
		return "<!-- excerpt: " + from + " -->\n```go\n" + strings.Join(lines, "\n") + "\n```\n"
	}
	for _, c := range []struct {
		name, text string
		wrong      int
	}{
		{"lines of a function",
			block("pages_excerpts_test.go nameOfFunction", "func nameOfFunction(f *ast.FuncDecl) string {", "if f.Recv == nil {",
				"return f.Name.Name"), 0},
		{"with an omission",
			block("pages_excerpts_test.go nameOfFunction", "if f.Recv == nil {", "// ...", "switch t := of.(type) {",
				"case *ast.StarExpr:"), 0},
		{"a line is left out without a word",
			block("pages_excerpts_test.go nameOfFunction", "if f.Recv == nil {", "}", "of := f.Recv.List[0].Type"), 1},
		{"another order", block("pages_excerpts_test.go nameOfFunction", "of = t.X", "case *ast.StarExpr:", "default:"), 1},
		{"no such function", block("pages_excerpts_test.go nothing", "a", "b", "c"), 1},
		{"no such file", block("nothing.go nothing", "a", "b", "c"), 1},
		{"no block", "<!-- excerpt: pages_excerpts_test.go nameOfFunction -->\n", 1},
	} {
		if got := wrongExcerpts(nil, page{text: c.text}); len(got) != c.wrong {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
