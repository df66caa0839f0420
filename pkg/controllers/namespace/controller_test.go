package namespace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// NS-1: the names by which flags, logs, roles and clients know the controller.
func TestNames(t *testing.T) {
	c := Controller()
	got := []string{c.Name, c.Alias, c.Account}
	if diff := cmp.Diff([]string{"namespace-controller", "namespace", "namespace-controller"}, got); diff != "" || c.OffByDefault {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
