// Command api lists the exported names of the packages below pkg/, which other programs use, in hack/api/api.txt. With
// --check it fails if the list is out of date, so that no change of them goes unseen. It always fails if a declaration
// has a type of internal/, which no other program can name.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const file = "hack/api/api.txt"

func main() {
	text, err := list("pkg")
	if err == nil && slices.Contains(os.Args[1:], "--check") {
		err = check(text)
	} else if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check compares the list with the file, and names the first line that differs.
func check(text string) error {
	stored, err := os.ReadFile(file)
	if err != nil || string(stored) == text {
		return err
	}
	before, now := strings.Split(string(stored), "\n"), strings.Split(text, "\n")
	i := 0
	for i < min(len(before), len(now))-1 && before[i] == now[i] {
		i++
	}
	return fmt.Errorf("the public API has changed, and %s is out of date from line %d on: run 'go run ./hack/api'\n-%s\n+%s", file, i+1,
		before[i], now[i])
}

// list returns the exported declarations of all packages below a folder.
func list(root string) (string, error) {
	var all strings.Builder
	err := filepath.WalkDir(root, func(folder string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		declarations, err := declarations(folder)
		if err == nil && len(declarations) > 0 {
			fmt.Fprintf(&all, "package %s\n\n%s\n\n", filepath.ToSlash(folder), strings.Join(declarations, "\n"))
		}
		return err
	})
	return all.String(), err
}

// declarations returns the exported declarations of a package, sorted.
func declarations(folder string) (all []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.FileExports(parsed)
		for _, d := range parsed.Decls {
			if !public(d) {
				continue
			}
			if err := nameable(set, parsed, d); err != nil {
				return nil, err
			}
			var text bytes.Buffer
			if err := printer.Fprint(&text, set, d); err != nil {
				return nil, err
			}
			all = append(all, text.String())
		}
	}
	slices.Sort(all)
	return all, nil
}

// nameable returns an error if a public declaration has a type of internal/.
func nameable(set *token.FileSet, file *ast.File, d ast.Decl) (err error) {
	internal := map[string]bool{} // packages of this file, by name
	for _, i := range file.Imports {
		if of := strings.Trim(i.Path.Value, `"`); strings.Contains(of, "/internal/") {
			internal[path.Base(of)] = true
			if i.Name != nil {
				internal[i.Name.Name] = true
			}
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		if value, ok := n.(*ast.ValueSpec); ok && value.Type == nil {
			return false // a constant: it has the value, and no type
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := s.X.(*ast.Ident); ok && internal[of.Name] {
				err = errors.Join(err, fmt.Errorf("%s: %s.%s is of internal/, and the public API must not have it",
					set.Position(s.Pos()), of.Name, s.Sel.Name))
			}
		}
		return true
	})
	return err
}

// public reports whether a declaration is one for others, and takes off what is not for them.
func public(d ast.Decl) bool {
	switch d := d.(type) {
	case *ast.FuncDecl:
		d.Body = nil
		return d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))
	case *ast.GenDecl:
		if d.Tok == token.VAR {
			for _, spec := range d.Specs {
				spec.(*ast.ValueSpec).Values = nil
			}
		}
		return d.Tok != token.IMPORT
	}
	return false
}

// receiver returns the name of the type of a receiver.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
