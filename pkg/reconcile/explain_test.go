package reconcile

import (
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A key that has failed and then has nothing to tell must not be shown as failing for ever.
func TestARecordOfAFailureIsReplaced(t *testing.T) {
	e, key := NewExplain(), plan.Key{Name: "a"}
	e.Put("toy", key, Record{})
	if _, ok := e.Get("toy", key); ok {
		t.Error("a record that says nothing was kept")
	}
	e.Put("toy", key, Record{Error: "no"})
	e.Put("toy", key, Record{})
	if r, ok := e.Get("toy", key); !ok || r.Error != "" {
		t.Errorf("%+v, %v", r, ok)
	}
	e.Clear("toy")
	if _, ok := e.Get("toy", key); ok {
		t.Error("a record has outlived its term")
	}
}
