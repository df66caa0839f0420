package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	rapidCheck = "pgregory.net/rapid.Check"
	anything   = "internal/testing/plantest.Anything"
	restored   = "internal/testing/plantest.Restored"
	projected  = "pkg/manager/managertest.Projection"
	projecting = "internal/projection.New"  // of what stands in the test, for controllers that managertest cannot build
	factory    = "pkg/informers.NewFactory" // of what a package asks for that is no controller

	ignores = "TestIgnoresFieldsNotCached"
	stored  = "TestSnapshotsCanBeStored"
)

// madeOf are the controllers that have no planner of their own, each with the package that decides for it, and that has the tests.
var madeOf = map[string]string{
	"replicaset":            "internal/workloads/replicas",
	"replicationcontroller": "internal/workloads/replicas",
}

// excuse says why a controller cannot have one of the tests. It ends when the reason is no longer so.
type excuse struct {
	test, why string
	holds     func(*functions, string) bool // of the folder
}

func noCaches(f *functions, folder string) bool { return !f.imports[folder]["pkg/informers"] }

var excuses = map[string][]excuse{
	"garbagecollector": {
		{ignores, "its caches hold metadata, of which the type has no other fields", noCaches},
	},
	"legacyserviceaccounttokencleaner": {
		{ignores, "it lists live what it reads, and has no cache", noCaches},
	},
}

// Each controller has the tests that CONTRIBUTING.md asks for: of objects that no server accepts, of fields that are not cached, of
// snapshots that were stored, a property besides these, and a benchmark of 100, 1000 and 10,000 objects where a decision is about many.
func TestEachControllerHasTheTestsOfTheHouse(t *testing.T) {
	all := functionsOf(sources(t))
	checked := 0
	for folder := range all.folders {
		name, controller := strings.CutPrefix(folder, "pkg/controllers/")
		if !controller {
			continue
		}
		checked++
		tests := folder
		if of := madeOf[name]; of != "" {
			if tests = of; !all.imports[folder][of] || len(all.planners[folder]) > 0 {
				t.Errorf("%s is not made of %s, or decides itself", name, of)
			}
		}
		lacks := all.lacks(tests)
		for _, e := range excuses[name] {
			if lacks[e.test] == "" || !e.holds(all, folder) {
				t.Errorf("%s needs no excuse for %s: %s", name, e.test, e.why)
			}
			delete(lacks, e.test)
		}
		for _, test := range slices.Sorted(maps.Keys(lacks)) {
			t.Errorf("%s: %s", name, lacks[test])
		}
	}
	if checked < 35 {
		t.Errorf("only %d controllers checked", checked)
	}
}

// lacks says what a folder lacks, by what it is.
func (f *functions) lacks(folder string) map[string]string {
	lacks := map[string]string{ // until it is found
		"anything": "no test gives objects of plantest.Anything to what decides",
		"property": "no property of rapid is about what decides, besides those that each controller has",
		ignores:    ignores + " is missing, or does not compare decisions over projected objects in rapid",
		stored:     stored + " is missing, or does not compare decisions over snapshots of plantest.Restored in rapid",
		"bench":    "no benchmark is about what decides",
	}
	many := f.aboutMany(folder)
	if many {
		lacks["bench"] += ", with 100, 1000 and 10000 objects"
	}
	var of []string // the tests with random objects
	properties := 0
	for _, name := range f.folders[folder] {
		if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Benchmark") {
			continue
		}
		reached := f.reached(folder, name)
		decides := slices.ContainsFunc(f.planners[folder], func(p string) bool { return reached[folder+"."+p] })
		switch {
		case !decides:
		case strings.HasPrefix(name, "Benchmark"):
			if !many || f.sized(folder+"."+name) {
				delete(lacks, "bench")
			}
		case !reached[rapidCheck]:
		case name == ignores:
			if reached[projected] || reached[projecting] || reached[factory] && !strings.HasPrefix(folder, "pkg/controllers/") {
				delete(lacks, ignores)
			}
		case name == stored:
			if reached[restored] {
				delete(lacks, stored)
			}
		default:
			if properties++; reached[anything] {
				of = append(of, name)
			}
		}
	}
	if len(of) > 0 {
		delete(lacks, "anything")
	}
	if properties > 1 || properties > len(of) {
		delete(lacks, "property")
	}
	return lacks
}

// functions are all functions and methods of the module, by folder and name, with what they use.
type functions struct {
	folders   map[string][]string        // the names of functions, by folder
	bodies    map[string][]*ast.FuncDecl // by folder.name: methods of several types may have one name
	uses      map[string]map[string]bool // what they use: folder.name, or the path of another module and the name
	planners  map[string][]string        // the functions of a folder that decide
	imports   map[string]map[string]bool // of the files that are no tests
	types     map[string]ast.Expr        // by folder.name
	snapshots map[string][]string        // the names of the types of a folder that are snapshots
}

func functionsOf(all []source) *functions {
	f := &functions{
		folders: map[string][]string{}, bodies: map[string][]*ast.FuncDecl{}, uses: map[string]map[string]bool{},
		planners: map[string][]string{}, imports: map[string]map[string]bool{}, types: map[string]ast.Expr{},
		snapshots: map[string][]string{},
	}
	for _, s := range all {
		folder := path.Dir(s.path)
		if f.imports[folder] == nil {
			f.imports[folder] = map[string]bool{}
		}
		named := map[string]string{}
		for _, i := range s.file.Imports {
			full, _ := strconv.Unquote(i.Path.Value)
			inside := strings.TrimPrefix(full, module+"/")
			if name := path.Base(full); i.Name == nil {
				named[name] = inside
			} else {
				named[i.Name.Name] = inside
			}
			if !s.isTest() {
				f.imports[folder][inside] = true
			}
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				f.add(folder, d, s.decides() && !slices.Contains([]string{"rights.go", "doc.go"}, path.Base(s.path)))
				f.use(folder, d.Name.Name, named, d)
			case *ast.GenDecl: // a variable may hold a function
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && len(v.Names) == 1 && d.Tok == token.VAR {
						f.use(folder, v.Names[0].Name, named, v)
					}
				}
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				f.types[folder+"."+n.Name.Name] = n.Type
			case *ast.IndexListExpr:
				if of := ofController(n); of != nil && !s.isTest() {
					f.snapshots[folder] = append(f.snapshots[folder], fmt.Sprint(of[0]))
				}
			}
			return true
		})
	}
	return f
}

// ofController returns the types of the snapshot, the decision and the memory of a controller; nil of anything else.
func ofController(n *ast.IndexListExpr) []ast.Expr {
	x, ok := n.X.(*ast.SelectorExpr)
	switch {
	case !ok || fmt.Sprint(x.X) != "reconcile":
		return nil
	case x.Sel.Name == "Controller":
		return n.Indices
	case x.Sel.Name == "TypedController":
		return n.Indices[1:] // after the key
	}
	return nil
}

func (f *functions) add(folder string, d *ast.FuncDecl, decides bool) {
	f.folders[folder] = append(f.folders[folder], d.Name.Name)
	f.bodies[folder+"."+d.Name.Name] = append(f.bodies[folder+"."+d.Name.Name], d)
	if decides {
		f.planners[folder] = append(f.planners[folder], d.Name.Name)
	}
}

// use notes what a function or a variable of a folder uses.
func (f *functions) use(folder, name string, imports map[string]string, body ast.Node) {
	id := folder + "." + name
	if f.uses[id] == nil {
		f.uses[id] = map[string]bool{}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] != "" {
				f.uses[id][imports[x.Name]+"."+n.Sel.Name] = true
				return false
			}
		case *ast.Ident:
			f.uses[id][folder+"."+n.Name] = true
		}
		return true
	})
}

// reached are what a function of a folder uses, and what that uses in the folder and in the packages for tests.
func (f *functions) reached(folder, name string) map[string]bool {
	seen, next := map[string]bool{}, []string{folder + "." + name}
	for len(next) > 0 {
		id := next[0]
		next = next[1:]
		if seen[id] {
			continue
		}
		seen[id] = true
		if !strings.HasPrefix(id, folder+".") && !strings.HasPrefix(id, "internal/testing/") {
			continue
		}
		for used := range f.uses[id] {
			if !seen[used] {
				next = append(next, used)
			}
		}
	}
	return seen
}

// sized reports whether a benchmark has the three sizes.
func (f *functions) sized(id string) bool {
	sizes := map[string]bool{"100": false, "1000": false, "10000": false}
	for _, body := range f.bodies[id] {
		ast.Inspect(body, func(n ast.Node) bool {
			if number, ok := n.(*ast.BasicLit); ok && number.Kind == token.INT {
				if text := strings.ReplaceAll(number.Value, "_", ""); !sizes[text] {
					if _, asked := sizes[text]; asked {
						sizes[text] = true
					}
				}
			}
			return true
		})
	}
	return sizes["100"] && sizes["1000"] && sizes["10000"]
}

// aboutMany reports whether a snapshot of the folder has a list of anything but words and numbers, so that its size says what a decision
// costs.
func (f *functions) aboutMany(folder string) bool {
	if len(f.snapshots[folder]) == 0 {
		return true
	}
	return slices.ContainsFunc(f.snapshots[folder], func(name string) bool { return f.many(folder, name, map[string]bool{}) })
}

func (f *functions) many(folder, name string, seen map[string]bool) (many bool) {
	if seen[name] || f.types[folder+"."+name] == nil {
		return false
	}
	seen[name] = true
	ast.Inspect(f.types[folder+"."+name], func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ArrayType:
			many = many || !basic(n.Elt)
		case *ast.MapType:
			many = many || !basic(n.Value)
		case *ast.Ident:
			many = many || f.many(folder, n.Name, seen)
		}
		return !many
	})
	return many
}

func basic(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && slices.Contains([]string{"string", "bool", "int", "int32", "int64", "uint64", "byte"}, name.Name)
}
