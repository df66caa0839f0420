package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

var deploy = filepath.Join("..", "..", "..", "deploy")

// TestAlertsSelectTheJobOfTheirOverlay: beside the original, which has the job kube-controller-manager (MH-39), an alert for our
// manager must not be satisfied by the original's series, so there both the Service and the alerts have a job of ours.
func TestAlertsSelectTheJobOfTheirOverlay(t *testing.T) {
	for _, test := range []struct{ overlay, alerts, job string }{
		{"standalone", "alerts.yaml", "kube-controller-manager"},
		{"beside-upstream", "alerts-beside-upstream.yaml", "standalone-controller-manager"},
	} {
		t.Run(test.overlay, func(t *testing.T) {
			if got := jobOf(t, test.overlay); got != test.job {
				t.Errorf("the Service has the job %q, want %q", got, test.job)
			}
			var rules monitoringv1.PrometheusRuleSpec
			decode(t, filepath.Join(deploy, "monitoring", test.alerts), &rules)
			checked := 0
			for _, group := range rules.Groups {
				for _, rule := range group.Rules {
					checked++
					selectors := selector.FindAllString(rule.Expr.String(), -1)
					for _, s := range selectors {
						if !strings.Contains(s, `job="`+test.job+`"`) {
							t.Errorf("%s selects %s", rule.Alert, s)
						}
					}
					if len(selectors) == 0 {
						t.Errorf("%s selects no job: %s", rule.Alert, rule.Expr.String())
					}
				}
			}
			if checked < 10 {
				t.Errorf("there are only %d alerts", checked)
			}
		})
	}
}

// TestEachAlertHasARunbook: the annotation leads to a section of docs/runbooks.md, and each section is that of an alert.
func TestEachAlertHasARunbook(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deploy, "..", "docs", "runbooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, heading := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		want = append(want, heading[1])
	}
	slices.Sort(want)
	for _, file := range []string{"alerts.yaml", "alerts-beside-upstream.yaml"} {
		var rules monitoringv1.PrometheusRuleSpec
		decode(t, filepath.Join(deploy, "monitoring", file), &rules)
		var got []string
		for _, group := range rules.Groups {
			for _, rule := range group.Rules {
				got = append(got, rule.Alert)
				url := "https://github.com/standalone-kcm/controller-manager/blob/main/docs/runbooks.md#" + strings.ToLower(rule.Alert)
				if rule.Annotations["runbook_url"] != url {
					t.Errorf("%s: %s has the runbook %q, want %s", file, rule.Alert, rule.Annotations["runbook_url"], url)
				}
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s has the alerts\n%v, and the page has sections for\n%v", file, got, want)
		}
	}
}

var selector = regexp.MustCompile(`\{[^}]*\}`)

// jobOf returns the job label of the Service of the component, as the overlay changes it.
func jobOf(t *testing.T, overlay string) string {
	t.Helper()
	var service struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	decodeSome(t, filepath.Join(deploy, "kustomize", "components", "service", "service.yaml"), &service)
	job := service.Metadata.Labels["job"]
	var kustomization struct {
		Patches []struct {
			Target struct {
				Kind string `json:"kind"`
			} `json:"target"`
			Patch string `json:"patch"`
		} `json:"patches"`
	}
	decodeSome(t, filepath.Join(deploy, "kustomize", "overlays", overlay, "kustomization.yaml"), &kustomization)
	for _, p := range kustomization.Patches {
		if p.Target.Kind != "Service" {
			continue
		}
		var operations []struct{ Op, Path, Value string }
		if err := yaml.UnmarshalStrict([]byte(p.Patch), &operations); err != nil {
			t.Fatal(err)
		}
		for _, o := range operations {
			if o.Path == "/metadata/labels/job" {
				job = o.Value
			}
		}
	}
	return job
}
