package simulation

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// tell has the user do what a line of a script says.
func tell(u *suite.User, words ...string) {
	u.Try(fmt.Sprint(words), func() error { return u.Do(script.Line{Words: words}) })
}

// awaitReady waits until a StatefulSet has so many pods, all of them ready.
func awaitReady(u *suite.User, n int32) {
	suite.Await(u, "db", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.ObservedGeneration != set.Generation || s.Replicas != n || s.ReadyReplicas != n {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// pod returns a pod of the user; nil if there is none.
func pod(u *suite.User, name string) *corev1.Pod {
	for _, p := range u.Pods() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// STS-52: a quota takes no new pod before those that are too many are gone. They do not wait for the new one.
func TestSTS52QuotaOfPods(t *testing.T) {
	o := PlayScenario(t, suite.Scenario{Play: func(u *suite.User) {
		tell(u, "sts", "db", "replicas=4", "image=good:1", "pods=Parallel")
		awaitReady(u, 4)
		tell(u, "quota", "pods=2")
		suite.Remove[*corev1.Pod](u, "db-0")
		awaitReady(u, 3)
		tell(u, "sts", "db", "replicas=2")
		awaitReady(u, 2)
	}}, ScenarioScript(1), controllers.Registry)
	for _, v := range o.Violations {
		t.Error(v)
	}
}

// STS-52: one ordinal that is refused keeps no other one waiting, also not one that is lost later.
func TestSTS52OneOrdinalIsRefused(t *testing.T) {
	for _, refused := range []string{"persistentvolumeclaims data-db-0", "pods db-1"} {
		t.Run(refused, func(t *testing.T) {
			var resource, name string
			_, _ = fmt.Sscan(refused, &resource, &name)
			r := &refusing{Kind: writeKind{"statefulset-controller", "create", resource, ""}, Of: name, Answer: refusals[0].Answer}
			o := playRefused(t, suite.Scenario{Play: func(u *suite.User) {
				began := time.Now()
				tell(u, "sts", "db", "replicas=4", "image=good:1", "pods=Parallel")
				awaitReady(u, 3)
				before := pod(u, "db-3").UID
				suite.Remove[*corev1.Pod](u, "db-3")
				u.Wait("db-3 is another one", suite.Patience, func() error {
					if p := pod(u, "db-3"); p == nil || p.UID == before {
						return fmt.Errorf("%v", p)
					}
					return nil
				})
				awaitReady(u, 3)
				if took := time.Since(began); took > time.Minute {
					u.Errorf("the others have taken %v", took)
				}
			}}, r, neighbours)
			for _, broken := range o.Violations {
				t.Error(broken)
			}
			if len(r.tries) == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}
