package reconcile

import (
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
)

// loseAnswers carries out the creations of pods, and loses the answers while the condition holds.
func (w *world) loseAnswers(while func() bool) {
	w.AfterWrite(func(x clienttest.Write) error {
		if x.Verb == "create" && x.Kind == "Pod" && while() {
			return errors.New("connection reset by peer")
		}
		return nil
	})
}

// A write that is carried out but not answered must be found by reading live.
func TestUnansweredWriteIsFoundLive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		var answers atomic.Bool
		w.loseAnswers(func() bool { return !answers.Load() })
		w.FreezeWatches(podKind)
		w.put("a", 1)
		time.Sleep(10 * time.Minute)
		w.wantPods(1)
		answers.Store(true)
		w.ResumeWatches(podKind)
		time.Sleep(2 * time.Minute)
		w.wantPods(1)
	})
}

// While the server is read live the caches may catch up. What was planned before that is not carried out.
func TestAPlanFromBeforeTheLiveReadIsMadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.beforeList = func() {
			w.ResumeWatches(podKind)
			time.Sleep(time.Second)
		}
		w.start()
		var answered atomic.Bool
		w.loseAnswers(func() bool { return !answered.Swap(true) })
		w.FreezeWatches(podKind)
		w.put("a", 1)
		time.Sleep(2 * time.Minute)
		w.wantPods(1)
		if made := w.counted("create pods 201") + w.counted("create pods 200"); made != 0 {
			t.Errorf("%d pods were made after the live read", made)
		}
	})
}

// LE-14: a write that was not sent for want of the lease is known not to be carried out, also when the transport says so:
// nothing is read live before the next one.
func TestAWriteThatWasNotSentIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		liveReads bool
	}{
		"said by the client":    {client.ErrNotLeading, false},
		"said by the transport": {&url.Error{Op: "Post", URL: "https://api", Err: client.ErrNotLeading}, false},
		"a broken connection":   {&url.Error{Op: "Post", URL: "https://api", Err: errors.New("reset")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var lists atomic.Int32
				var leads atomic.Bool
				w.beforeList = func() { lists.Add(1) }
				w.start()
				w.put("first", 0) // what has come into the cache since is of our own time
				w.settle()
				w.BeforeWrite(func(x clienttest.Write) error {
					if x.Kind == "Pod" && !leads.Load() {
						return c.err
					}
					return nil
				})
				lists.Store(0)
				w.put("a", 2)
				time.Sleep(time.Minute)
				w.wantPods(0)
				leads.Store(true)
				time.Sleep(2 * time.Minute)
				w.wantPods(2)
				if n := lists.Load(); (n > 0) != c.liveReads {
					t.Errorf("%d live reads", n)
				}
			})
		})
	}
}

// Keys that have a set in common share a list of it that began a moment ago.
func TestSharedListsServeManyKeys(t *testing.T) {
	for shared, most := range map[bool]int32{false: 40, true: 22} {
		inBubble(t, func(t *testing.T, w *world) {
			var lists atomic.Int32
			w.beforeList = func() { lists.Add(1) }
			w.adjust = func(c *Controller[toy, struct{}, int]) {
				c.Live = func(s toy) []Live {
					return []Live{{Kind: podKind, Namespace: s.set.Namespace, Selector: labels.Everything(), Shared: shared}}
				}
			}
			for i := range 20 { // each is there before the term, so it is unverified
				w.put(fmt.Sprint("set-", i), 1)
			}
			w.start()
			time.Sleep(10 * time.Second) // a list may show what other keys have created, and the cache not yet
			w.wantPods(20)
			if n := lists.Load(); n > most || !shared && n < most { // its owner, and the set
				t.Errorf("shared %t: %d lists", shared, n)
			}
		})
	}
}
