// Package alerts tests the alerting rules in deploy/monitoring with the engine of Prometheus. The tests are in a file that
// "promtool test rules" reads as well. That program takes long to build, so it is not built here.
package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

const folder = "../../deploy/monitoring"

// testFile has the fields of promtool's format that alerts_test.yaml uses.
type testFile struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []testCase     `json:"tests"`
}

type testCase struct {
	Name        string         `json:"name"`
	Interval    model.Duration `json:"interval"`
	InputSeries []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	AlertRuleTest []struct {
		Alertname string         `json:"alertname"`
		EvalTime  model.Duration `json:"eval_time"`
		ExpAlerts []struct {
			ExpLabels      map[string]string `json:"exp_labels"`
			ExpAnnotations map[string]string `json:"exp_annotations"`
		} `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

// Each alert fires when its test says, with these labels and annotations, and not before.
func TestAlertsFire(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file testFile
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.RuleFiles) != 2 || len(file.Tests) == 0 {
		t.Fatalf("%d files with rules and %d tests", len(file.RuleFiles), len(file.Tests))
	}
	for _, c := range file.Tests {
		t.Run(c.Name, func(t *testing.T) {
			if len(c.AlertRuleTest) == 0 {
				t.Fatal("it tests nothing")
			}
			c.run(t, time.Duration(file.EvaluationInterval), file.RuleFiles)
		})
	}
}

// run evaluates all rules at every interval, and compares the alerts that fire with those that are expected at that time.
func (c testCase) run(t *testing.T, every time.Duration, files []string) {
	var load strings.Builder
	fmt.Fprintf(&load, "load %v\n", c.Interval)
	for _, s := range c.InputSeries {
		fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
	}
	storage, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		t.Fatal(err)
	}
	defer storage.Close()
	manager := rules.NewManager(&rules.ManagerOptions{
		Context: t.Context(), Logger: slog.New(slog.DiscardHandler),
		QueryFunc:  rules.EngineQueryFunc(storage.QueryEngine(), storage.Queryable()),
		Appendable: storage.Storage(), Queryable: storage.Queryable(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	paths := make([]string, len(files))
	for i, name := range files {
		paths[i] = filepath.Join(folder, name)
	}
	groups, errs := manager.LoadGroups(every, labels.EmptyLabels(), "", nil, false, paths...)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var last time.Duration
	for _, at := range c.AlertRuleTest {
		last = max(last, time.Duration(at.EvalTime))
	}
	for since := time.Duration(0); since <= last; since += every {
		now := time.Unix(0, 0).UTC().Add(since)
		storage.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(t.Context(), now)
			}
		})
		for _, g := range groups {
			for _, rule := range g.Rules() {
				if err := rule.LastError(); err != nil {
					t.Fatalf("%s: %v", rule.Name(), err)
				}
			}
		}
		c.compare(t, since, firing(groups))
	}
}

// compare reports where the alerts that fire at a time are not those that are expected.
func (c testCase) compare(t *testing.T, since time.Duration, got map[string][]string) {
	t.Helper()
	for _, at := range c.AlertRuleTest {
		if time.Duration(at.EvalTime) != since {
			continue
		}
		var want []string
		for _, e := range at.ExpAlerts {
			want = append(want, describe(e.ExpLabels, e.ExpAnnotations))
		}
		slices.Sort(want)
		if !slices.Equal(want, got[at.Alertname]) {
			t.Errorf("%s at %v: got\n%s\nwant\n%s", at.Alertname, since, strings.Join(got[at.Alertname], "\n"), strings.Join(want, "\n"))
		}
	}
}

// firing returns the alerts that fire, by their names.
func firing(groups map[string]*rules.Group) map[string][]string {
	all := map[string][]string{}
	for _, g := range groups {
		for _, rule := range g.AlertingRules() {
			for _, a := range rule.ActiveAlerts() {
				if a.State == rules.StateFiring {
					of := a.Labels.Map()
					delete(of, labels.AlertName)
					all[rule.Name()] = append(all[rule.Name()], describe(of, a.Annotations.Map()))
				}
			}
			slices.Sort(all[rule.Name()])
		}
	}
	return all
}

func describe(labels, annotations map[string]string) string {
	var b strings.Builder
	for _, fields := range []map[string]string{labels, annotations} {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			fmt.Fprintf(&b, "%s=%q ", name, fields[name])
		}
	}
	return b.String()
}
