package integration

import (
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// It runs after TestNothingWasForbidden: an API server that has just started knows no roles yet.
func TestAPIServerStopsAndStarts(t *testing.T) {
	c := cluster.Start(t)
	b := &bench{t, c, c.Namespace(t)}
	m := c.Manager(t, onlyWorkloads)
	b.create(deployment("web", 3))
	b.waitComplete("web")
	pods := names(b.pods())
	c.StopAPIServer(t)
	select {
	case <-m.Ended():
		t.Error("the manager ended with the API server")
	case <-time.After(2 * time.Second):
	}
	c.StartAPIServer(t)
	if got := names(b.pods()); got != pods {
		t.Errorf("pods were %s, are %s", pods, got)
	}
	b.setImage("web", "web:2")
	b.waitComplete("web")
}
