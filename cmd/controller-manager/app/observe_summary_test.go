package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/internal/agreement"
)

// People see the numbers of each controller, and what differs.
func TestSummaryIsForPeople(t *testing.T) {
	want := agreement.Report{
		Controllers: []agreement.ControllerCount{{Controller: "job-controller", Decisions: 5, Pending: 2,
			Verdicts: map[agreement.Verdict]int{agreement.Agreed: 4, agreement.Unexplained: 1}}},
		Dropped: 3,
		Disagreements: []agreement.Disagreement{{Controller: "job-controller", Step: "create Pod shop/a", Rule: agreement.Otherwise,
			Field: "metadata.name", Planned: `"a"`, Found: `"b"`, Row: "unexplained"}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != agreementPath {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(want)
	}))
	defer server.Close()
	r, err := askCompared(t.Context(), server.Client(), server.URL+agreementPath)
	if err != nil || r.Unexplained() != 1 {
		t.Fatalf("%+v: %v", r, err)
	}
	var text strings.Builder
	if err := writeReport(&text, r); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"job-controller  7        4 ", "3 planned writes were not compared",
		`create Pod shop/a: otherwise, metadata.name is "b" and not "a" (unexplained)`} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("there is no %q in\n%s", line, text.String())
		}
	}
	if _, err := askCompared(t.Context(), server.Client(), server.URL); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("an observer without the page: %v", err)
	}
}

func TestSummaryRefusesAnUnknownForm(t *testing.T) {
	o := summaryOptions{summary: true, output: "xml"}
	if err := o.run(t.Context(), "", nil); err == nil || !strings.Contains(err.Error(), "--output") {
		t.Error(err)
	}
}
