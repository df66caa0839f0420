package why

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// People are told who has decided what, and when it is looked at again.
func TestTextOfDecisions(t *testing.T) {
	now := time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)
	d := Decision{
		Object: Ref{Kind: "Deployment", Namespace: "shop", Name: "web"}, Controller: "deployment-controller",
		Time: metav1.NewTime(now.Add(-12 * time.Second)), Why: "create a ReplicaSet",
	}
	failed, planned, held := d, d, d
	failed.Error, failed.Failures, failed.NextSeconds = "refused", 3, 30
	planned.Inferred, planned.Steps, planned.NextSeconds = true, []string{"create"}, 5 // which was over 7 s ago
	held.Held = "node node-0: too many"
	const about = "deployment-controller about Deployment shop/web, 12s ago: create a ReplicaSet"
	for want, d := range map[string]Decision{
		about: d,
		about + "; failed 3 times: refused; looks again in 18s":       failed,
		about + " (as an observer would, which has not seen it done)": planned,
		about + "; held: node node-0: too many":                       held,
	} {
		var text strings.Builder
		Answer{Summary: "x", Decisions: []Decision{d}, Time: metav1.NewTime(now)}.WriteText(&text)
		if got := strings.TrimSpace(strings.TrimPrefix(text.String(), "x\n\nDecided:")); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
