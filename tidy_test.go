// Package tidy has no code: its test keeps the project's shape (docs/architecture.md).
package tidy

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
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

// meetsTheWorld are the files of a controller in which it does more than decide, besides observe*.go and runner*.go. They have these
// names in all controllers.
var meetsTheWorld = []string{
	"controller.go", "metrics.go", "options.go",
	"term.go",    // what it knows beside its keys
	"sign.go",    // what is signed right before a write
	"cleanup.go", // what takes the place of a controller that is switched off
	"signing_key.go",
}

// decides reports whether a file of a controller, or of what controllers are made of, belongs to its planner.
func (s source) decides() bool {
	folder, base := path.Split(s.path)
	controller := strings.HasPrefix(folder, "pkg/controllers/") && folder != "pkg/controllers/" || pure(folder)
	return controller && !s.isTest() && !slices.Contains(meetsTheWorld, base) && !observes(base) && !runs(base)
}

// pureFolders are the parts of internal that planners may import, with what is below those that end with a slash. They are pure, except for
// what the names of files tell.
var pureFolders = []string{
	"internal/workloads", "internal/workloads/", "internal/network/", "internal/quota", "internal/credentials/", "internal/cowmap",
	"internal/nodes", "internal/volumes", "internal/truncate",
}

func pure(folder string) bool {
	folder = strings.TrimSuffix(folder, "/")
	return slices.ContainsFunc(pureFolders, func(one string) bool {
		return folder == one || strings.HasSuffix(one, "/") && strings.HasPrefix(folder, one)
	})
}

// runs reports whether a file of that name belongs to a controller that is run by itself, and not by package reconcile.
func runs(base string) bool {
	return base == "runner.go" || strings.HasPrefix(base, "runner_")
}

// observes reports whether a file of that name belongs to Observe.
func observes(base string) bool {
	return base == "observe.go" || strings.HasPrefix(base, "observe_")
}

func TestPlannersArePure(t *testing.T) {
	impure := regexp.MustCompile(
		`^(context|net|net/.*|os|os/.*|sync|sync/.*|math/rand.*|k8s\.io/client-go.*|k8s\.io/klog.*|k8s\.io/component-base.*)$`)
	ours := []string{"pkg/plan", "pkg/rbac"}
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	checked := 0
	for _, s := range sources(t) {
		if !s.decides() {
			continue
		}
		checked++
		for _, path := range s.imports() {
			to, own := strings.CutPrefix(path, module+"/")
			if impure.MatchString(path) && path != "net/netip" || own && !slices.Contains(ours, to) && !pure(to) {
				t.Errorf("%s imports %s", s.path, path)
			}
		}
		for _, decl := range s.file.Decls {
			if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.VAR {
				t.Errorf("%s has a global variable", s.set.Position(decl.Pos()))
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					t.Errorf("%s asks the time", s.set.Position(n.Pos()))
				}
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", s.set.Position(n.Pos()))
			}
			return true
		})
	}
	if checked < 25 {
		t.Errorf("only %d files checked", checked)
	}
}

// layers are the packages of the library, each line above those that it stands on: a package imports only what later lines name. A name
// that ends with a slash stands for all packages below it, of which none imports another one, except in the pure parts of internal.
var layers = []string{
	"pkg/manager/managertest internal/metrics internal/agreement",
	"pkg/controllers/",
	"internal/workloads/replicas internal/workloads/scale internal/quota/usage internal/credentials",
	"pkg/manager",
	"pkg/informers internal/explainhttp",
	"internal/history",
	"pkg/reconcile internal/identity pkg/informers/metadata internal/serving pkg/client/clienttest internal/why",
	"internal/podcache",
	"internal/listwatch",
	"internal/executor internal/keystate internal/health internal/projection pkg/explain pkg/leaderelection " +
		"internal/serving/certificates",
	"pkg/client internal/freshness internal/files internal/quota/sums",
	"internal/workloads internal/workloads/ internal/network/ internal/quota internal/credentials/ internal/queue " +
		"internal/serving/access internal/serving/pages",
	"pkg/plan pkg/rbac pkg/brake internal/flagutil internal/features internal/selectors internal/circuit internal/paging " +
		"internal/apis internal/serving/reply internal/cowmap internal/nodes internal/volumes internal/clock internal/panics " +
		"internal/list internal/gauge internal/truncate",
}

// layer returns the number of the line that names a package most exactly, and false for packages that are not of the library.
func layer(name string) (number int, ok bool) {
	longest := 0
	for i, line := range layers {
		for _, of := range strings.Fields(line) {
			below := strings.HasSuffix(of, "/") && strings.HasPrefix(name, of)
			if (name == of || below) && len(of) > longest {
				number, ok, longest = i, true, len(of)
			}
		}
	}
	return number, ok
}

// library reports whether a package is of the library, and not only of its tests.
func library(name string) bool {
	return (strings.HasPrefix(name, "pkg/") || strings.HasPrefix(name, "internal/")) && name != "pkg/controllers" &&
		!strings.HasPrefix(name, "internal/testing/") && name != "internal/projection/projectiontest"
}

// Observe has no side effects: what it finds worth a line is in the snapshot, and is logged when the plan has been applied.
func TestObserveDoesNotLog(t *testing.T) {
	checked := 0
	for _, s := range sources(t) {
		folder, base := path.Split(s.path)
		if !observes(base) || !strings.HasPrefix(folder, "pkg/controllers/") && folder != "internal/workloads/replicas/" {
			continue
		}
		checked++
		if slices.Contains(s.imports(), "k8s.io/klog/v2") || slices.Contains(s.imports(), "k8s.io/component-base/metrics") {
			t.Errorf("%s logs or counts", s.path)
		}
	}
	if checked < 4 {
		t.Errorf("only %d files checked", checked)
	}
}

// The file metrics.go of a controller counts. What the brake holds is in its plans, and what people are told of its
// keys is in its plans and aliases (reconcile.Controller.Aliases).
func TestMetricsOnlyCount(t *testing.T) {
	checked := 0
	for _, s := range sources(t) {
		folder, base := path.Split(s.path)
		if base != "metrics.go" || !strings.HasPrefix(folder, "pkg/controllers/") && !pure(folder) {
			continue
		}
		checked++
		for _, other := range []string{"brake", "explain"} {
			if slices.Contains(s.imports(), module+"/pkg/"+other) {
				t.Errorf("%s imports pkg/%s", s.path, other)
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d files checked", checked)
	}
}

// What a controller knows beside its keys belongs to its term (reconcile.Term), and what only saves time to a reconcile.Memo: so nothing
// has a lock where controllers observe, plan and enqueue, and Observe can change nothing. Metrics and runners may have locks.
func TestControllersNeedNoLocks(t *testing.T) {
	excused := map[string]string{
		"pkg/controllers/attachdetach/observe_misnamed.go":              "an index of two caches: a look changes no answer",
		"pkg/controllers/cronjob/observe.go":                            "time zones, which are files: it saves time and changes no answer",
		"pkg/controllers/csrsigning/observe_authority.go":               "the last pair of files that belong together, whoever leads",
		"pkg/controllers/daemonset/observe_nodes.go":                    "which nodes run what: it saves time and changes no answer",
		"pkg/controllers/horizontalpodautoscaler/observe.go":            "discovery is asked anew once in a while",
		"pkg/controllers/horizontalpodautoscaler/observe_answers.go":    "live reads that several keys share",
		"pkg/controllers/horizontalpodautoscaler/observe_namespaces.go": "what targets that are read live select (HPA-16)",
		"pkg/controllers/serviceaccounttoken/controller.go":             "it waits for files that it follows at the same time",
	}
	checked := 0
	for _, s := range sources(t) {
		folder, base := path.Split(s.path)
		if !strings.HasPrefix(folder, "pkg/controllers/") && !pure(folder) || s.isTest() || runs(base) || base == "metrics.go" {
			continue
		}
		checked++
		locks := slices.Contains(s.imports(), "sync") || slices.Contains(s.imports(), "sync/atomic")
		switch why, is := excused[s.path]; {
		case locks && !is:
			t.Errorf("%s imports sync", s.path)
		case is && (!locks || why == ""):
			t.Errorf("%s needs no excuse any more", s.path)
		}
		delete(excused, s.path)
	}
	for path := range excused {
		t.Errorf("there is no %s", path)
	}
	if checked < 200 {
		t.Errorf("only %d files checked", checked)
	}
}

func TestImportsPointOneWay(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		from := path.Dir(s.path)
		found[from] = true
		above, known := layer(from)
		if library(from) && !known {
			t.Errorf("%s has no line in layers", from)
		}
		for _, path := range s.imports() {
			to, ours := strings.CutPrefix(path, module+"/")
			if strings.HasPrefix(path, "k8s.io/"+"kubernetes") {
				t.Errorf("%s imports the original: %s", s.path, path)
			}
			if !ours || s.isTest() && to == fixedSeed {
				continue
			}
			under, standing := layer(to)
			switch {
			case strings.HasPrefix(to, "pkg/controllers/") && strings.HasPrefix(from, "pkg/controllers/") && from != to:
				t.Errorf("%s imports another controller: %s", s.path, to)
			case to == "pkg/controllers" && !strings.HasPrefix(from, "cmd/") && !strings.HasPrefix(from, "test/") && from != "hack/gen" &&
				!s.isTest():
				t.Errorf("%s imports the registry", s.path)
			case strings.HasPrefix(to, "test/") && !strings.HasPrefix(from, "test/"):
				t.Errorf("%s imports %s", s.path, to)
			case library(from) && !s.isTest() && (!standing || under < above || under == above && !(pure(from) && pure(to))):
				t.Errorf("%s imports %s, which does not lie below it", s.path, to)
			}
		}
	}
	for _, line := range layers {
		for _, name := range strings.Fields(line) {
			if !strings.HasSuffix(name, "/") && !found[name] {
				t.Errorf("there is no package %s", name)
			}
		}
	}
}

// codeLines counts the lines of a file that have more than a comment.
func (s source) codeLines(t *testing.T) int {
	t.Helper()
	text := []byte(read(t, s.path))
	var scan scanner.Scanner
	file := token.NewFileSet().AddFile(s.path, -1, len(text))
	scan.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		at, tok, literal := scan.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // the end of a line
		}
		for i := range strings.Count(literal, "\n") + 1 {
			lines[file.Line(at)+i] = true
		}
	}
}

// A package below internal with one user and little code is a file of that user: it must have two users, or as many lines of code as this.
const leastCode = 110

func TestSmallPackagesHaveTwoUsers(t *testing.T) {
	users, lines := map[string]set{}, map[string]int{}
	for _, s := range sources(t) {
		folder := path.Dir(s.path)
		if s.isTest() || strings.HasPrefix(folder, "test/") {
			continue
		}
		lines[folder] += s.codeLines(t)
		for _, imported := range s.imports() {
			if to, ours := strings.CutPrefix(imported, module+"/"); ours {
				put(users, to, folder)
			}
		}
	}
	checked := 0
	for folder, n := range lines {
		if !library(folder) || !strings.HasPrefix(folder, "internal/") {
			continue
		}
		checked++
		if len(users[folder]) < 2 && n < leastCode {
			t.Errorf("%s has %d lines of code, and its users are %v", folder, n, slices.Collect(maps.Keys(users[folder])))
		}
	}
	if checked < 25 {
		t.Errorf("only %d packages checked", checked)
	}
}

// fixedSeed is the package by which properties draw the same inputs in each run of the tests.
const fixedSeed = "internal/testing/plantest/fixedseed"

func TestPropertiesDrawTheSameEachTime(t *testing.T) {
	draws, fixed := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		folder := path.Dir(s.path)
		for _, path := range s.imports() {
			switch path {
			case "pgregory.net/rapid":
				draws[folder] = true
			case module + "/" + fixedSeed, module + "/internal/testing/plantest":
				fixed[folder] = true
			}
		}
	}
	for folder := range draws {
		if !fixed[folder] && folder != fixedSeed {
			t.Errorf("%s uses rapid and imports neither internal/testing/plantest nor %s", folder, fixedSeed)
		}
	}
	if len(draws) < 30 {
		t.Errorf("only %d folders use rapid", len(draws))
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

// withoutAlias are the controllers that have no alias (TE-1, REG-5, REG-9, REG-34, REG-43, REG-51).
var withoutAlias = []string{"device-taint-eviction-controller", "kube-apiserver-serving-clustertrustbundle-publisher-controller",
	"podcertificaterequest-cleaner-controller", "podgroup-protection-controller", "resourcepoolstatusrequest-controller",
	"selinux-warning-controller", "service-cidr-controller", "taint-eviction-controller",
	"validatingadmissionpolicy-status-controller", "volumeattributesclass-protection-controller"}

// TestRegistryAndFoldersAgree: each folder of a controller has a line in the registry, and a page in docs; and each line of
// the registry has all that belongs to a controller.
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
		if !strings.Contains(string(registry), e.Name()+".New(") {
			t.Errorf("the registry does not have %s", e.Name())
		}
		if _, err := os.Stat("docs/" + e.Name() + ".md"); err != nil {
			t.Errorf("%s has no page: %v", e.Name(), err)
		}
	}
	for _, c := range controllers.Registry() {
		if c.Name == "" || c.Alias == "" && !slices.Contains(withoutAlias, c.Name) || c.Account == "" || c.Init == nil || c.Rights == nil {
			t.Errorf("something is missing: %+v", c)
		}
	}
}

// Each package of the library has a file doc.go, which says in its first paragraphs what the package is and how it is used, and nothing
// else.
func TestPackagesExplainTheirUse(t *testing.T) {
	explained := map[string]bool{}
	for _, s := range sources(t) {
		folder, base := path.Split(s.path)
		if !strings.HasPrefix(folder, "pkg/") && !strings.HasPrefix(folder, "internal/") || s.isTest() {
			continue
		}
		explained[folder] = explained[folder] || base == "doc.go"
		switch text := s.file.Doc.Text(); {
		case base != "doc.go" && text != "":
			t.Errorf("%s has a comment about the package", s.path)
		case base == "doc.go" && (len(s.file.Decls) > 0 || strings.Count(text, "\n\n") == 0):
			t.Errorf("%s does not say how the package is used, or has more than that", s.path)
		}
	}
	for folder, is := range explained {
		if !is {
			t.Errorf("%s has no doc.go", folder)
		}
	}
	if len(explained) < 60 {
		t.Errorf("only %d packages found", len(explained))
	}
}
