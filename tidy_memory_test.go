package tidy

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// What is remembered of an object must not be taken for that of the next one of its name. So a controller with a memory sets Subject,
// or the memory itself says which object it is about.
func TestMemoriesAreOfOneObject(t *testing.T) {
	excused := map[string]string{ // memories that are about more than one object, or that nobody can take for another one
		"attachdetach volumeMemory":      "of the nodes of a volume, by which driver and handle",
		"attachdetach usingNodeMemory":   "a part of volumeMemory",
		"deployment memory":              "each of its parts has the uid",
		"disruption memory":              "by the uids of pods and of what owns them",
		"endpointslice memory":           "what the slices are compared with has their uids and versions",
		"garbagecollector absenceMemory": "of a kind",
		"nodeipam memory":                "of all Nodes, by uid",
		"podgc memory":                   "of all Nodes",
		"pvcprotection memory":           "of a Namespace, by the uids of its claims",
		"selinuxwarning memory":          "of pods with a volume, by their uids",
	}
	used := map[string]bool{}
	subjects := map[string]int{}
	type found struct{ folder, name string }
	var memories []found
	for _, s := range sources(t) {
		folder, ok := strings.CutPrefix(path.Dir(s.path), "pkg/controllers/")
		if !ok || s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Subject" {
					subjects[folder]++
				}
			case *ast.TypeSpec:
				if fields, ok := n.Type.(*ast.StructType); ok && strings.HasSuffix(strings.ToLower(n.Name.Name), "memory") &&
					!names(fields, "UID", "Claim", "Version", "Service") {
					memories = append(memories, found{folder, n.Name.Name})
				}
			}
			return true
		})
	}
	for _, m := range memories {
		switch name := m.folder + " " + m.name; {
		case excused[name] != "":
			used[name] = true
		case subjects[m.folder] == 0:
			t.Errorf("%s: nothing says which object its memory is about: set Subject", name)
		}
	}
	for name := range excused {
		if !used[name] {
			t.Errorf("%s needs no excuse", name)
		}
	}
	if len(memories) < 15 {
		t.Errorf("there are only %d memories", len(memories))
	}
}

// names reports whether a struct has a field of one of these names.
func names(s *ast.StructType, any ...string) bool {
	return slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		return slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return slices.Contains(any, n.Name) })
	})
}
