package replicas

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// counts are replicas, fully labelled, ready, available and terminating pods.
type counts [5]int32

func countsOf(s appsv1.ReplicaSetStatus) counts {
	return counts{s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, ptr.Deref(s.TerminatingReplicas, -1)}
}

// written returns the status that a report writes, nil if it writes none.
func written(t *testing.T, p plan.Plan) *appsv1.ReplicaSetStatus {
	t.Helper()
	if len(p.Steps) == 0 {
		return nil
	}
	change := p.Steps[0].(plan.Change)
	if len(p.Steps) != 1 || change.Subresource != plan.Status {
		t.Fatalf("a report of %d steps, subresource %q", len(p.Steps), change.Subresource)
	}
	before, after := change.Old.(*appsv1.ReplicaSet), change.New.(*appsv1.ReplicaSet)
	if diff := cmp.Diff(before, after, cmpopts.IgnoreFields(appsv1.ReplicaSet{}, "Status")); diff != "" {
		t.Errorf("the report changes more than the status:\n%s", diff)
	}
	return &after.Status
}

func TestCounts(t *testing.T) {
	wide := func(set *appsv1.ReplicaSet) {
		set.Spec.Template.Labels = map[string]string{"app": "web", "tier": "front"}
	}
	for _, c := range []struct {
		name    string
		s       view
		want    counts
		requeue time.Duration
	}{
		{"RS-41 owned active pods", snapshotOf(web(2), pods(2)), counts{2, 2, 2, 2, 0}, 0},
		{"RS-12 finished pods don't count", snapshotOf(web(2), pods(2, phase(corev1.PodFailed))), counts{}, 0},
		{"RS-11 nor do those of others", snapshotOf(web(2), pods(2, controlledBy("other"))), counts{}, 0},
		{"RS-20 a set being deleted counts on", snapshotOf(web(2, beingDeleted), pods(2)), counts{2, 2, 2, 2, 0}, 0},
		{"RS-21 released pods don't count", snapshotOf(web(2), pods(2, labeled("app=x"))), counts{}, 0},
		{"RS-23 pods that are adopted in this pass count", snapshotOf(web(2), pods(2, orphan)), counts{2, 2, 2, 2, 0}, 0},
		{"RS-16 pods that are deleted in this pass count", snapshotOf(web(0), pods(2)), counts{2, 2, 2, 2, 0}, 0},
		{"RS-42 pods that lack a label of the template are not fully labelled",
			snapshotOf(web(2, wide), list(pod("a"), pod("b", labeled("app=web", "tier=front", "x=y")))), counts{2, 1, 2, 2, 0}, 0},
		{"RS-43 unready pods", snapshotOf(web(2), list(pod("a"), pod("b", unready))), counts{2, 2, 1, 1, 0}, 0},
		{"RS-44 not available before minReadySeconds have passed, looked at again when they have",
			snapshotOf(web(2, minReady(60)), list(pod("a", ready(10*time.Second)), pod("b", ready(15*time.Second)))), counts{2, 2, 2, 0, 0},
			45 * time.Second},
		{"RS-44 available when they just have", snapshotOf(web(1, minReady(60)), pods(1, ready(60*time.Second))), counts{1, 1, 1, 1, 0}, 0},
		{"RS-44 never available if it is not known since when it is ready, and not waited for",
			snapshotOf(web(1, minReady(60)), pods(1, readySince(metav1.Time{}))), counts{1, 1, 1, 0, 0}, 0},
		{"RS-45 terminating pods of the set", snapshotOf(web(1), list(pod("a"), pod("b", terminatingPod))), counts{1, 1, 1, 1, 1}, 0},
		{"RS-45 not those that have finished",
			snapshotOf(web(1), list(pod("a"), pod("b", terminatingPod, phase(corev1.PodSucceeded)))), counts{1, 1, 1, 1, 0}, 0},
		{"RS-45 nor those that don't match",
			snapshotOf(web(1), list(pod("a"), pod("b", terminatingPod, labeled("app=x")))), counts{1, 1, 1, 1, 0}, 0},
		{"RS-45 nor orphans", snapshotOf(web(1), list(pod("a"), pod("b", terminatingPod, orphan))), counts{1, 1, 1, 1, 0}, 0},
		{"a pod that is seen twice counts once", snapshotOf(web(1), list(pod("a"), pod("a", orphan))), counts{1, 1, 1, 1, 0}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := reportStatus(now, c.s, plan.Outcome{})
			got := written(t, p)
			if diff := cmp.Diff(c.want, countsOf(*got)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if p.Requeue != c.requeue {
				t.Errorf("requeue %s, want %s", p.Requeue, c.requeue)
			}
			if got.ObservedGeneration != c.s.Set.Generation {
				t.Errorf("RS-46: observedGeneration %d", got.ObservedGeneration)
			}
		})
	}
}

func TestStatusIsWrittenOnlyWhenItDiffers(t *testing.T) {
	generation := func(n int64) setEdit { return func(set *appsv1.ReplicaSet) { set.Generation = n } }
	stale := func(set *appsv1.ReplicaSet) { set.Status.TerminatingReplicas = nil }
	for _, c := range []struct {
		name string
		s    view
		want bool
	}{
		{"RS-49 a steady set writes nothing", snapshotOf(web(2, told(2)), pods(2)), false},
		{"RS-48 an empty set that was never reported is written", snapshotOf(web(0)), true},
		{"RS-48 a count differs", snapshotOf(web(2, told(2)), pods(1)), true},
		{"RS-48 observedGeneration is behind", snapshotOf(web(2, told(2), generation(2)), pods(2)), true},
		{"RS-51 observedGeneration is ahead", snapshotOf(web(2, generation(9), told(2), generation(2)), pods(2)), true},
		{"RS-45 a missing terminatingReplicas of zero is not worth a write: the server may not know it",
			snapshotOf(web(2, told(2), stale), pods(2)), false},
		{"RS-45 it comes with the next write", snapshotOf(web(2, told(2), stale, generation(2)), pods(2)), true},
		{"RS-8 not without a selector", snapshotOf(web(2, func(set *appsv1.ReplicaSet) { set.Spec.Selector = nil }), pods(2)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := written(t, reportStatus(now, c.s, plan.Outcome{}))
			if (got != nil) != c.want {
				t.Errorf("written: %v", got)
			}
			if got != nil && got.ObservedGeneration != c.s.Set.Generation {
				t.Errorf("RS-51: observedGeneration %d of %d", got.ObservedGeneration, c.s.Set.Generation)
			}
		})
	}
	t.Run("RS-18 while a pod waits to become available, a steady set is looked at again", func(t *testing.T) {
		set := web(1, minReady(60), told(1), func(set *appsv1.ReplicaSet) { set.Status.AvailableReplicas = 0 })
		p := reportStatus(now, snapshotOf(set, pods(1, ready(20*time.Second))), plan.Outcome{})
		if len(p.Steps) != 0 || p.Requeue != 40*time.Second {
			t.Errorf("%d steps, requeue %s", len(p.Steps), p.Requeue)
		}
	})
	t.Run("CLI-65 terminatingReplicas can be switched off", func(t *testing.T) {
		s := snapshotOf(web(1, told(1), stale), pods(1))
		s.Disabled.TerminatingReplicas = true
		if got := written(t, reportStatus(now, s, plan.Outcome{})); got != nil {
			t.Errorf("written: %+v", got)
		}
	})
}

func TestReplicaFailure(t *testing.T) {
	quota := func(name string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("exceeded quota: few, requested: pods=1"))
	}
	refused := func(err error) plan.Outcome { return outcome(plan.Created, err, pod("")) }
	const said = `pods "web-x7k2p" is forbidden: exceeded quota: few, requested: pods=1`
	terminating := refused(nil)
	terminating.Stopped = true
	both := plan.Outcome{Err: errors.New("no"), Stopped: true, Results: refused(errors.New("no")).Results}
	foreign := appsv1.ReplicaSetCondition{Type: "Custom", Status: corev1.ConditionTrue}
	noLabels := func(set *appsv1.ReplicaSet) { set.Spec.Template.Labels = nil }
	gone := []appsv1.ReplicaSetCondition{}
	of := func(c ...appsv1.ReplicaSetCondition) []appsv1.ReplicaSetCondition { return c }
	fresh := func(reason, message string) appsv1.ReplicaSetCondition {
		c := failing(reason, message)
		c.LastTransitionTime = metav1.NewTime(now)
		return c
	}

	checkFailures(t, []failureRow{
		{"RS-52 a refused creation", snapshotOf(web(1, told(0))), refused(quota("web-x7k2p")), of(fresh("FailedCreate", said)), ""},
		{"RS-52 a refused deletion, in the words of RS-29", snapshotOf(web(0, told(1)), pods(1)),
			outcome(plan.Deleted, errors.New("no"), pod("p0")),
			of(fresh("FailedDelete", "unable to delete pods: no")), ""},
		{"RS-52 the same again, with another made-up name: no write",
			snapshotOf(web(1, told(0, failing("FailedCreate", said)))), refused(quota("web-bbbbb")), nil, ""},
		{"RS-52 another message replaces the one before: it is always current",
			snapshotOf(web(1, told(0, failing("FailedCreate", said)))), refused(errors.New("no")), of(fresh("FailedCreate", "no")), ""},
		{"RS-52 another reason does, too",
			snapshotOf(web(1, told(0, failing("FailedDelete", "no")))), refused(errors.New("no")), of(fresh("FailedCreate", "no")), ""},
		{"RS-52 it is removed on the first pass without a failure",
			snapshotOf(web(1, told(1, failing("FailedCreate", said))), pods(1)), plan.Outcome{}, gone, ""},
		{"RS-52 also when that pass has created pods", snapshotOf(web(1, told(0, failing("FailedCreate", said)))), refused(nil), gone, ""},
		{"RS-47 conditions of others are kept", snapshotOf(web(1, told(0, foreign, failing("FailedCreate", "x")))),
			refused(errors.New("no")),
			of(foreign, fresh("FailedCreate", "no")), ""},
		{"RS-47 and don't lead to a write", snapshotOf(web(1, told(1, foreign)), pods(1)), plan.Outcome{}, nil, ""},
		{"RS-28 a namespace that is being deleted is no failure", snapshotOf(web(1, told(0))), terminating, nil, ""},
		{"RS-28 not even if some writes failed for other reasons", snapshotOf(web(1, told(0))), both, nil, ""},
		{"RS-13 nothing is reported when a claim failed",
			snapshotOf(web(2), pods(1, orphan)), outcome(plan.Changed, errors.New("no"), pod("p0")), nil, ""},
		{"RS-13 nor when an adoption was not even tried", snapshotOf(web(2), pods(1, orphan)),
			plan.Outcome{Err: errors.New("owner is gone")}, nil, ""},
		{"RS-27 no labels: a failure and its event without a request", snapshotOf(web(1, noLabels, told(0))), plan.Outcome{},
			of(fresh("FailedCreate", "unable to create pods, no labels")),
			"Warning FailedCreate Error creating: unable to create pods, no labels"},
		{"RS-27 no labels: told once", snapshotOf(web(1, noLabels, told(0, failing("FailedCreate", "unable to create pods, no labels")))),
			plan.Outcome{}, nil, ""},
		{"RS-27 no labels: no failure while nothing is to be created", snapshotOf(web(1, noLabels, told(1)), pods(1)), plan.Outcome{}, nil,
			""},
		{"RS-15 no labels: no failure in a set that is being deleted", snapshotOf(web(1, noLabels, told(0), beingDeleted)), plan.Outcome{},
			nil, ""},
	})
}

type failureRow struct {
	name   string
	s      view
	did    plan.Outcome
	want   []appsv1.ReplicaSetCondition // nil: no status is written
	events string
}

func checkFailures(t *testing.T, rows []failureRow) {
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			p := reportStatus(now, c.s, c.did)
			got := written(t, p)
			if c.want == nil {
				if got != nil {
					t.Errorf("written: %+v", got)
				}
				return
			}
			if diff := cmp.Diff(c.want, got.Conditions, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			e := p.Steps[0].(plan.Change).Events.Done
			if said := strings.TrimSpace(e.Type + " " + e.Reason + " " + e.Message); said != c.events {
				t.Errorf("event %q, want %q", said, c.events)
			}
			if p.When.Quiet != 0 && !c.did.Wrote() {
				t.Errorf("news is debounced for %s", p.When.Quiet)
			}
		})
	}
}

// What users wait for is told at once; progress waits for more.
func TestDebounce(t *testing.T) {
	bad := outcome(plan.Created, errors.New("no"), pod(""))
	group := func(apiVersion string) setEdit {
		return func(set *appsv1.ReplicaSet) { set.OwnerReferences[0].APIVersion = apiVersion }
	}
	for _, c := range []struct {
		name string
		s    view
		did  plan.Outcome
		want time.Duration
	}{
		{"settled", snapshotOf(web(2), pods(2)), plan.Outcome{}, 0},
		{"settled at nothing", snapshotOf(web(0)), plan.Outcome{}, 0},
		{"a pod is missing", snapshotOf(web(2), pods(1)), plan.Outcome{}, time.Second},
		{"a pod is too many", snapshotOf(web(1), pods(2)), plan.Outcome{}, time.Second},
		{"a pod is not ready", snapshotOf(web(2), list(pod("a"), pod("b", unready))), plan.Outcome{}, time.Second},
		{"a pod is not available", snapshotOf(web(2, minReady(7200)), pods(2)), plan.Outcome{}, time.Second},
		{"a pod is on its way out", snapshotOf(web(1), list(pod("a"), pod("b", terminatingPod))), plan.Outcome{}, time.Second},
		{"this pass has written: the next one knows more", snapshotOf(web(2), pods(2)), outcome(plan.Created, nil, pod("")), time.Second},
		{"a pod is missing, a new generation", snapshotOf(web(2), pods(1)), plan.Outcome{}, plan.Soon().Longest},
		{"this pass has written, a new generation", snapshotOf(web(2)), outcome(plan.Created, nil, pod("")), plan.Soon().Longest},
		{"a failure appears", snapshotOf(web(2), pods(1)), bad, 0},
		{"a failure stays, something else moves",
			snapshotOf(web(2, told(2, failing("FailedCreate", "no"))), pods(1)), bad, time.Second},
		{"a failure disappears", snapshotOf(web(2, told(1, failing("FailedCreate", "no"))), pods(1)), plan.Outcome{}, 0},
		{"a failure disappears as pods are created: the next pass tells",
			snapshotOf(web(2, told(1, failing("FailedCreate", "no"))), pods(1)), outcome(plan.Created, nil, pod("")), time.Second},

		{"in a Deployment at its full size, settled", snapshotOf(web(2, rolledOut("2")), pods(2)), plan.Outcome{}, 0},
		{"in a Deployment at size 0, settled", snapshotOf(web(0, rolledOut("2"))), plan.Outcome{}, 0},
		{"in a Deployment at its full size, not settled", snapshotOf(web(2, rolledOut("2")), pods(1)), plan.Outcome{}, time.Second},
		{"in a Deployment at size 0, not settled", snapshotOf(web(0, rolledOut("2")), pods(1)), plan.Outcome{}, time.Second},
		{"in the middle of a rollout, settled or not", snapshotOf(web(1, rolledOut("2")), pods(1)), plan.Outcome{}, time.Second},
		{"in the middle of a rollout, having written", snapshotOf(web(1, rolledOut("2"))), outcome(plan.Created, nil, pod("")),
			time.Second},
		{"in the middle of a rollout, a new generation", snapshotOf(web(1, rolledOut("2"))), outcome(plan.Created, nil, pod("")),
			time.Second},
		{"in the middle of a rollout, a failure appears", snapshotOf(web(1, rolledOut("2"))), bad, 0},
		{"in a Deployment that has not said its size", snapshotOf(web(2, rolledOut("many")), pods(2)), plan.Outcome{}, time.Second},
		{"in something else of that name", snapshotOf(web(1, rolledOut("2"), group("example.com/v1")), pods(1)), plan.Outcome{}, 0},
		{"in a Deployment of a former version", snapshotOf(web(1, rolledOut("2"), group("apps/v1beta1")), pods(1)), plan.Outcome{},
			time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			owned := ownedByDeployment(c.s.Set)
			if c.want == time.Second && !owned { // its generation is not news
				c.s.Set.Status.ObservedGeneration = c.s.Set.Generation
			}
			p := reportStatus(now, c.s, c.did)
			if written(t, p) == nil {
				t.Fatal("nothing is written")
			}
			if p.When.Longest != c.want {
				t.Errorf("debounced for %s, want %s", p.When.Longest, c.want)
			}
			if owned && p.When.Longest != 0 && p.When.Quiet != plan.SlowProgress(0).Quiet {
				t.Errorf("written after %s without a change, want %s", p.When.Quiet, plan.SlowProgress(0).Quiet)
			}
		})
	}
}

// A set keeps its turn until it has come to rest, whether there is something to report or not.
func TestMoving(t *testing.T) {
	for _, c := range []struct {
		name string
		s    view
		want bool
	}{
		{"settled", snapshotOf(web(2), pods(2)), false},
		{"a pod is missing", snapshotOf(web(2), pods(1)), true},
		{"a pod is not available", snapshotOf(web(2, minReady(7200)), pods(2)), true},
		{"a pod is on its way out", snapshotOf(web(1), list(pod("a"), pod("b", terminatingPod))), true},
		{"in the middle of a rollout", snapshotOf(web(1, rolledOut("2")), pods(1)), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := reportStatus(now, c.s, plan.Outcome{})
			if status := written(t, first); status != nil {
				c.s.Set.Status = status
			}
			again := reportStatus(now, c.s, plan.Outcome{})
			if first.Progressing != c.want || again.Progressing != c.want || !again.Empty() {
				t.Errorf("moving %v, having reported %v, want %v", first.Progressing, again.Progressing, c.want)
			}
		})
	}
}

func TestGist(t *testing.T) {
	long := strings.Repeat("a", 70)
	for _, c := range []struct{ prefix, message, want string }{
		{"web-", `pods "web-x7k2p" is forbidden`, `pods "web-*" is forbidden`},
		{"web-", `denied the request: pod shop/web-x7k2p has no owner`, `denied the request: pod shop/web-* has no owner`},
		{"web-", `web-x7k2p`, `web-*`},
		{"web-", `web-x7k2p web-bcdfg`, `web-* web-*`},
		{"web-", `replicasets "web" is forbidden`, `replicasets "web" is forbidden`},
		{"web-", `image web-frontend`, `image web-frontend`},
		{"web-", `used: pods=2`, `used: pods=2`},
		{"web-", ``, ``},
		{"", `pods "x7k2p"`, `pods "x7k2p"`},
		{long + "-", `pods "` + long[:58] + `x7k2p" is forbidden`, `pods "` + long[:58] + `*" is forbidden`},
	} {
		if got := normalizedMessage(c.message, c.prefix); got != c.want {
			t.Errorf("normalizedMessage of %q is %q", c.message, got)
		}
	}
}

func TestDesiredReplicas(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "3": 3, "2147483647": 2147483647, "": -1, "many": -1, "3.0": -1, "2147483648": -1} {
		if got, known := desiredReplicas(text); known != (want >= 0) || known && got != want {
			t.Errorf("%q is %d, %t", text, got, known)
		}
	}
}

// A set that asks the server again and again, and gets the same answer with another pod name in it, writes once.
func TestRS52NoStormOfWrites(t *testing.T) {
	w := &world{set: web(3)}
	writes := 0
	for _, suffix := range []string{"x7k2p", "bcdfg", "24567", "zzzzz"} {
		w.refuses = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-"+suffix, errors.New("exceeded quota"))
		_, reported := w.pass(t)
		writes += len(reported.Steps)
	}
	if writes != 1 {
		t.Errorf("%d writes", writes)
	}
	w.refuses = nil
	w.pass(t)
	if w.pass(t); len(w.set.Status.Conditions) != 0 {
		t.Errorf("left over: %v", w.set.Status.Conditions)
	}
}

// FuzzDesiredReplicas: only a number that may be a size keeps a report from being debounced.
func FuzzDesiredReplicas(f *testing.F) {
	for _, seed := range []string{"", "2", "-1", "many", "99999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := reportStatus(now, snapshotOf(web(2, rolledOut(text)), pods(2)), plan.Outcome{})
		n, known := desiredReplicas(text)
		if (p.When.Quiet == 0) != (known && n == 2) {
			t.Errorf("%q: debounced for %s", text, p.When.Quiet)
		}
	})
}

// FuzzGist: what differs only in a generated name is the same.
func FuzzGist(f *testing.F) {
	f.Add("pods \"", "\" is forbidden")
	f.Add("web-web-", "")
	f.Add("web-0", "")
	f.Fuzz(func(t *testing.T, before, after string) {
		if after != "" && strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", rune(after[0])) {
			return // the name goes on
		}
		if a, b := normalizedMessage(before+"web-bcdfg"+after, "web-"), normalizedMessage(before+"web-24567"+after, "web-"); a != b {
			t.Errorf("%q and %q", a, b)
		}
	})
}
