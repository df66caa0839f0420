package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/explainhttp"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// telling is a controller that has records, too.
type telling struct {
	told
	records *explain.Records
}

func (t telling) Records() []*explain.Records { return []*explain.Records{t.records} }

func asked(t *testing.T, h http.Handler, method, path string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w.Code, w.Body.String()
}

func TestExplain(t *testing.T) {
	services, pods := explain.NewRecords(nil), explain.NewRecords(nil)
	m := &instance{
		runners: []*named{
			{Controller: Controller{Name: "endpoints-controller", Alias: "endpoint"},
				Runner: telling{told{status: &reconcile.Status{Name: "endpoint", Kinds: []string{"Service", "Endpoints"}}}, services}},
			{Controller: Controller{Name: "pod-garbage-collector-controller", Alias: "podgc"},
				Runner: telling{told{status: &reconcile.Status{Name: "orphaned_pods_nodes", Queued: 1, Failing: 2, Debounced: 3}}, pods}},
			{Controller: Controller{Name: "hand-written"}, Runner: fakeWorker{}},
		},
	}
	m.noteOff(Controller{Name: "job-controller", Alias: "job"}, "--controllers leaves it off")
	m.noteOff(Controller{Name: "token-cleaner-controller", Alias: "tokencleaner"},
		"it is off by default, and --controllers does not name it")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	services.Put(plan.Key{Namespace: "ns", Name: "web"}, explain.Record{
		Time: at, Why: "2 addresses", Wrote: 1, Error: "quota", Retries: 3, Next: explain.Seconds(1500 * time.Millisecond), Waiting: "Pod"})
	services.Put(plan.Key{Namespace: "ns", Name: "fine"}, explain.Record{Time: at, Why: "nothing to do"})
	pods.Put(plan.Key{Name: "orphaned"}, explain.Record{Time: at, Why: "no orphans"})
	for i := range 150 {
		pods.Put(plan.Key{Namespace: "ns", Name: fmt.Sprint(i)}, explain.Record{Error: "no"})
	}
	h := m.newExplain()
	web := `{"controller":"endpoints-controller","namespace":"ns","name":"web","time":"2026-01-02T03:04:05Z",` +
		`"why":"2 addresses","wrote":1,"error":"quota","retries":3,"nextReconcileSeconds":1.5,"cacheWaiting":"Pod"}`
	for _, c := range []struct{ path, want string }{
		{"/debug/explain/endpoints-controller/ns/web", web},
		{"/debug/explain/endpoint/ns/web", web},
		{"/debug/explain/service/ns/web", web},
		{"/debug/explain/Services/ns/web", web},
		{"/debug/explain/endpoints/ns/web", web},
		{"/debug/explain/podgc/orphaned", `{"controller":"pod-garbage-collector-controller","name":"orphaned",` +
			`"time":"2026-01-02T03:04:05Z","why":"no orphans","wrote":0,"retries":0,"nextReconcileSeconds":0}`},
		{"/debug/explain/endpoint", `{"controller":"endpoints-controller","alias":"endpoint","kinds":["Service","Endpoints"],` +
			`"running":false,"queued":0,"failing":0,"reportsDebounced":0,"failingOrWaiting":1,"keys":[` + web + `]}`},
		{"/debug/explain/hand-written",
			`{"controller":"hand-written","running":false,"queued":0,"failing":0,"reportsDebounced":0,"failingOrWaiting":0,"keys":[]}`},
	} {
		code, body := asked(t, h, http.MethodGet, c.path)
		var flat strings.Builder
		for line := range strings.Lines(body) {
			flat.WriteString(strings.Replace(strings.TrimSpace(line), `": `, `":`, 1))
		}
		if code != http.StatusOK || flat.String() != c.want {
			t.Errorf("%s: %d\n%s\nwant\n%s", c.path, code, flat.String(), c.want)
		}
	}
	for _, path := range []string{
		"/debug/explain/nobody/ns/web", "/debug/explain/endpoint/ns/unknown", "/debug/explain/endpoint/ns/web/more",
		"/debug/explain/hand-written/ns/web",
	} {
		if code, body := asked(t, h, http.MethodGet, path); code != http.StatusNotFound || strings.Count(body, "\n") != 1 {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	if _, body := asked(t, h, http.MethodGet, "/debug/explain/job/ns/x"); body != "job-controller is off: --controllers leaves it off\n" {
		t.Errorf("REG-101: %s", body)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if code, _ := asked(t, h, method, "/debug/explain"); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, code)
		}
	}
	var list struct {
		Controllers []struct {
			Queued, Failing, FailingOrWaiting int
			Debounced                         int `json:"reportsDebounced"`
			Keys                              []any
		}
		Off []explainhttp.Off
	}
	code, body := asked(t, h, http.MethodGet, "/debug/explain")
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK || len(list.Controllers) != 3 {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	wantOff := []explainhttp.Off{
		{Name: "job-controller", Alias: "job", Reason: "--controllers leaves it off"},
		{Name: "token-cleaner-controller", Alias: "tokencleaner", Reason: "it is off by default, and --controllers does not name it"},
	}
	if !slices.Equal(list.Off, wantOff) {
		t.Errorf("REG-101: %+v", list.Off)
	}
	if e := list.Controllers[1]; e.FailingOrWaiting != 150 || len(e.Keys) != 100 || e.Queued != 1 || e.Failing != 2 || e.Debounced != 3 {
		t.Errorf("%+v", e)
	}
}

// parts is a controller with several queues.
type parts []*explain.Records

func (parts) Run(context.Context) error     { return nil }
func (p parts) Records() []*explain.Records { return p }

// TestExplainInTheDocumentation keeps the example in docs/operations.md true.
func TestExplainInTheDocumentation(t *testing.T) {
	at, key := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), plan.Key{Namespace: "shop", Name: "web-5d8f"}
	sets := explain.NewRecords(nil)
	sets.Put(key, explain.Record{Time: at, Why: "3 of 3 pods are available", Version: "811"})
	for i := range 4 {
		rec := explain.Record{Time: at.Add(time.Duration(60+1<<i) * time.Second), Why: "1 pod is missing", Retries: i + 1, Version: "840",
			Wrote: 1, Error: "create Pod web-5d8f-*: exceeded quota: pods", Next: explain.Seconds(time.Second << i)}
		missing := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "web-5d8f-"}}
		rec.Planned([]plan.Step{plan.Create{Object: missing}})
		rec.Did(plan.Outcome{Results: []plan.Result{{Verb: plan.Created, Object: missing, Name: "web-5d8f-*",
			Err: errors.New("exceeded quota: pods")}}})
		sets.Put(key, rec)
	}
	m := &instance{runners: []*named{{Controller: Controller{Name: "replicaset-controller", Alias: "replicaset"}, Runner: parts{sets}}}}
	_, answer := asked(t, m.newExplain(), http.MethodGet, "/debug/explain/replicaset/shop/web-5d8f")
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil || !strings.Contains(string(page), "```json\n"+answer+"```\n") {
		t.Errorf("docs/operations.md lacks the answer (%v):\n%s", err, answer)
	}
}

// A controller gets the brake of the manager's budget, and what it holds is in its state and in the explanation while it runs.
func TestWhatABrakeHolds(t *testing.T) {
	client, _ := server(t, http.StatusOK)
	worker := fakeWorker{make(chan struct{}), untilDone}
	braked := entry("braked", worker)
	braked.Init = func(c Context) (Runner, error) {
		if c.Brake.Trips(3, 10) || !c.Brake.Trips(4, 10) || c.Brake.Trips(2, 2) {
			t.Error("the budget is another one")
		}
		c.Brake.Hold(time.Now().Add(-time.Hour), "all", "a reason")
		return worker, nil
	}
	o := options(braked)
	o.Brake = brake.Budget{Share: 0.3, MinObjects: 3}
	m, err := New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	held := func() bool {
		_, body := asked(t, m.Explain(), http.MethodGet, "/debug/explain/braked")
		return len(m.ControllerStates()[0].Held) == 1 && strings.Contains(body, `"what": "all"`)
	}
	if held() {
		t.Error("it holds something before it runs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	<-worker.runs
	if !held() {
		t.Error("nobody is told")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
