package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// project is what pages speak of.
type project struct {
	files     []string
	known     set // these files
	folders   set
	packages  map[string]set // the exported names of all packages of a name
	types     map[string]set // the fields and methods of each type, as "plan.Change", and of all types of a name, as "Change"
	functions map[string]set // the functions of tests and benchmarks by folder
	flags     set            // the flags of our programs but the manager
	manager   *cobra.Command
	targets   set // of the Makefile
	variables set // and the words in it that may be variables
}

type set map[string]bool

func (s set) matches(pattern *regexp.Regexp) bool {
	for name := range s {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}

func put(sets map[string]set, key, value string) {
	if sets[key] == nil {
		sets[key] = set{}
	}
	sets[key][value] = true
}

var projectOnce = sync.OnceValues(newProject)

func loadProject(t *testing.T) *project {
	t.Helper()
	r, err := projectOnce()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newProject() (*project, error) {
	files, err := allFiles()
	if err != nil {
		return nil, err
	}
	r := &project{
		files: files, known: set{}, folders: set{}, targets: set{}, variables: set{}, flags: set{},
		packages: map[string]set{}, types: map[string]set{}, functions: map[string]set{},
		manager: app.NewCommand(app.NewProgram("controller-manager", controllers.Registry())),
	}
	makefile := r.text("Makefile")
	for _, match := range target.FindAllStringSubmatch(makefile, -1) {
		for name := range strings.FieldsSeq(match[1]) {
			r.targets[name] = true
		}
	}
	for _, name := range variable.FindAllString(makefile, -1) {
		r.variables[name] = true
	}
	for _, file := range files {
		r.known[file] = true
		for folder := path.Dir(file); folder != "."; folder = path.Dir(folder) {
			r.folders[folder] = true
		}
		if path.Ext(file) != ".go" || strings.Contains(file, "/testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		r.add(file, parsed)
	}
	return r, nil
}

func (r *project) text(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(text)
}

// add takes the names of a Go file.
func (r *project) add(file string, parsed *ast.File) {
	name, test := parsed.Name.Name, strings.HasSuffix(file, "_test.go")
	if !test {
		put(r.packages, name, "") // so that the package is known
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				r.addMember(name, receiver(d.Recv.List[0].Type), d.Name.Name)
			} else if test {
				put(r.functions, path.Dir(file), d.Name.Name)
			} else {
				put(r.packages, name, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				r.addSpec(name, test, spec)
			}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			r.addFlag(call)
		}
		return true
	})
}

func (r *project) addSpec(name string, test bool, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range spec.Names {
			if !test {
				put(r.packages, name, id.Name)
			}
		}
	case *ast.TypeSpec:
		if test {
			return
		}
		put(r.packages, name, spec.Name.Name)
		var fields *ast.FieldList
		switch t := spec.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default:
			r.addMember(name, spec.Name.Name, "*") // another type tells what it has
			return
		}
		for _, field := range fields.List {
			if len(field.Names) == 0 {
				r.addMember(name, spec.Name.Name, "*") // embedded
			}
			for _, id := range field.Names {
				r.addMember(name, spec.Name.Name, id.Name)
			}
		}
	}
}

func (r *project) addMember(in, of, name string) {
	put(r.types, of, name)
	put(r.types, in+"."+of, name)
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var flagMaker = regexp.MustCompile(`^(Bool|Duration|Float64|Func|Int|Int64|String|StringSlice|Text|Uint|Uint64|Var)(Var|Func|P|VarP)?$`)

// addFlag takes the name of a flag where a program makes it: the first or second argument.
func (r *project) addFlag(call *ast.CallExpr) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !flagMaker.MatchString(f.Sel.Name) {
		return
	}
	for i, argument := range call.Args {
		if text := stringsIn(argument); i < 2 && len(text) == 1 {
			r.flags[text[0]] = true
			return
		}
	}
}

var (
	qualified = regexp.MustCompile(`(?:^|[^\w./"-])([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	ofAType   = regexp.MustCompile(`^\*?([A-Z]\w*)\.([A-Z]\w*)\b`)
	variable  = regexp.MustCompile(`\b[A-Z][A-Z_]+\b`)
	ofATest   = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz|Example)[A-Z]\w*`)
)

// wrongNames finds names of our packages, fields and methods of our types, and tests that do not exist.
func wrongNames(r *project, p page) (found []mistake) {
	for _, s := range p.code() {
		for _, match := range qualified.FindAllStringSubmatch(s.text, -1) {
			names, ours := r.packages[match[1]]
			switch {
			case !ours || s.block && r.declares(p, match[1]):
			case !names[match[2]]:
				found = append(found, mistakenf(s.line, "no package %s has %s", match[1], match[2]))
			case match[3] != "" && !r.hasMember(match[1]+"."+match[2], match[3]):
				found = append(found, mistakenf(s.line, "no %s.%s has %s", match[1], match[2], match[3]))
			}
		}
		match := ofAType.FindStringSubmatch(s.text)
		if match != nil && !s.block && r.types[match[1]] != nil && !r.hasMember(match[1], match[2]) {
			found = append(found, mistakenf(s.line, "no %s has %s", match[1], match[2]))
		}
		for _, name := range ofATest.FindAllString(s.text, -1) {
			if !r.hasTestNamed(name) {
				found = append(found, mistakenf(s.line, "there is no %s", name))
			}
		}
	}
	return found
}

// declares reports whether an example on the page has a variable of that name.
func (r *project) declares(p page, name string) bool {
	return regexp.MustCompile(`(?m)^\s*(\w+, )?` + name + `(, \w+)* :?= `).MatchString(p.text)
}

func (r *project) hasMember(of, name string) bool {
	return r.types[of][name] || r.types[of]["*"]
}

// hasTest reports whether a folder, or one below it, has a function of tests that matches.
func (r *project) hasTest(folder string, pattern *regexp.Regexp, below bool) bool {
	for each, names := range r.functions {
		in := each == folder || below && (folder == "." || strings.HasPrefix(each, folder+"/"))
		if in && names.matches(pattern) {
			return true
		}
	}
	return false
}

// hasTestNamed reports whether a test of any folder has that name, or begins with it.
func (r *project) hasTestNamed(prefix string) bool {
	for _, names := range r.functions {
		for name := range names {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
	}
	return false
}

func TestWrongNames(t *testing.T) {
	testCheck(t, wrongNames, []pageCase{
		{"all exist", page{text: "`plan.Plan`, `plan.Change.Sign`, `Request.Reader`, `manager.New(ctx, ...)`, `corev1.Pod`,\n" +
			"`TestPages`, `TestCrash`"}, nil},
		{"a function is gone", page{text: "`manager.Run(ctx, manager.Config{...}, controllers.Registry)`"},
			[]string{"manager has Run", "manager has Config"}},
		{"a field is gone", page{text: "`plan.Change.Nosuch` and `Elector.Nosuch`"},
			[]string{"plan.Change has Nosuch", "Elector has Nosuch"}},
		{"in an example", page{text: "```go\nx := plan.Nosuch{}\n```"}, []string{"plan has Nosuch"}},
		{"a test is gone", page{text: "`TestNosuch`"}, []string{"TestNosuch"}},
	})
	if r := loadProject(t); !slices.Contains(r.files, "README.md") || len(r.packages) < 50 || len(r.types) < 100 || len(r.functions) < 50 {
		t.Errorf("%d packages, %d types and %d folders with tests found", len(r.packages), len(r.types), len(r.functions))
	}
}
