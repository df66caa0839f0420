package tidy

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestOnlyMainEndsTheProcess(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || s.file.Name.Name == "main" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name, ok := selector.X.(*ast.Ident)
			if ok &&
				(name.Name == "os" && selector.Sel.Name == "Exit" || name.Name == "klog" && strings.HasPrefix(selector.Sel.Name, "Fatal")) {
				t.Errorf("%s ends the process", s.set.Position(n.Pos()))
			}
			return true
		})
	}
}

// forbidden finds uses of names of packages, or of methods if the package is empty, in the product's files, but for files in which they
// are excused: these must use them.
func forbidden(t *testing.T, what string, uses func(of, name string) bool, excused map[string]string, folders ...string) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		in := func(folder string) bool { return strings.HasPrefix(s.path, folder) }
		if s.isTest() || !slices.ContainsFunc(folders, in) || strings.Contains(s.path, "test/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of := ""
			if name, ok := selector.X.(*ast.Ident); ok {
				of = name.Name
			}
			if uses(of, selector.Sel.Name) {
				used[s.path] = true
				if excused[s.path] == "" {
					t.Errorf("%s: %s", s.set.Position(n.Pos()), what)
				}
			}
			return true
		})
	}
	for path := range excused {
		if !used[path] {
			t.Errorf("%s needs no excuse any more", path)
		}
	}
}

// Whatever can wait ends with the term: it has the context of who waits. A term that does not end keeps its lease, and the process has
// to end.
func TestWhatWaitsHasAContext(t *testing.T) {
	mapper := []string{"RESTMapping", "RESTMappings", "KindFor", "KindsFor", "ResourceFor", "ResourcesFor", "ServerGroupsAndResources",
		"ServerPreferredResources"}
	forbidden(t, "it may wait, and does not have the context of who waits", func(of, name string) bool {
		return of == "context" && (name == "Background" || name == "TODO") || of == "time" && name == "Sleep" ||
			of == "http" && (name == "NewRequest" || name == "Get") ||
			of != "client" && slices.Contains(mapper, name)
	}, map[string]string{
		"pkg/client/mapper.go": "libraries want a mapper without contexts; each call is bounded, and who runs discovery " +
			"does so for all",
		"pkg/informers/factory.go":           "a context that has ended",
		"pkg/informers/metadata/metadata.go": "to want nothing waits for nothing",
		"pkg/manager/manager.go":             "to build makes no request",
		"internal/identity/token.go":         "a token is for all who wait, each with a context; the request is bounded",
		"internal/listwatch/coalescing.go":   "a tenth of a second at most",
		"internal/serving/serving.go":        "the end of the server, which is bounded",
	}, "pkg/", "internal/")
}

// Controllers compare deadlines with the time that they are told, which does not jump (internal/clock). The clock of the machine
// measures how long something took, or when this process has seen it, which its monotonic part tells.
func TestControllersAreToldTheTime(t *testing.T) {
	forbidden(t, "the clock of the machine may jump, see reconcile.Request.Now", func(of, name string) bool {
		return of == "time" && (name == "Now" || name == "Until") || of == "metav1" && name == "Now"
	}, map[string]string{
		"pkg/controllers/garbagecollector/runner.go":                 "when this process has tried to delete an object",
		"pkg/controllers/validatingadmissionpolicystatus/term.go":    "when this process has seen that a definition has changed, or has read a type",
		"pkg/controllers/garbagecollector/runner_brake.go":           "since when the brake holds",
		"pkg/controllers/garbagecollector/term.go":                   "when this process has seen that an object is gone",
		"pkg/controllers/garbagecollector/runner_verify.go":          "for people",
		"pkg/controllers/attachdetach/observe_lookups.go":            "when this process has seen that a driver is absent",
		"pkg/controllers/attachdetach/observe_absent.go":             "when this process has seen that a driver is absent",
		"pkg/controllers/attachdetach/term.go":                       "when this process has seen that a driver is absent",
		"pkg/controllers/attachdetach/metrics.go":                    "metrics",
		"pkg/controllers/csrsigning/metrics.go":                      "metrics",
		"pkg/controllers/horizontalpodautoscaler/controller.go":      "which turn a namespace has: no deadline",
		"pkg/controllers/horizontalpodautoscaler/metrics.go":         "metrics",
		"pkg/controllers/horizontalpodautoscaler/observe.go":         "how long reads took",
		"pkg/controllers/horizontalpodautoscaler/observe_answers.go": "when this process has asked",
		"pkg/controllers/persistentvolumebinder/term.go":             "when this process has seen that a class is gone",
		"pkg/controllers/statefulset/metrics.go":                     "metrics",
		"pkg/controllers/ttlafterfinished/metrics.go":                "metrics, and a line in the log",
		"internal/workloads/replicas/metrics.go":                     "metrics",
		"internal/quota/sums/sums.go":                                "when this process has seen that a quota or an object has come",
		"internal/quota/usage/index.go":                              "when this process has asked, and counted anew",
		"internal/quota/usage/watches.go":                            "when this process has asked, and begun to watch",
	}, "pkg/controllers/", "internal/workloads/", "internal/network/", "internal/quota/", "internal/credentials/")
}

// An answer 404 need not be about the object: a load balancer gives it, or a server that does not serve the path yet. Only
// client.IsAbsent tells the two apart, so what decides by it asks nothing else.
func TestAbsenceIsOfTheObject(t *testing.T) {
	paths := map[string]string{ // where a path that is not served means something, too
		"internal/executor/collection.go":                            "a resource without deletecollection",
		"internal/executor/errors.go":                                "it names the namespace",
		"pkg/controllers/namespace/observe.go":                       "a resource that is not served any more is empty",
		"pkg/controllers/disruption/observe_scale.go":                "a kind without scale",
		"pkg/controllers/horizontalpodautoscaler/observe_metrics.go": "an API that is not registered",
		"pkg/controllers/horizontalpodautoscaler/observe_target.go":  "a kind without scale",
		"pkg/controllers/garbagecollector/runner_verify.go":          "a kind that is not served cannot be looked up",
		"pkg/controllers/garbagecollector/observe_absence.go":        "a server that does not aggregate",
	}
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || !strings.HasPrefix(s.path, "pkg/controllers/") && !strings.HasPrefix(s.path, "internal/executor/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if x, named := ast.Node(nil), false; ok {
				x = selector.X
				if id, is := x.(*ast.Ident); is {
					named = id.Name == "apierrors" && selector.Sel.Name == "IsNotFound"
				}
				if named && paths[s.path] == "" {
					t.Errorf("%s takes any answer 404 for the absence of an object, see client.IsAbsent", s.set.Position(n.Pos()))
				}
				used[s.path] = used[s.path] || named
			}
			return true
		})
	}
	for path := range paths {
		if !used[path] {
			t.Errorf("%s does not ask any more", path)
		}
	}
}

// TestContinueTokensAreFollowedInOnePlace: whoever reads the next page of a list has package paging say whether there is to be one. A
// server makes up the tokens, and may never stop.
func TestContinueTokensAreFollowedInOnePlace(t *testing.T) {
	found := 0
	for _, s := range sources(t) {
		if !library(path.Dir(s.path)) || s.isTest() || path.Dir(s.path) == "pkg/client/clienttest" {
			continue
		}
		follows := false
		ast.Inspect(s.file, func(n ast.Node) bool {
			if set, ok := n.(*ast.AssignStmt); ok {
				for i, to := range set.Lhs {
					if x, ok := to.(*ast.SelectorExpr); ok && x.Sel.Name == "Continue" && len(set.Rhs) == len(set.Lhs) {
						_, constant := set.Rhs[i].(*ast.BasicLit)
						follows = follows || !constant
					}
				}
			}
			return true
		})
		if !follows {
			continue
		}
		if found++; !slices.Contains(s.imports(), module+"/internal/paging") {
			t.Errorf("%s follows continue tokens without internal/paging", s.path)
		}
	}
	if found < 4 {
		t.Errorf("only %d files follow continue tokens", found)
	}
}
