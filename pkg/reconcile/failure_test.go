package reconcile

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/api/apitest"
)

// Observe is told how the last reconcile of the key has failed, until one succeeds.
func TestObserveIsToldOfAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		var refused atomic.Int32
		w.BeforeWrite(func(x apitest.Write) error {
			if x.Verb == "create" && x.Kind == "Pod" && refused.Add(1) <= 2 {
				return exceeded(x.Key.Name)
			}
			return nil
		})
		w.put("a", 1)
		time.Sleep(time.Second)
		w.wantPods(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		failures := 0
		for _, r := range w.asked {
			if r.Failure != nil && strings.Contains(r.Failure.Error(), "exceeded quota") {
				failures++
			}
		}
		if last := w.asked[len(w.asked)-1]; failures != 2 || w.asked[0].Failure != nil || last.Failure != nil {
			t.Errorf("told of %d failures, and last of %v", failures, last.Failure)
		}
	})
}
