package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

const monitoring = "../../deploy/monitoring"

// Some metrics appear with the first thing that they count, which this test does not make happen.
var appearsLater = map[string]string{
	"pod_gc_collector_force_delete_pod_errors_total": "TestMetrics of podgc counts an error",
	"pod_gc_collector_force_delete_pods_total":       "TestMetricsOfALeader has one deleted",
	"attachdetach_controller_total_volumes":          "TestVolumesAreAttached has some",
	"storage_operation_duration_seconds_bucket":      "TestVolumesAreAttached has some",
	"controller_manager_writes_total":                "TestMetricsOfALeader has some",
	"pv_collector_bound_pvc_count":                   "TestMetricsOfALeader has one",
	"pv_collector_unbound_pvc_count":                 "TestMetricsOfALeader has one",
	"pv_binder_oldest_request_seconds":               "TestMetricsOfALeader has one",
	"volume_operation_total_seconds_bucket":          "TestMetricsOfALeader has some",
	"volume_operation_errors_total":                  "TestMetricsOfALeader has one",
	"kubernetes_healthcheck":                         "probes have it, as the tests of internal/health show",
	"controller_manager_stale_sync_skips_total":      "TestMetricsOfALeader and the tests of pkg/reconcile count them",
}

// hasAllThatIsNamed: every metric that the dashboard and the alerts name is one that the binary exports.
func (s *served) hasAllThatIsNamed(t *testing.T) {
	named := append(dashboardNames(t), alertNames(t)...)
	if len(named) < 30 {
		t.Fatalf("only %d metrics are named", len(named))
	}
	suffix := regexp.MustCompile(`_(bucket|sum|count)$`)
	cluster.Eventually(t, patience, "all that is named is exported", func() error {
		exported := s.scrape("/metrics")
		for _, name := range named {
			_, whole := exported[name]
			_, part := exported[suffix.ReplaceAllString(name, "")]
			if !whole && !part && appearsLater[name] == "" && name != "up" { // that is Prometheus's own
				return fmt.Errorf("%s is not", name)
			}
		}
		return nil
	})
}

type panel struct {
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var d struct{ Panels []panel }
	text, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.Panels
}

func dashboardNames(t *testing.T) (names []string) {
	t.Helper()
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			names = append(names, metricsIn(target.Expr)...)
		}
	}
	return names
}

func TestNoPanelHasThePlaceOfAnother(t *testing.T) {
	all := panels(t)
	for i, a := range all {
		for _, b := range all[:i] {
			p, q := a.GridPos, b.GridPos
			if p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H {
				t.Errorf("%q and %q overlap", a.Title, b.Title)
			}
		}
	}
}

func alertNames(t *testing.T) (names []string) {
	t.Helper()
	var rules struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	text, err := os.ReadFile(filepath.Join(monitoring, "alerts.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			names = append(names, metricsIn(r.Expr)...)
		}
	}
	return names
}

var (
	selectors  = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring) *\([^)]*\)`)
	identifier = regexp.MustCompile(`\b[a-z_:][a-zA-Z0-9_:]*\b *\(?`)
)

// metricsIn returns the names in a PromQL expression that are neither labels, nor functions, nor operators.
func metricsIn(expr string) (names []string) {
	for _, word := range identifier.FindAllString(selectors.ReplaceAllString(expr, " "), -1) {
		name := strings.TrimSpace(word)
		if !strings.HasSuffix(name, "(") && !slices.Contains([]string{"by", "and", "or", "unless", "bool"}, name) {
			names = append(names, name)
		}
	}
	return names
}

func TestMetricsIn(t *testing.T) {
	got := strings.Join(
		metricsIn(`histogram_quantile(0.99, sum by (name, le) (rate(a_bucket{job="b",c=~"d|e"}[5m]))) > 1e9 and up / f_total`), " ")
	if got != "a_bucket up f_total" {
		t.Error(got)
	}
}
