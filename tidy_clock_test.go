package tidy

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deadlines says of each package that compares times with the present one by which clock it does, beside what internal/clock does for
// all: a jump of the machine's clock that the API server does not confirm is seen by none of them. With "seen", times of objects count
// by the monotonic clock from when this process has seen them, and TestWallClockJumps of the package shows that. Else the comparison is
// of times that this process remembers, which have a monotonic reading by themselves ("own"), or follows the wall clock, and why that
// has to be.
var deadlines = map[string]string{
	"pkg/controllers/attachdetach": "own, and since when nodes are not ready or VolumeAttachments exist, which others " +
		"have written",
	"pkg/controllers/cronjob":                          "schedules follow the wall clock",
	"pkg/controllers/csrapproving":                     "own",
	"pkg/controllers/csrcleaner":                       "hours since others have decided",
	"pkg/controllers/csrsigning":                       "certificates end by the wall clock",
	"pkg/controllers/daemonset":                        "own",
	"pkg/controllers/deployment":                       "seen",
	"pkg/controllers/devicetainteviction":              "seconds since drivers and the API server say that a taint was added; and own",
	"pkg/controllers/disruption":                       "own, and times that the API server has written in the status",
	"pkg/controllers/garbagecollector":                 "own",
	"pkg/controllers/horizontalpodautoscaler":          "seen",
	"pkg/controllers/job":                              "seen",
	"pkg/controllers/legacyserviceaccounttokencleaner": "days of the calendar",
	"pkg/controllers/namespace":                        "own",
	"pkg/controllers/nodeipam":                         "own",
	"pkg/controllers/nodelifecycle":                    "seen",
	"pkg/controllers/persistentvolumebinder":           "own, and seconds since the API server has created a volume",
	"pkg/controllers/podcertificaterequestcleaner":     "minutes since the API server has created a request",
	"pkg/controllers/podgc":                            "seen",
	"pkg/controllers/podgroupprotection":               "own",
	"pkg/controllers/pvcprotection":                    "own, and an event some seconds after a deletion",
	"pkg/controllers/resourceclaim":                    "own: for how long a template is missing",
	"pkg/controllers/resourcepoolstatusrequest":        "own, and hours since requests were made or answered",
	"pkg/controllers/resourcequota":                    "own",
	"pkg/controllers/servicecidr":                      "seconds since the API server has noted a deletion",
	"pkg/controllers/storageversionmigrator":           "a minute since the API server has noted a creation",
	"pkg/controllers/tainteviction":                    "seen",
	"pkg/controllers/ttlafterfinished":                 "times to live follow the wall clock, as users read them in the status",
	"pkg/controllers/vacprotection":                    "seconds since the API server has noted a deletion",
	"pkg/controllers/validatingadmissionpolicystatus":  "own, and seconds since the API server has created a definition",
	"internal/credentials/bootstraptoken":              "tokens expire by the wall clock",
	"internal/workloads/podutil":                       "seconds since a kubelet has said that a pod is ready",
	"internal/workloads/replicas":                      "own, and ages of pods",
	"internal/quota":                                   "charges of pods that the API server has given a time to end",
}

// comparesTimes finds comparisons with the present time.
var comparesTimes = regexp.MustCompile(`(?i)\bnow\.(Sub|Before|After)\(|\.(Sub|Before|After)\((\w+\.)*now\b`)

func TestDeadlines(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		folder := path.Dir(s.path)
		if s.isTest() || !strings.HasPrefix(folder, "pkg/controllers/") && !pure(folder) {
			continue
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		if comparesTimes.Match(text) {
			if found[folder] = true; deadlines[folder] == "" {
				t.Errorf("%s compares times with the present one; deadlines is to say by which clock", s.path)
			}
		}
	}
	shown := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() && declares(s, "TestWallClockJumps") {
			shown[path.Dir(s.path)] = true
		}
	}
	for folder, by := range deadlines {
		if !found[folder] {
			t.Errorf("%s does not compare times any more", folder)
		}
		if seen := by == "seen"; seen != shown[folder] {
			t.Errorf("%s says %q, and has the test: %v", folder, by, shown[folder])
		}
	}
}

func declares(s source, name string) bool {
	return slices.ContainsFunc(s.file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Name.Name == name
	})
}

// Fields of objects have numbers of seconds that users choose. Their product with a second may wrap, so that what is to last for ever is
// over at once: workloads.Seconds is what makes durations of them.
func TestSecondsOfObjectsDoNotWrap(t *testing.T) {
	readsObjects := regexp.MustCompile(`^(pkg/controllers|internal/(workloads|why|history|network|volumes|nodes))/`)
	checked := 0
	for _, s := range sources(t) {
		if !readsObjects.MatchString(s.path) || s.isTest() || s.path == "internal/workloads/seconds.go" {
			continue
		}
		checked++
		ast.Inspect(s.file, func(n ast.Node) bool {
			product, ok := n.(*ast.BinaryExpr)
			if !ok || product.Op != token.MUL || !isSelector(product.Y, "time", "Second") {
				return true
			}
			if call, ok := product.X.(*ast.CallExpr); ok && isSelector(call.Fun, "time", "Duration") {
				t.Errorf("%s: use workloads.Seconds", s.set.Position(n.Pos()))
			}
			return true
		})
	}
	if checked < 200 {
		t.Errorf("only %d files checked", checked)
	}
}

// isSelector reports whether an expression is that name of that package.
func isSelector(e ast.Expr, of, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == of
}
