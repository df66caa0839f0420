package explainhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whoever asks for everything is told what was seen and planned; also of a key that had nothing to tell.
func TestExplainDetail(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var ask func()
	jobs, pods := explain.NewRecords(nil), explain.NewRecords(func(_ context.Context, key plan.Key) (explain.Detail, error) {
		if ask != nil {
			ask()
		}
		if key.Name == "gone" {
			return explain.Detail{}, errors.New("there is no such object")
		}
		return explain.NewDetail(at, map[string]int{"Pods": 2}, nil, plan.Plan{Why: "enough"}, nil, nil), nil
	})
	h := &Handler{
		Controllers: func() []Controller { return []Controller{{Name: "job", Records: []*explain.Records{jobs, pods}}} },
		Off:         func() []Off { return nil },
	}
	answer := func(path string) (a explainedKey, code int) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/"+path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), &a); w.Code == http.StatusOK && err != nil {
			t.Error(err)
		}
		return a, w.Code
	}
	for _, why := range []string{"first", "second", "third"} {
		pods.Put(plan.Key{Name: "web"}, explain.Record{Time: at, Why: why})
		pods.Put(plan.Key{Name: "gone"}, explain.Record{Time: at, Why: why})
	}
	if a, _ := answer("explain/job/web"); a.Why != "third" || len(a.History) != 2 || a.History[0].Why != "second" || a.Detail != nil ||
		a.NoDetail != "" {
		t.Errorf("%+v", a)
	}
	if a, _ := answer("snapshot/job/web"); a.Why != "third" || len(a.History) != 2 || a.Detail == nil || a.Plan.Why != "enough" ||
		!strings.Contains(string(a.Snapshot), `"Pods": 2`) {
		t.Errorf("%+v", a)
	}
	pods.Put(plan.Key{Name: "fc/[a b]"}, explain.Record{Why: "a volume"})
	if a, _ := answer("explain/job/fc%2F%5Ba%20b%5D"); a.Why != "a volume" {
		t.Errorf("%+v", a)
	}
	if a, _ := answer("snapshot/job/silent"); a.Why != "enough" || !a.Time.Equal(at) || a.Detail == nil {
		t.Errorf("%+v", a)
	}
	if a, _ := answer("snapshot/job/gone"); a.Why != "third" || a.Detail != nil || a.NoDetail != "there is no such object" {
		t.Errorf("%+v", a)
	}
	jobs.Put(plan.Key{Name: "kept"}, explain.Record{Why: "kept"})
	if a, _ := answer("snapshot/job/kept"); a.Why != "kept" || a.NoDetail != "this controller keeps records only" {
		t.Errorf("%+v", a)
	}
	if _, code := answer("explain/job/silent"); code != http.StatusNotFound {
		t.Error(code)
	}
	ask = func() {
		ask = nil
		if a, _ := answer("snapshot/job/web"); a.NoDetail != "another detail is being made, ask again" {
			t.Errorf("two at a time: %+v", a)
		}
	}
	if a, _ := answer("snapshot/job/web"); a.Detail == nil {
		t.Errorf("%+v", a)
	}
}

// A detail that reads what does not answer ends by itself, however patient the client is.
func TestExplainDetailEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := explain.NewRecords(func(ctx context.Context, _ plan.Key) (explain.Detail, error) {
			<-ctx.Done()
			return explain.Detail{}, ctx.Err()
		})
		h := &Handler{}
		began := time.Now()
		if _, err := h.detail(t.Context(), records, plan.Key{Name: "web"}); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != detailWithin {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
