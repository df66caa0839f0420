package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
	"controller_manager_stale_sync_skips_total":      "TestMetricsOfALeader and the engine's tests count them",
}

// Every metric that the dashboard and the alerts name is one that the binary exports.
func TestDashboardAndAlertsNameWhatThereIs(t *testing.T) {
	s := serve(t, cluster.Start(t), "--leader-elect=true", "--kube-api-qps=50", "--kube-api-burst=100")
	cluster.Eventually(t, patience, "it is ready", func() error { _, err := s.get("/readyz"); return err })
	exported := map[string]bool{"up": true} // Prometheus's own
	cluster.Eventually(t, patience, "it leads and works", func() error {
		families := s.scrape("/metrics")
		if len(families["controller_manager_reconciles_total"].GetMetric()) == 0 {
			return fmt.Errorf("%d metrics", len(families))
		}
		for name := range families {
			exported[name] = true
		}
		return nil
	})
	named := append(dashboardNames(t), alertNames(t)...)
	if len(named) < 30 {
		t.Fatalf("only %d metrics are named", len(named))
	}
	for _, name := range named {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !exported[name] && !exported[base] && appearsLater[name] == "" {
			t.Errorf("%s is not exported", name)
		}
	}
}

func dashboardNames(t *testing.T) (names []string) {
	t.Helper()
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	text, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			names = append(names, metricsIn(target.Expr)...)
		}
	}
	return names
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
	got := strings.Join(metricsIn(`histogram_quantile(0.99, sum by (name, le) (rate(a_bucket{job="b",c=~"d|e"}[5m]))) > 1e9 and up / f_total`), " ")
	if got != "a_bucket up f_total" {
		t.Error(got)
	}
}

// promtool is in Debian's package prometheus; without it the rules are only read as above.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
