package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
)

// namesOfCases returns the names under which a Go file runs tests: of its test and fuzz functions, of what it gives to Run, and of the
// rows of its tables, that is the field name (or Name) of a composite literal, its first value if it has no names of fields, or the
// keys of a map. Comments and messages are none. Entries of test/suite are tables that several suites run.
func namesOfCases(name, text string) (functions, cases []string) {
	inSuite := path.Dir(name) == "test/suite"
	if !strings.HasSuffix(name, "_test.go") && !(inSuite && strings.HasSuffix(name, ".go")) {
		return nil, nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil // the compiler says so
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil &&
			(strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
			functions = append(functions, f.Name.Name)
		}
	}
	add := func(e ast.Expr) { cases = append(cases, stringsIn(e)...) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Run" && len(n.Args) == 2 {
				add(n.Args[0])
			}
		case *ast.CompositeLit:
			addRow(n, add)
		}
		return true
	})
	return functions, cases
}

// addRow adds the name of a row of a table, or the keys of a map.
func addRow(row *ast.CompositeLit, add func(ast.Expr)) {
	if list, ok := row.Type.(*ast.ArrayType); ok && list != nil {
		return
	}
	for i, e := range row.Elts {
		switch e := e.(type) {
		case *ast.KeyValueExpr:
			key, named := e.Key.(*ast.Ident)
			if !named {
				add(e.Key)
			} else if key.Name == "name" || key.Name == "Name" {
				add(e.Value)
			}
		default:
			if i == 0 {
				add(e)
			}
		}
	}
}

// stringsIn returns the text of the string literals in an expression that joins strings.
func stringsIn(e ast.Expr) (all []string) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			all = append(all, text)
		}
	case *ast.BinaryExpr:
		all = append(stringsIn(e.X), stringsIn(e.Y)...)
	case *ast.CallExpr:
		for _, argument := range e.Args {
			all = append(all, stringsIn(argument)...)
		}
	}
	return all
}
