package simulation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// Small work does not wait for a newer report: from the last change of its pods and ReplicaSets to the status that shows it
// pass at most 0.3 s, however long such work goes on.
func TestStatusOfSmallWorkIsPrompt(t *testing.T) {
	for name, work := range map[string]func(b *busy){
		"a rollout of 5 that stops at its limits": func(b *busy) {
			b.Create(suite.Deployment("web", 5))
			b.prompt()
			b.SetImage("web", "bad:1")
		},
		"scaling a stuck rollout of 10 up and down": func(b *busy) {
			b.Create(suite.Deployment("web", 10))
			b.prompt()
			b.SetImage("web", "bad:1")
			for _, n := range []int{20, 5} {
				b.prompt()
				b.Patch("web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
			}
		},
		"a series of changes to one ReplicaSet": func(b *busy) {
			d := suite.Deployment("web", 3)
			b.Create(&appsv1.ReplicaSet{ObjectMeta: d.ObjectMeta,
				Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}})
			for n := range 10 {
				b.prompt()
				suite.Patch[*appsv1.ReplicaSet](b.User, "web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n%4))
			}
		},
		"a hundred writes a second for a minute: small rollouts, half of them get stuck": func(b *busy) {
			for i := range plantest.Tries(300, 50) {
				b.Create(suite.Deployment(fmt.Sprint("web-", i), 2))
				if last := i - 5; last >= 0 {
					b.SetImage(fmt.Sprint("web-", last), []string{"web:2", "bad:1"}[last%2])
				}
				time.Sleep(200 * time.Millisecond)
			}
		},
		"a dozen rollouts that get stuck at once": func(b *busy) {
			for i := range 12 {
				b.Create(suite.Deployment(fmt.Sprint("web-", i), 5))
			}
			b.quiet()
			for i := range 12 {
				b.SetImage(fmt.Sprint("web-", i), "bad:1")
			}
			b.promptWithin(300*time.Millisecond + 12*writeTakes) // their reports are written one after the other
		},
		"a dozen rollouts a second that get stuck": func(b *busy) {
			for i := range 120 {
				b.Create(suite.Deployment(fmt.Sprint("web-", i), 2))
			}
			b.quiet()
			for i := range 120 {
				b.SetImage(fmt.Sprint("web-", i), "bad:1")
				time.Sleep(time.Second / 12)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T) {
				b := newBusy(t)
				work(b)
				b.prompt()
			})
		})
	}
}

// skipLarge skips a test of much work under the race detector, where it takes minutes: its subject is numbers. The same code runs there
// in the tests of little work.
func skipLarge(t *testing.T) {
	t.Helper()
	if plantest.Race {
		t.Skip("large work, of which the writes are counted")
	}
}

// prompt waits until nothing changes any more, and judges how long after the last change of anything else of an app its last
// report came.
func (b *busy) prompt() {
	b.Helper()
	b.promptWithin(300 * time.Millisecond)
}

func (b *busy) promptWithin(within time.Duration) {
	b.Helper()
	var longest time.Duration
	apps := b.quiet()
	for app, t := range apps {
		lag := t.reported.Sub(t.changed)
		if longest = max(longest, lag); lag > within {
			b.Errorf("the last status of %s was written %v after its last change", app, lag)
		}
	}
	b.Logf("%d apps: the last status was written at most %v after the last change", len(apps), longest)
}

// lastWrites are the times of the last write of a status and of anything else.
type lastWrites struct{ reported, changed time.Time }

// quiet waits until nothing has changed for 20 seconds, and returns the last writes of each app since it was last called.
func (b *busy) quiet() map[string]lastWrites {
	apps := map[string]lastWrites{}
	for last := time.Now(); time.Since(last) < 20*time.Second; time.Sleep(time.Second) {
		for _, resource := range []string{"pods", "replicasets", "deployments"} {
			for _, e := range b.server.Since(resource, b.seen) {
				app := appOf(e.Object)
				t := apps[app]
				if isReport(e) {
					t.reported = later(t.reported, e.Time)
				} else {
					t.changed = later(t.changed, e.Time)
				}
				apps[app], last = t, later(last, e.Time)
			}
		}
		b.seen = b.server.Version()
	}
	return apps
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// appOf names the piece of work that an object belongs to.
func appOf(o apiserver.Object) string {
	if app, ok := o.GetLabels()["app"]; ok {
		return app
	}
	return o.GetName()
}

// isReport reports whether an event is a change of the status of a workload.
func isReport(e *apiserver.Event) bool {
	if _, pod := e.Object.(*corev1.Pod); pod || e.Before == nil || !strings.HasPrefix(e.By, "m") {
		return false
	}
	return e.Object.GetGeneration() == e.Before.GetGeneration()
}
