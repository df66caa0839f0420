package tidy

import (
	"go/ast"
	"go/token"
	"testing"
)

// Writes are made by several goroutines at once, so a test that changes its own variables where a fake server calls it back does so
// under a lock, or with sync/atomic. The race detector sees the mistake only in the runs in which two writes meet.
func TestHooksOfFakeServersAreSafe(t *testing.T) {
	checked := 0
	for _, s := range sources(t) {
		if !s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			hook, literal := call.Args[0].(*ast.FuncLit)
			if !ok || !literal || sel.Sel.Name != "BeforeWrite" && sel.Sel.Name != "AfterWrite" {
				return true
			}
			checked++
			for _, name := range capturedChanges(hook) {
				t.Errorf("%s: %s changes %s without a lock, and may be called by several goroutines at once", s.set.Position(hook.Pos()),
					sel.Sel.Name, name)
			}
			return true
		})
	}
	if checked < 40 {
		t.Errorf("only %d functions were looked at", checked)
	}
}

// capturedChanges are the variables of others that a function changes; none if it takes a lock.
func capturedChanges(f *ast.FuncLit) (names []string) {
	locks := false
	change := func(e ast.Expr) {
		if x, ok := e.(*ast.IndexExpr); ok {
			e = x.X
		}
		if name, ok := e.(*ast.Ident); ok && name.Name != "_" && (name.Obj == nil || name.Obj.Pos() < f.Pos() || name.Obj.Pos() > f.End()) {
			names = append(names, name.Name)
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			locks = locks || n.Sel.Name == "Lock"
		case *ast.IncDecStmt:
			change(n.X)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				break
			}
			for _, left := range n.Lhs {
				change(left)
			}
		}
		return true
	})
	if locks {
		return nil
	}
	return names
}
