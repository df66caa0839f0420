package manager

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

func asked(t *testing.T, h http.Handler, method, path string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w.Code, w.Body.String()
}

func TestExplain(t *testing.T) {
	explain := reconcile.NewExplain()
	m := &instance{
		shared: reconcile.Shared{Explain: explain},
		runners: []*named{
			{Controller: Controller{Name: "endpoints-controller", Alias: "endpoint"},
				Runner: told{status: &reconcile.Status{Name: "endpoint", Kinds: []string{"Service", "Endpoints"}}}},
			{Controller: Controller{Name: "pod-garbage-collector-controller", Alias: "podgc"},
				Runner: told{status: &reconcile.Status{Name: "orphaned_pods_nodes", Queued: 1, Failing: 2, Debounced: 3}}},
			{Controller: Controller{Name: "hand-written"}, Runner: worker{}},
		},
	}
	m.noteOff(Controller{Name: "job-controller", Alias: "job"}, "--controllers leaves it off")
	m.noteOff(Controller{Name: "token-cleaner-controller", Alias: "tokencleaner"}, "it is off by default, and --controllers does not name it")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	explain.Put("endpoint", plan.Key{Namespace: "ns", Name: "web"}, reconcile.Record{
		Time: at, Why: "2 addresses", Wrote: 1, Error: "quota", Retries: 3, Next: 1500 * time.Millisecond, Waiting: "Pod"})
	explain.Put("endpoint", plan.Key{Namespace: "ns", Name: "fine"}, reconcile.Record{Time: at, Why: "nothing to do"})
	explain.Put("orphaned_pods_nodes", plan.Key{Name: "orphaned"}, reconcile.Record{Time: at, Why: "no orphans"})
	for i := range 150 {
		explain.Put("orphaned_pods_nodes", plan.Key{Namespace: "ns", Name: fmt.Sprint(i)}, reconcile.Record{Error: "no"})
	}
	h := m.Explain()
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
		{"/debug/explain/hand-written", `{"controller":"hand-written","running":false,"queued":0,"failing":0,"reportsDebounced":0,"failingOrWaiting":0,"keys":[]}`},
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
		"/debug/explain/nobody/ns/web", "/debug/explain/endpoint/ns/unknown", "/debug/explain/endpoint/ns/web/more", "/debug/explain/hand-written/ns/web",
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
		Controllers []explained
		Off         []OffState
	}
	code, body := asked(t, h, http.MethodGet, "/debug/explain")
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK || len(list.Controllers) != 3 {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	wantOff := []OffState{{"job-controller", "job", "--controllers leaves it off"},
		{"token-cleaner-controller", "tokencleaner", "it is off by default, and --controllers does not name it"}}
	if !slices.Equal(list.Off, wantOff) {
		t.Errorf("REG-101: %+v", list.Off)
	}
	if e := list.Controllers[1]; e.FailingOrWaiting != 150 || len(e.Keys) != mostKeys || e.Queued != 1 || e.Failing != 2 || e.Debounced != 3 {
		t.Errorf("%+v", e)
	}
}
