package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each workload of examples/ is waited for, and nothing else is.
func TestEveryExampleIsAwaited(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var there, awaited []string
	document := regexp.MustCompile(`(?m)^kind: (\w+)\nmetadata:\n  name: (\w+)$(?:\n  namespace: (\w+)$)?`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range document.FindAllStringSubmatch(string(data), -1) {
			if found[1] != "Service" && found[1] != "Namespace" {
				there = append(there, found[1]+" "+found[2]+" in "+cmp.Or(found[3], "default"))
			}
		}
	}
	for _, e := range examples() {
		_, namespaced, _ := strings.Cut(e.path, "/namespaces/")
		namespace, resource, _ := strings.Cut(namespaced, "/")
		awaited = append(awaited, e.kind+" "+e.name+" in "+namespace)
		if want := strings.ToLower(e.kind) + "s/"; resource != want {
			t.Errorf("%s %s is looked for in %s", e.kind, e.name, e.path)
		}
	}
	slices.Sort(there)
	slices.Sort(awaited)
	if !slices.Equal(there, awaited) {
		t.Errorf("there are\n%s\nawaited are\n%s", strings.Join(there, "\n"), strings.Join(awaited, "\n"))
	}
}

// The statuses are those before, and when an example is done.
func TestWhatBecameOfExamples(t *testing.T) {
	for _, c := range []struct{ kind, status, want string }{
		{"Deployment", `{}`, ""},
		{"Deployment", `{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"availableReplicas":3}`, ""},
		{"Deployment", `{"observedGeneration":2,"replicas":3,"updatedReplicas":2,"availableReplicas":3}`, ""},
		{"Deployment", `{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":2}`, ""},
		{"Deployment", `{"observedGeneration":2,"replicas":4,"updatedReplicas":3,"availableReplicas":3}`, ""},
		{"Deployment", `{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":3}`, "3 of 3 pods are available"},
		{"ReplicaSet", `{"observedGeneration":2,"replicas":3,"availableReplicas":1}`, ""},
		{"ReplicaSet", `{"observedGeneration":2,"replicas":3,"availableReplicas":3}`, "3 of 3 pods are available"},
		{"StatefulSet",
			`{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":3,"updateRevision":"db-2","currentRevision":"db-1"}`, ""},
		{"StatefulSet",
			`{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":3,"updateRevision":"db-2","currentRevision":"db-2"}`,
			"3 of 3 pods are available, each with a claim"},
		{"DaemonSet", `{"observedGeneration":2}`, ""},
		{"DaemonSet", `{"observedGeneration":2,"desiredNumberScheduled":3,"updatedNumberScheduled":3,"numberAvailable":2}`, ""},
		{"DaemonSet", `{"observedGeneration":2,"desiredNumberScheduled":3,"updatedNumberScheduled":3,"numberAvailable":3}`,
			"3 of 3 nodes have an available pod"},
		{"PodDisruptionBudget", `{"observedGeneration":2}`, ""},
		{"PodDisruptionBudget", `{"observedGeneration":2,"expectedPods":3,"currentHealthy":2,"disruptionsAllowed":0}`, ""},
		{"PodDisruptionBudget", `{"observedGeneration":2,"expectedPods":3,"currentHealthy":3,"disruptionsAllowed":1}`,
			"3 of 3 pods are healthy, 1 may be evicted"},
		{"ResourceQuota", `{}`, ""},
		{"ResourceQuota", `{"hard":{"pods":"4","cpu":"2"},"used":{"pods":"0","cpu":"0"}}`, ""},
		{"ResourceQuota", `{"hard":{"pods":"5","cpu":"2"},"used":{"pods":"3","cpu":"1500m"}}`, ""},
		{"ResourceQuota", `{"hard":{"pods":"4","cpu":"2"},"used":{"pods":"3","cpu":"1500m"}}`, "in use are 1500m of 2 cpu, 3 of 4 pods"},
		{"Job", `{"succeeded":3,"conditions":[{"type":"SuccessCriteriaMet","status":"True"}]}`, ""},
		{"Job", `{"succeeded":3,"conditions":[{"type":"Complete","status":"True"}]}`, "3 of 3 pods have succeeded"},
		{"CronJob", `{}`, ""},
		{"CronJob", `{"lastScheduleTime":"2026-01-01T00:00:00Z"}`, ""},
		{"CronJob", `{"lastScheduleTime":"2026-01-01T00:00:00Z","lastSuccessfulTime":"2026-01-01T00:00:05Z"}`,
			"the Job of 2026-01-01T00:00:00Z was created, and one was successful at 2026-01-01T00:00:05Z"},
		{"HorizontalPodAutoscaler", `{}`, ""},
		{"HorizontalPodAutoscaler",
			`{"currentReplicas":1,"desiredReplicas":4,"currentMetrics":[{"resource":{"current":{"averageUtilization":50}}}]}`, ""},
		{"HorizontalPodAutoscaler",
			`{"currentReplicas":4,"desiredReplicas":4,"currentMetrics":[{"resource":{"current":{"averageUtilization":75}}}]}`, ""},
		{"HorizontalPodAutoscaler", `{"currentReplicas":4,"desiredReplicas":4,"currentMetrics":[{"type":""}]}`, ""},
		{"HorizontalPodAutoscaler",
			`{"currentReplicas":6,"desiredReplicas":6,"currentMetrics":[{"resource":{"current":{"averageUtilization":50}}}]}`,
			"6 pods, with at least 1, use 50% of the CPU time that they request"},
	} {
		all := examples()
		e := all[slices.IndexFunc(all, func(e example) bool { return e.kind == c.kind })]
		var o object
		if err := json.Unmarshal(
			[]byte(`{"metadata":{"generation":2},"spec":{"replicas":3,"completions":3,"minReplicas":1,"metrics":[{"resource":{"target":{"averageUtilization":50}}}],"hard":{"pods":"4","cpu":"2"}},"status":`+c.status+`}`), &o); err != nil {
			t.Fatal(err)
		}
		what, done := e.became(o)
		if what == "" || done != (c.want != "") || done && what != c.want {
			t.Errorf("%s with %s: %q, done %v", c.kind, c.status, what, done)
		}
	}
}

// server gives each GET request the next answer for its path, and then 404. It notes all others.
func server(t *testing.T, answers map[string][]string) (a *api, requests func() []string) {
	var log []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request := r.Method + " " + r.URL.Path
		if r.Method != "GET" {
			log = append(log, request+" "+r.Header.Get("Content-Type")+" "+string(body))
			return
		}
		left := answers[r.URL.Path]
		if len(left) == 0 {
			http.Error(w, "gone", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, left[0])
		answers[r.URL.Path] = left[1:]
	}))
	t.Cleanup(s.Close)
	return &api{server: s.URL, http: s.Client()}, func() []string { s.Close(); return log }
}

func TestAJobThatGoesIsAwaited(t *testing.T) {
	a, _ := server(t, map[string][]string{"/jobs/cleanup": {`{}`, `{}`}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	what, err := a.await(ctx, example{kind: "Job", name: "cleanup", path: "/jobs/"})
	if err != nil || !strings.HasPrefix(what, "was deleted") {
		t.Error(what, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.await(ctx, example{kind: "Job", name: "sum", path: "/jobs/", became: completed}); err == nil ||
		!strings.Contains(err.Error(), "Job sum") {
		t.Errorf("one that is not there: %v", err)
	}
}
