package mutation

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/suite"
)

// root is the folder of the module.
const root = "../.."

// An edit whose text is not there, or not only once, or not in a function, is an error that names the mutant.
func TestOverlayErrors(t *testing.T) {
	const file = "test/mutation/overlay.go"
	for text, want := range map[string]string{
		"no such text":               "0 times",
		"func ":                      "times",
		"package mutation\n":         "not in a function",
		"text := s.text\n":           "",
		"return nil, fmt.Errorf(\"h": "times",
	} {
		m := suite.Mutant{Name: "bad", Edits: []suite.Edit{{File: file, Old: text, New: "x"}}}
		_, err := Overlay(root, t.TempDir(), []suite.Mutant{m})
		if want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `mutant "bad"`)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What the compiler says of a mutant that does not compile names the mutant and the file.
func TestMutantThatDoesNotCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a package")
	}
	m := suite.Mutant{Name: "bad", Edits: []suite.Edit{{File: "internal/queue/backoff.go", Old: "plan.Doubling", New: "plan.undefined"}}}
	overlay, err := Overlay(root, t.TempDir(), []suite.Mutant{m})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", "build", "-overlay="+overlay, "./internal/queue")
	command.Dir = root
	output, err := command.CombinedOutput()
	if want := `backoff.go (mutant "bad"):21`; err == nil || !strings.Contains(string(output), want) {
		t.Errorf("%v, want %s:\n%s", err, want, output)
	}
}

// The copy of a function calls its variants with the same arguments, whatever its signature looks like.
func TestCallOf(t *testing.T) {
	for signature, want := range map[string]string{
		"func f()":                                     "f2(); return",
		"func f(a, b int, c ...string) error":          "return f2(a, b, c...)",
		"func (s *Set[K]) f(a int) (n int, err error)": "return s.f2(a)",
		"func f[K comparable, V any](m map[K]V) V":     "return f2[K, V](m)",
		"func f(_, a int)":                             "f2(parameter18_, a); return",
		"func (Set) f()":                               "",
	} {
		syntax, err := parser.ParseFile(token.NewFileSet(), "f.go", "package p\n"+signature+" { panic(0) }", 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := callOf(syntax.Decls[0].(*ast.FuncDecl), "f2")
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v, want %q", signature, got, err, want)
		}
	}
}
