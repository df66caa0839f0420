// Package tidy has no code: its test keeps the project's shape (docs/architecture.md).
package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/standalone-kcm/controller-manager"

// source is a Go file of the main module.
type source struct {
	path string // from the module's root, with slashes
	file *ast.File
	set  *token.FileSet
}

func sources(t *testing.T) (all []source) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, missing := os.Stat(filepath.Join(path, "go.mod"))
			if path != "." && (missing == nil || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir // another module
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		all = append(all, source{filepath.ToSlash(path), file, set})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d files found", len(all))
	}
	return all
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) imports() (paths []string) {
	for _, i := range s.file.Imports {
		paths = append(paths, strings.Trim(i.Path.Value, `"`))
	}
	return paths
}

func TestPlannersArePure(t *testing.T) {
	impure := regexp.MustCompile(`^(context|net|net/.*|os|os/.*|sync|sync/.*|math/rand.*|k8s\.io/client-go.*|k8s\.io/klog.*|.*/pkg/(engine|manager|informers|clients|leaderelection))$`)
	checked := 0
	for _, s := range sources(t) {
		// controller.go is where a controller meets the world; all else in its folder decides.
		if !strings.HasPrefix(s.path, "pkg/controllers/") || strings.Count(s.path, "/") < 3 || s.isTest() || !pure(s.path) {
			continue
		}
		checked++
		for _, path := range s.imports() {
			if impure.MatchString(path) {
				t.Errorf("%s imports %s", s.path, path)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && (n.Sel.Name == "Now" || n.Sel.Name == "Since" || n.Sel.Name == "Until") {
					t.Errorf("%s asks the time", s.set.Position(n.Pos()))
				}
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", s.set.Position(n.Pos()))
			}
			return true
		})
	}
	if checked < 4 {
		t.Errorf("only %d files checked", checked)
	}
}

// pure reports whether a file of a controller belongs to its planner.
func pure(path string) bool {
	base := filepath.Base(path)
	return strings.HasPrefix(base, "plan") || strings.HasPrefix(base, "report") ||
		strings.Contains(path, "/deployment/") && base != "controller.go" || strings.Contains(path, "/replicaset/") && base != "controller.go"
}

func TestImportsPointOneWay(t *testing.T) {
	for _, s := range sources(t) {
		from := filepath.ToSlash(filepath.Dir(s.path))
		for _, path := range s.imports() {
			to, ours := strings.CutPrefix(path, module+"/")
			if strings.HasPrefix(path, "k8s.io/"+"kubernetes") {
				t.Errorf("%s imports the original: %s", s.path, path)
			}
			if !ours {
				continue
			}
			switch {
			case from == "pkg/plan" || from == "pkg/podutil" || from == "pkg/rbac":
				t.Errorf("%s imports %s: it is at the bottom", s.path, to)
			case from == "pkg/engine" && to != "pkg/plan" && !s.isTest():
				t.Errorf("%s imports %s: the engine knows plans, not who makes them", s.path, to)
			case strings.HasPrefix(to, "pkg/controllers/") && strings.HasPrefix(from, "pkg/controllers/") && from != to:
				t.Errorf("%s imports another controller: %s", s.path, to)
			case to == "pkg/controllers" && !strings.HasPrefix(from, "cmd/") && from != "hack/gen" && !s.isTest():
				t.Errorf("%s imports the registry", s.path)
			case strings.HasPrefix(to, "test/") && !strings.HasPrefix(from, "test/"):
				t.Errorf("%s imports %s", s.path, to)
			}
		}
	}
}

func TestFunctionsFitAScreen(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1; lines > 70 {
				t.Errorf("%s: %s has %d lines", s.set.Position(f.Pos()), f.Name.Name, lines)
			}
		}
	}
}

// TestRegistryAndFoldersAgree: each folder of a controller has a line in the registry, with its rights, and a page in docs.
func TestRegistryAndFoldersAgree(t *testing.T) {
	registry, err := os.ReadFile("pkg/controllers/registry.go")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("pkg/controllers")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		for _, part := range []string{".Init", ".Rights"} {
			if !strings.Contains(string(registry), e.Name()+part) {
				t.Errorf("the registry does not have %s%s", e.Name(), part)
			}
		}
		if _, err := os.Stat("docs/" + e.Name() + ".md"); err != nil {
			t.Errorf("%s has no page: %v", e.Name(), err)
		}
	}
}

func TestOnlyMainEndsTheProcess(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || s.file.Name.Name == "main" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name, ok := selector.X.(*ast.Ident)
			if ok && (name.Name == "os" && selector.Sel.Name == "Exit" || name.Name == "klog" && strings.HasPrefix(selector.Sel.Name, "Fatal")) {
				t.Errorf("%s ends the process", s.set.Position(n.Pos()))
			}
			return true
		})
	}
}
