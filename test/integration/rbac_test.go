package integration

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// TestNothingWasForbidden runs after almost all tests (by the name of its file): in none of those before has the API server
// refused a request of the manager or of one of its service accounts for want of a right (RB-1..RB-10).
func TestNothingWasForbidden(t *testing.T) {
	c := cluster.Start(t)
	b := &bench{t, c, c.Namespace(t)}
	c.Manager(t) // all controllers, so that the test has something to look at when it runs alone
	b.create(deployment("web", 1))
	b.waitComplete("web")

	file, err := os.Open(c.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	requests := 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
			Annotations      map[string]string
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			continue // the last line may be half written
		}
		name := event.User.Username
		if name != "system:kube-controller-manager" && !strings.HasPrefix(name, "system:serviceaccount:kube-system:") {
			continue
		}
		requests++
		if event.Annotations["authorization.k8s.io/decision"] == "forbid" {
			t.Errorf("%s may not %s %s: %s", name, event.Verb, event.RequestURI, event.Annotations["authorization.k8s.io/reason"])
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if requests < 5 {
		t.Errorf("the audit log has only %d requests of the manager", requests)
	}
}
