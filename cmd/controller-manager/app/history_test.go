package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/internal/history"
	"github.com/standalone-kcm/controller-manager/internal/metrics"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// A manager with a folder tells the history of what controllers decide and watches show, beside what is measured. Without a folder, it
// keeps nothing, and says so.
func TestKeepHistory(t *testing.T) {
	measured := metrics.New(kubernetesVersion())
	var c options.Config
	c.Manager.Hooks = measured.Hooks
	if r := keepHistory(&c, measured); r != nil || c.Manager.Gone != nil {
		t.Error("a history is kept that nobody has asked for")
	}
	dir := filepath.Join(t.TempDir(), "history")
	c.History = mustHistory(t, dir)
	r := keepHistory(&c, measured)
	hooks := c.Manager.Hooks("replicaset-controller")
	if hooks.Reconciled == nil || hooks.Write == nil {
		t.Error("what was measured before is not")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	about := history.Ref{Kind: "Pod", Namespace: "shop", Name: "web"}
	err := recordWhile(t.Context(), r, func(context.Context) error {
		hooks.Decided(reconcile.Decision{Record: explain.Record{Why: "too many"},
			Steps: []plan.Step{plan.Delete{Objects: []plan.Object{pod}}},
			Did:   []plan.Result{{Verb: plan.Deleted, Object: pod, Name: "web"}}})
		c.Manager.Gone(pod)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The process after it remembers.
	again := keepHistory(&c, measured)
	if err := recordWhile(t.Context(), again, func(ctx context.Context) (err error) {
		var found []history.Entry
		for err = os.ErrNotExist; err != nil && ctx.Err() == nil; { // until the folder is open
			found, err = again.About(ctx, about)
		}
		if len(found) != 2 || found[0].Verb != history.Deleted && found[1].Verb != history.Deleted {
			t.Errorf("%+v", found)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	all := map[string]http.Handler{}
	addHistory(all, nil)
	for path := range all {
		w := httptest.NewRecorder()
		if all[path].ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if len(all) != 2 {
		t.Errorf("%d paths", len(all))
	}
}

// mustHistory is what the flags amount to.
func mustHistory(t *testing.T, dir string) options.History {
	t.Helper()
	return configured(t, "--history-dir="+dir, "--history-size=1Mi").History
}
