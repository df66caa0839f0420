package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// A function body of so many lines, or of so many nodes of syntax, exists once. What is shorter is not worth a name that two packages
// know.
const (
	copiedLines = 3
	copiedNodes = 30
)

// TestFunctionsExistOnce: two functions differ in more than the names of their parameters, variables and receivers. What several packages
// need belongs to one that all of them may import (layers).
func TestFunctionsExistOnce(t *testing.T) {
	first, checked := map[string]string{}, 0
	for _, s := range sources(t) {
		if s.isTest() || !strings.HasPrefix(s.path, "pkg/") && !strings.HasPrefix(s.path, "internal/") {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || onlyLocks(f.Body) {
				continue
			}
			text, nodes := bodyText(f)
			lines := s.set.Position(f.Body.Rbrace).Line - s.set.Position(f.Body.Lbrace).Line - 1
			if lines < copiedLines && nodes < copiedNodes {
				continue
			}
			checked++
			where := fmt.Sprintf("%s %s", s.set.Position(f.Pos()), f.Name.Name)
			if other := first[text]; other != "" {
				t.Errorf("%s is a copy of %s", where, other)
			}
			first[text] = where
		}
	}
	if checked < 2000 {
		t.Errorf("only %d functions checked", checked)
	}
}

// onlyLocks reports whether a body reads or writes one field under a lock: such methods are alike for all types.
func onlyLocks(body *ast.BlockStmt) bool {
	if len(body.List) != 3 {
		return false
	}
	call, ok := body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	lock, ok := call.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	of, ok := lock.Fun.(*ast.SelectorExpr)
	return ok && (of.Sel.Name == "Lock" || of.Sel.Name == "RLock")
}

// bodyText writes the syntax of a function's body with numbers in the place of the names that the function declares, and counts its nodes.
func bodyText(f *ast.FuncDecl) (text string, nodes int) {
	names := declared(f)
	var b strings.Builder
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if n == nil {
			b.WriteByte(')')
			return true
		}
		nodes++
		switch n := n.(type) {
		case *ast.Ident:
			name := n.Name
			if number, local := names[name]; local {
				name = "#" + strconv.Itoa(number)
			}
			b.WriteString("(" + name)
		case *ast.BasicLit:
			b.WriteString("(" + n.Value)
		default:
			fmt.Fprintf(&b, "(%T%s", n, operator(n))
		}
		return true
	})
	return b.String(), nodes
}

// operator returns the token of a node that has one, such as + or :=.
func operator(n ast.Node) string {
	for _, name := range []string{"Op", "Tok"} {
		if field := reflect.ValueOf(n).Elem().FieldByName(name); field.IsValid() {
			return field.Interface().(token.Token).String()
		}
	}
	return ""
}

// declared numbers the names that a function declares, in their order.
func declared(f *ast.FuncDecl) map[string]int {
	names := map[string]int{}
	add := func(expr ast.Expr) {
		if name, ok := expr.(*ast.Ident); ok && name.Name != "_" {
			if _, known := names[name.Name]; !known {
				names[name.Name] = len(names)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, to := range n.Lhs {
					add(to)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key)
				add(n.Value)
			}
		}
		return true
	})
	return names
}
