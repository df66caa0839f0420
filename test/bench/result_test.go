package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster/countproxy"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func TestTable(t *testing.T) {
	floor := 100.0
	writes := func(n float64) figure { return figure{Name: "writes", Value: n, Floor: &floor} }
	samples := []sample{
		{Scenario: "create", Contender: original, Figures: []figure{writes(150), seconds("wall", 2*time.Second), exactly("409", 7, 0)}},
		{Scenario: "start", Contender: original, Figures: []figure{megabytes("RSS", 512<<20), exactly("409", 0, 0)}},
		{Scenario: "create", Contender: ours, Figures: []figure{writes(102), seconds("wall", 1500*time.Millisecond), exactly("409", 0, 0)}},
		{Scenario: "create", Contender: original, Figures: []figure{writes(170), seconds("wall", 4*time.Second), exactly("409", 8, 0)}},
		{Scenario: "start", Contender: ours, Figures: []figure{megabytes("RSS", 64<<20), exactly("409", 0, 0)}},
		{Scenario: "create", Contender: ours, Figures: []figure{writes(102), seconds("wall", 1500*time.Millisecond), exactly("409", 0, 0)}},
		{Scenario: "3000", Contender: ours, Figures: []figure{millis("CPU", 12345*time.Microsecond)}},
	}
	want := `| scenario | figure | floor or goal | original | ours | ratio |
|---|---|---:|---:|---:|---:|
| create | writes | 100 | 160 | 102 | 0.64 |
|  | wall |  | 3.00 s | 1.50 s | 0.50 |
|  | 409 | 0 | 7.50 | 0 | 0.00 |
| start | RSS |  | 512 MB | 64.0 MB | 0.12 |
|  | 409 | 0 | 0 | 0 |  |
| 3000 | CPU |  |  | 12.3 ms |  |
`
	if got := table(samples); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestLimitsAreForOursOnly(t *testing.T) {
	samples := []sample{
		{Scenario: "create", Contender: original, Run: 1, Figures: []figure{exactly("409", 7, 0)}},
		{Scenario: "create", Contender: ours, Run: 1, Figures: []figure{exactly("409", 0, 0), count("events", 5)}},
	}
	if got := broken(samples); len(got) != 0 {
		t.Error(got)
	}
	samples[1].Figures[0] = exactly("409", 1, 0)
	if got := strings.Join(broken(samples), "\n"); got != "create, run 1: 409: 1, at most 0" {
		t.Error(got)
	}
}

// The limit of writes grows with the time, because reports of progress have a budget by the clock.
func TestLimitOfWrites(t *testing.T) {
	j := job{floor: floor.Writes{Status: 400, Other: 600}, most: 1.05}
	for _, row := range []struct {
		what           string
		writes, status int
		wall, longest  time.Duration
		broken         bool
	}{
		{"just within", 1050, 450, 0, 0, false},
		{"one too many", 1051, 451, 0, 0, true},
		{"two seconds for reports", 1054, 454, 2 * time.Second, 2 * time.Second, false},
		{"more reports than these", 1055, 455, 2 * time.Second, 2 * time.Second, true},
		{"too slow to be judged", 5000, 4400, time.Minute, 20 * time.Second, false},
		{"slow, but others than reports are too many", 5000, 4369, time.Minute, 20 * time.Second, true},
		{"others may be a twentieth more", 1030, 400, 0, 0, false},
		{"and not more than that", 1031, 400, 0, 0, true},
	} {
		figures := j.figures(measured{writes: counts{writes: row.writes, status: row.status}, wall: row.wall,
			took: []time.Duration{0, row.longest}})
		if got := broken([]sample{{Contender: ours, Figures: figures}}); (len(got) > 0) != row.broken {
			t.Errorf("%s: %v", row.what, got)
		}
	}
}

func TestCountWrites(t *testing.T) {
	rows := func(verb, resource, subresource string, code, n, noOps int) countproxy.Row {
		return countproxy.Row{Request: countproxy.Request{Verb: verb, Resource: resource, Subresource: subresource, Code: code}, Count: n,
			NoOps: noOps}
	}
	got := countWrites(countproxy.Summary{Rows: []countproxy.Row{
		rows("create", "pods", "", http.StatusCreated, 10, 0),
		rows("update", "deployments", "status", http.StatusOK, 5, 2),
		rows("update", "deployments", "status", http.StatusConflict, 3, 0),
		rows("delete", "pods", "", http.StatusNotFound, 1, 0),
		rows("create", "events", "", http.StatusCreated, 7, 0),
		rows("patch", "events", "", http.StatusOK, 1, 0),
		rows("update", "leases", "", http.StatusOK, 4, 0),
		rows("create", "serviceaccounts", "token", http.StatusCreated, 4, 0),
		rows("get", "pods", "", http.StatusOK, 9, 0),
		rows("watch", "pods", "", http.StatusOK, 1, 0),
	}})
	if got.writes != 19 || got.conflicts != 3 || got.otherRefusals != 1 || got.noOps != 2 || got.events != 8 || got.status != 8 ||
		len(got.rows) != 4 {
		t.Errorf("%+v", got)
	}
	if got.rows[1] != (tally{Resource: "deployments/status", Verb: "update", Code: 200, Count: 5, NoOps: 2}) {
		t.Errorf("%+v", got.rows[1])
	}
}

func TestChoose(t *testing.T) {
	for _, row := range []struct {
		o    options
		want string
	}{
		{options{}, "writes growth loaded defaults endpoints takeover orphans accounts namespaces garbage tenants everything daemonsets " +
			"statefulsets job reactions cronjobs slices protection budgets certificates nodettl nodes heartbeats attachments " +
			"volumes devices pools podgroups devicetaints clusterroles autoscalers ranges policies quotas"},
		{options{quick: true}, "writes endpoints"},
		{options{only: "takeover,writes"}, "takeover writes"},
		{options{only: "takeover", quick: true}, "takeover"},
		{options{only: "nonsense"}, "error"},
		{options{runs: -1}, "error"},
	} {
		chosen, err := row.o.choose(scenarios())
		var names []string
		for _, s := range chosen {
			names = append(names, s.name)
		}
		if err != nil {
			names = []string{"error"}
		}
		if got := strings.Join(names, " "); got != row.want {
			t.Errorf("%+v: %s (%v)", row.o, got, err)
		}
	}
}

func TestReportHasAllSamples(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	b := &bench{runs: 2, contenders: []contender{{Name: ours, Binary: "/x", Version: "v1"}},
		samples: []sample{{Scenario: "create", Contender: ours, Run: 1, Figures: []figure{count("writes", 3)}}}}
	if err := writeReport(file, b, time.Now()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"cores": `, `"scenario": "create"`, `"value": 3`, `"version": "v1"`, `"runs": 2`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestFiguresOfTheCPUFloor(t *testing.T) {
	shown := func(m measured) string {
		return table([]sample{{Scenario: "s", Contender: ours, Figures: job{}.figures(m)}})
	}
	with := shown(measured{cpu: 3 * time.Second, cpuFloor: 1500 * time.Millisecond})
	for _, want := range []string{"CPU of the manager |  |  | 3.00 s", "CPU floor |  |  | 1.50 s", "times the CPU floor |  |  | 2"} {
		if !strings.Contains(with, want) {
			t.Errorf("no %q in\n%s", want, with)
		}
	}
	if without := shown(measured{cpu: 3 * time.Second}); strings.Contains(without, "CPU floor") {
		t.Errorf("a floor that was not measured:\n%s", without)
	}
}
