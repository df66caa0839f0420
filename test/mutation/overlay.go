// Package mutation shows that the oracles bite: it makes known mistakes in the controllers, one at a time, and each must be
// found by the oracle that is named for it.
//
// A mistake is an edit of the source text. All of them are compiled into one program, in which one at a time is switched on. The
// compiler is given edited copies in the place of files (go test -overlay), so no mistake is ever in the code itself. The program is
// the simulation, which runs a script in which the mistake shows, and random scripts. Without any mistake, no oracle may complain, and
// the program does what the product does: the simulation is compiled once for its own tests and for those of this package.
package mutation

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/standalone-kcm/controller-manager/test/overlay"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// module is the path of the module.
const module = "github.com/standalone-kcm/controller-manager"

// The switch is a package that exists in the overlay only. The environment says which mutant is on, until the simulation switches to
// another one.
const (
	switchVariable = "MUTANT"
	switchPackage  = "test/mutation/mutant"
	switchSource   = `package mutant

import "os"

var on = os.Getenv("` + switchVariable + `")

// On reports whether a mutant is switched on.
func On(name string) bool { return on == name }

// Switch switches a mutant on, and all others off.
func Switch(name string) { on = name }
`
	switchFile = "test/simulation/mutant_switch_test.go"
	useSource  = `package simulation

import "` + module + "/" + switchPackage + `"

func init() { switchMutant = mutant.Switch }
`
)

// Overlay writes copies of the product's files that contain all mutants into a folder, and returns the file that tells the compiler of
// them. The root is the folder of the module.
// A function that a mutant edits begins in its copy with a call of a variant of it, if the mutant is on:
//
//	func (s *Set) size(n int) int { if mutant.On("a pod too many") { return s.size__mutant7(n) }; return n }
//	func (s *Set) size__mutant7(n int) int { return n + 1 }
//
// So without a mutant the program does what the product does. A seed decides a run, see package overlay. The error names all mutants
// that cannot be made.
func Overlay(root, dir string, mutants []suite.Mutant) (string, error) {
	sources := map[string]*source{}
	var errs []error
	for i, m := range mutants {
		if err := addMutant(root, sources, i, m); err != nil {
			errs = append(errs, fmt.Errorf("mutant %q: %w", m.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	texts := map[string]string{switchPackage + "/mutant.go": switchSource, switchFile: useSource}
	for path, s := range sources {
		texts[path] = s.String()
	}
	files, err := overlay.Seeded(root)
	if err != nil {
		return "", err
	}
	for path, text := range texts {
		place, err := filepath.Abs(filepath.Join(root, path))
		if err != nil {
			return "", err
		}
		files[place] = text
	}
	if err := files.CheckLocks(root); err != nil {
		return "", err
	}
	return files.Write(dir)
}

// addMutant adds the variants of one mutant. Edits of one function make one variant.
func addMutant(root string, sources map[string]*source, number int, m suite.Mutant) error {
	variants := map[*ast.FuncDecl]*variant{}
	for _, e := range m.Edits {
		if sources[e.File] == nil {
			s, err := readSource(root, e.File)
			if err != nil {
				return err
			}
			sources[e.File] = s
		}
		s := sources[e.File]
		f, err := s.functionWith(e.Old)
		if err != nil {
			return fmt.Errorf("%s: %w", e.File, err)
		}
		v := variants[f]
		if v == nil {
			v = &variant{mutant: m.Name, function: f, name: fmt.Sprintf("%s__mutant%d", f.Name.Name, number), body: s.slice(f.Body)}
			if v.call, err = callOf(f, v.name); err != nil {
				return fmt.Errorf("%s: %w", e.File, err)
			}
			variants[f] = v
			s.variants = append(s.variants, v)
		}
		if v.body, err = replaceOnce(v.body, e.Old, e.New); err != nil {
			return fmt.Errorf("%s: %w", e.File, err)
		}
	}
	return nil
}

// source is a file of the product and the variants of its functions.
type source struct {
	path     string
	text     string
	files    *token.FileSet
	syntax   *ast.File
	variants []*variant
}

// variant is a function with a known mistake.
type variant struct {
	mutant   string
	function *ast.FuncDecl
	name     string
	body     string
	call     string // of the variant, by the function
}

func readSource(root, path string) (*source, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	return &source{path: path, text: string(text), files: files, syntax: syntax}, err
}

func (s *source) offset(p token.Pos) int { return s.files.Position(p).Offset }

func (s *source) slice(n ast.Node) string { return s.text[s.offset(n.Pos()):s.offset(n.End())] }

// functionWith returns the function in whose body a text is, which must be in the file exactly once.
func (s *source) functionWith(text string) (*ast.FuncDecl, error) {
	if n := strings.Count(s.text, text); n != 1 {
		return nil, fmt.Errorf("has this text %d times, not once:\n%s", n, text)
	}
	begin := strings.Index(s.text, text)
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && s.offset(f.Body.Pos()) <= begin && begin+len(text) <= s.offset(f.Body.End()) {
			return f, nil
		}
	}
	return nil, fmt.Errorf("has this text, but not in a function:\n%s", text)
}

// replaceOnce replaces a text that another edit of the same mutant may have removed or doubled.
func replaceOnce(body, from, to string) (string, error) {
	if n := strings.Count(body, from); n != 1 {
		return "", fmt.Errorf("after the other edits a function has this text %d times, not once:\n%s", n, from)
	}
	return strings.Replace(body, from, to, 1), nil
}

// callOf returns statements that call a function like f, with the same arguments, and return what it returns. Parameters that
// are called _ go by the names that named gives them.
func callOf(f *ast.FuncDecl, name string) (string, error) {
	var parts [3][]string
	for i, fields := range []*ast.FieldList{f.Recv, f.Type.TypeParams, f.Type.Params} {
		if fields == nil {
			continue
		}
		for _, field := range fields.List {
			if len(field.Names) == 0 {
				return "", fmt.Errorf("%s has a parameter without a name", f.Name.Name)
			}
			for _, n := range field.Names {
				parts[i] = append(parts[i], named(n))
			}
		}
	}
	receiver, types, arguments := parts[0], parts[1], parts[2]
	if n := len(f.Type.Params.List); n > 0 {
		if _, variadic := f.Type.Params.List[n-1].Type.(*ast.Ellipsis); variadic {
			arguments[len(arguments)-1] += "..."
		}
	}
	call := strings.Join(append(receiver, name), ".")
	if len(types) > 0 {
		call += "[" + strings.Join(types, ", ") + "]"
	}
	call += "(" + strings.Join(arguments, ", ") + ")"
	if f.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}

// named is what a parameter is called in the copy.
func named(n *ast.Ident) string {
	if n.Name == "_" {
		return fmt.Sprint("parameter", n.Pos(), "_") // in the text, what is before the _ is put in
	}
	return n.Name
}

// String is the file with its variants. A complaint of the compiler names the mutant and the line of the original file.
func (s *source) String() string {
	texts := map[int]string{} // what is put in, by offset
	var after strings.Builder
	for _, v := range s.variants {
		f := v.function
		texts[s.offset(f.Body.Lbrace)+1] += fmt.Sprintf(" if mutant.On(%q) { %s };", v.mutant, v.call)
		for _, fields := range []*ast.FieldList{f.Recv, f.Type.Params} {
			if fields == nil {
				continue
			}
			for _, field := range fields.List {
				for _, n := range field.Names {
					texts[s.offset(n.Pos())] = strings.TrimSuffix(named(n), n.Name)
				}
			}
		}
		fmt.Fprintf(&after, "\n//line %s (mutant %q):%d\n%s%s%s%s\n", filepath.Base(s.path), v.mutant, s.files.Position(f.Pos()).Line,
			s.text[s.offset(f.Pos()):s.offset(f.Name.Pos())], v.name, s.text[s.offset(f.Name.End()):s.offset(f.Body.Pos())], v.body)
	}
	texts[s.offset(s.syntax.Name.End())] = fmt.Sprintf("; import %q", module+"/"+switchPackage)
	text := s.text
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(texts))) {
		text = text[:at] + texts[at] + text[at:]
	}
	return text + after.String()
}
