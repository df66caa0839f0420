package namespace

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/standalone-kcm/controller-manager/pkg/api"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// NS-1: the names by which flags, logs, roles and clients know the controller.
func TestNames(t *testing.T) {
	c := Controller()
	got := []string{c.Name, c.Alias, c.Account}
	if diff := cmp.Diff([]string{"namespace-controller", "namespace", "namespace-controller"}, got); diff != "" || c.OffByDefault {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// NS-3, REG-70: it may send 20 times as many requests as the flags say, and 100 times as many at once.
func TestLimits(t *testing.T) {
	burst, perSecond := managertest.Limits(t, func(c manager.Context) (api.Client, error) {
		a, err := access(c)
		return a.Client, err
	})
	if burst != 100 || perSecond != 20 {
		t.Errorf("where others have 1 and 1, it has %d at once and %d a second", burst, perSecond)
	}
}
