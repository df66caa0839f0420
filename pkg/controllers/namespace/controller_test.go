package namespace

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// NS-4: a namespace is worked on as soon as its deletion is seen; also when it took the place of another one in a gap of the watch.
func TestTerminating(t *testing.T) {
	seen := func(uid types.UID, deleting bool) *corev1.Namespace {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: uid}}
		if deleting {
			n.DeletionTimestamp = &metav1.Time{}
		}
		return n
	}
	for _, row := range []struct {
		name          string
		before, after *corev1.Namespace
		want          int
	}{
		{"active", nil, seen("1", false), 0},
		{"deleted before the start", nil, seen("1", true), 1},
		{"deleted now", seen("1", false), seen("1", true), 1},
		{"changed while it ends", seen("1", true), seen("1", true), 0},
		{"another one ends under that name", seen("1", true), seen("2", true), 1},
	} {
		var before, after plan.Object
		if row.before != nil {
			before = row.before
		}
		if row.after != nil {
			after = row.after
		}
		if got := terminating(before, after); len(got) != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// NS-1: the names by which flags, logs, roles and clients know the controller.
func TestNS1Names(t *testing.T) {
	c := New(Options{})
	got := []string{c.Name, c.Alias, c.Account}
	if diff := cmp.Diff([]string{"namespace-controller", "namespace", "namespace-controller"}, got); diff != "" || c.OffByDefault {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// NS-3, REG-70: it may send 20 times as many requests as the flags say, and 100 times as many at once.
func TestLimits(t *testing.T) {
	burst, perSecond := managertest.Limits(t, func(c manager.Context) (client.Client, error) {
		a, err := access(c)
		return a.Client, err
	})
	if burst != 100 || perSecond != 20 {
		t.Errorf("where others have 1 and 1, it has %d at once and %d a second", burst, perSecond)
	}
}

// A round that has failed is no round without effect: the next one looks as soon as if nothing had been deleted before.
func TestRoundsThatFail(t *testing.T) {
	m := &memory{UID: "u", Deleted: map[schema.GroupVersionKind]int{{Version: "v1", Kind: "Secret"}: 3}, Left: 3, Rounds: 9}
	kept, _ := remember(time.Time{}, snapshot{}, struct{}{}, m, plan.Outcome{Err: errors.New("a webhook")}, plan.Outcome{})
	if kept.Rounds != 0 || kept.Deleted != nil || kept.Left != 3 || m.Rounds != 9 {
		t.Errorf("%+v of %+v", kept, m)
	}
	if kept, _ := remember(time.Time{}, snapshot{}, struct{}{}, m, plan.Outcome{}, plan.Outcome{}); kept != m {
		t.Errorf("%+v of a round that has not failed", kept)
	}
	sweeps := snapshot{Unlisted: []schema.GroupVersionKind{{Version: "v1", Kind: "Secret"}}}
	for err, want := range map[error]bool{nil: true, plan.ErrStale: false} {
		if kept, _ := remember(time.Time{}, sweeps, struct{}{}, m, plan.Outcome{Err: err}, plan.Outcome{}); kept.Swept != want {
			t.Errorf("what cannot be listed was deleted with %v: %+v", err, kept)
		}
	}
}
