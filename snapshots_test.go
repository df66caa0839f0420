package tidy

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// harmless are fields of snapshots and decisions that look like credentials, with what they are.
var harmless = map[string]string{
	"bootstrapsigner.unusable.Secret":                   "its name",
	"daemonset.revisions.data":                          "the template of pods, encoded",
	"statefulset.snapshot.Data":                         "the template of pods, encoded",
	"tokencleaner.snapshot.Secret":                      "its metadata alone",
	"legacyserviceaccounttokencleaner.snapshot.Secrets": "their metadata alone",
}

// A snapshot and a decision may be shown, stored and compared, so no credential belongs into them: no Secret, no bytes, and no string that
// is called like one. What is signed is put in right before it is written, see plan.Change.
func TestSnapshotsHoldNoCredentials(t *testing.T) {
	types := map[string]ast.Expr{} // by folder and name
	var roots []string
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		folder := path.Dir(s.path)
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				types[folder+"."+n.Name.Name] = n.Type
			case *ast.IndexListExpr:
				if of := ofController(n); of != nil {
					for _, argument := range of[:2] {
						if name, ok := argument.(*ast.Ident); ok {
							roots = append(roots, folder+"."+name.Name)
						}
					}
				}
			}
			return true
		})
	}
	slices.Sort(roots)
	roots = slices.Compact(roots)
	if len(roots) < 35 {
		t.Errorf("only %d types of snapshots and decisions found", len(roots))
	}
	seen := map[string]bool{}
	for _, root := range roots {
		lookForCredentials(t, types, seen, root)
	}
	for field := range harmless {
		if !seen[field] {
			t.Errorf("%s is not there any more", field)
		}
	}
}

// lookForCredentials looks through the fields of a type, and of the types of its package that they are made of.
func lookForCredentials(t *testing.T, types map[string]ast.Expr, seen map[string]bool, name string) {
	structure, ok := types[name].(*ast.StructType)
	if seen[name] || !ok {
		return
	}
	seen[name] = true
	folder, local, _ := strings.Cut(name, ".")
	for _, field := range structure.Fields.List {
		for _, called := range fieldNames(field) {
			id := path.Base(folder) + "." + local + "." + called
			if why := credential(called, field.Type); why != "" && harmless[id] == "" {
				t.Errorf("%s may be a credential: %s", id, why)
			}
			seen[id] = true
		}
		ast.Inspect(field.Type, func(n ast.Node) bool {
			if used, ok := n.(*ast.Ident); ok {
				lookForCredentials(t, types, seen, folder+"."+used.Name)
			}
			return true
		})
	}
}

func fieldNames(f *ast.Field) (names []string) {
	for _, name := range f.Names {
		names = append(names, name.Name)
	}
	if len(names) == 0 {
		names = []string{"embedded"}
	}
	return names
}

// credential says why a field may be one; empty if it cannot.
func credential(name string, of ast.Expr) (why string) {
	ast.Inspect(of, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if n.Sel.Name == "Secret" {
				why = "it is a Secret"
			}
		case *ast.ArrayType:
			if element, ok := n.Elt.(*ast.Ident); ok && element.Name == "byte" {
				why = "it has bytes"
			}
		}
		return true
	})
	text, ok := of.(*ast.Ident)
	if ok && text.Name == "string" &&
		slices.ContainsFunc([]string{"token", "key", "password", "secret", "signature", "certificate"}, func(word string) bool {
			return strings.Contains(strings.ToLower(name), word)
		}) {
		why = "its name says so"
	}
	return why
}
