package explainhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/internal/history"
)

// Who asks about an object gets its entries, and none is no error; a process without a history says so.
func TestHistory(t *testing.T) {
	var asked history.Ref
	var err error
	known := []history.Entry{{Verb: history.Deleted, Object: history.Ref{Kind: "Pod", Namespace: "shop", Name: "web"}}}
	keeps := History(func(_ context.Context, of history.Ref) ([]history.Entry, error) {
		asked = of
		return known, err
	})
	ask := func(h http.Handler, method, path string) *httptest.ResponseRecorder {
		asked = history.Ref{}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return w
	}
	for path, want := range map[string]history.Ref{
		"/debug/history/pod/shop/web": {Kind: "pod", Namespace: "shop", Name: "web"},
		"/debug/history/node/a%2Fb":   {Kind: "node", Name: "a/b"},
		"/debug/history":              {}, "/debug/history/pod": {}, "/debug/history/a/b/c/d": {},
	} {
		w := ask(keeps, http.MethodGet, path)
		if asked != want {
			t.Errorf("%s asks for %+v", path, asked)
		}
		if code := w.Code; (code == http.StatusOK) != (asked.Kind != "") || code != http.StatusOK && code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	var answer Known
	w := ask(keeps, http.MethodGet, "/debug/history/pod/shop/web")
	if failed := json.Unmarshal(w.Body.Bytes(), &answer); failed != nil || len(answer.Entries) != 1 || answer.Entries[0].Object.Name != "web" {
		t.Errorf("%s, %v", w.Body, failed)
	}
	if known = nil; !strings.Contains(ask(keeps, http.MethodGet, "/debug/history/pod/shop/web").Body.String(), `"entries": []`) {
		t.Error("no entries are no list")
	}
	if err = errors.New("no disk"); ask(keeps, http.MethodGet, "/debug/history/pod/shop/web").Code != http.StatusServiceUnavailable {
		t.Error("an error is an answer")
	}
	if w := ask(keeps, http.MethodPost, "/debug/history/pod/shop/web"); w.Code != http.StatusMethodNotAllowed || asked.Kind != "" {
		t.Errorf("POST: %d", w.Code)
	}
	if w := ask(History(nil), http.MethodGet, "/debug/history/pod/shop/web"); w.Code != http.StatusNotFound ||
		!strings.Contains(w.Body.String(), "--history-dir is not set") {
		t.Errorf("without a history: %d %s", w.Code, w.Body)
	}
}
