package explainhttp

import (
	"context"
	"net/http"
	"strings"

	"github.com/standalone-kcm/controller-manager/internal/history"
)

// historyPath is where [History] belongs, with all that is below. It is apart from the others, because it is about
// objects that are gone, and that nobody can be asked about.
const historyPath = "/debug/history"

// Known is an answer of [History].
type Known struct {
	Entries []history.Entry `json:"entries"`
}

// History answers what is known of the objects that had a name: at /debug/history/<kind>/<namespace>/<name>, without a
// namespace for kinds that have none. The function is nil in a process that keeps no history.
func History(about func(context.Context, history.Ref) ([]history.Entry, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !onlyGet(w, r) {
			return
		}
		parts := partsOf(strings.TrimPrefix(r.URL.EscapedPath(), historyPath))
		var of history.Ref
		switch {
		case about == nil:
			http.Error(w, "this process keeps no history: --history-dir is not set", http.StatusNotFound)
			return
		case len(parts) == 2:
			of = history.Ref{Kind: parts[0], Name: parts[1]}
		case len(parts) == 3:
			of = history.Ref{Kind: parts[0], Namespace: parts[1], Name: parts[2]}
		default:
			http.Error(w, "want "+historyPath+"/<kind>/<namespace>/<name>", http.StatusNotFound)
			return
		}
		entries, err := about(r.Context(), of)
		if err != nil {
			http.Error(w, "the history cannot be read: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		answerJSON(w, Known{append([]history.Entry{}, entries...)})
	})
}
