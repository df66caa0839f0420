package namespace

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// ending is a namespace that is being deleted.
func ending(edits ...func(*corev1.Namespace)) *corev1.Namespace {
	ns := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "shop", ResourceVersion: "7",
			DeletionTimestamp: ptr.To(metav1.NewTime(now.Add(-time.Minute)))},
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
	}
	for _, edit := range edits {
		edit(ns)
	}
	return ns
}

func finalizers(names ...corev1.FinalizerName) func(*corev1.Namespace) {
	return func(ns *corev1.Namespace) { ns.Spec.Finalizers = names }
}

func metadataFinalizers(names ...string) func(*corev1.Namespace) {
	return func(ns *corev1.Namespace) { ns.Finalizers = names }
}

var (
	deployments = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	policies    = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}
	secrets     = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

func has(kind schema.GroupVersionKind, resource string, objects ...*metav1.PartialObjectMetadata) content {
	c := content{Kind: kind, Resource: resource}
	for _, o := range objects {
		c.add(o)
	}
	return c
}

// unmoved is content that the last round has deleted without effect.
func unmoved(kind schema.GroupVersionKind, resource string) content {
	c := has(kind, resource, object("a"))
	c.Unmoved = true
	return c
}

// object is one that exists; deleted, one that is being deleted and has these finalizers.
func object(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func deleted(name string, finalizers ...string) *metav1.PartialObjectMetadata {
	o := object(name)
	o.DeletionTimestamp, o.Finalizers = ptr.To(metav1.NewTime(now.Add(-time.Second))), finalizers
	return o
}

// graceful is a pod whose grace period ends in so many seconds.
func graceful(name string, seconds int64) *metav1.PartialObjectMetadata {
	o := object(name)
	o.DeletionTimestamp, o.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(now.Add(time.Duration(seconds)*time.Second))),
		ptr.To(int64(30))
	return o
}

// written says what a plan writes, in short.
func written(p plan.Plan) (all []string) {
	for _, s := range p.Steps {
		switch s := s.(type) {
		case plan.Each:
			for _, sequence := range s.Sequences {
				all = append(all, written(plan.Plan{Steps: sequence})...)
			}
		case plan.DeleteCollection:
			all = append(all, fmt.Sprintf("delete all %s in %s %s", s.Kind.Kind, s.Namespace, s.Propagation))
		case plan.Change:
			all = append(all, fmt.Sprintf("update %s %v", s.Subresource, s.New.(*corev1.Namespace).Spec.Finalizers))
		}
	}
	return all
}

func TestPlanContent(t *testing.T) {
	settled := now.Add(-time.Second)
	conditions := func(ns *corev1.Namespace) {
		ns.Status = statusOf(now, snapshot{Namespace: ns}, plan.Outcome{})
	}
	for _, c := range []struct {
		name     string
		snapshot snapshot
		want     []string
		requeue  time.Duration
		why      string
	}{
		{"NS-4 what is there is deleted at once",
			snapshot{Namespace: ending(), SettledAt: now.Add(time.Second), Contents: []content{has(secrets, "secrets", object("a"))}},
			[]string{"delete all Secret in shop Background"}, soon, "deletes all secrets"},
		{"NS-4 an empty one is released when nothing can come any more",
			snapshot{Namespace: ending(), SettledAt: now.Add(time.Second)}, nil, time.Second,
			"waiting for what was admitted before the deletion"},
		{"NS-28 and when all resources were listed after that",
			snapshot{Namespace: ending(), SettledAt: settled}, nil, soon, "looks once more"},
		{"NS-12 it was released before, and waits for others",
			snapshot{Namespace: ending(finalizers(), metadataFinalizers("example.com/hold")), SettledAt: settled, Complete: true},
			nil, 0, "example.com/hold"},
		{"NS-12 one that only the finalizers of others hold is emptied, too",
			snapshot{Namespace: ending(finalizers("example.com/hold")), SettledAt: settled,
				Contents: []content{has(secrets, "secrets", object("a"))}},
			[]string{"delete all Secret in shop Background"}, soon, "deletes all secrets"},
		{"NS-29 and says in its conditions that it is empty",
			snapshot{Namespace: ending(finalizers("example.com/hold")), SettledAt: settled, Complete: true}, nil, soon,
			"says so in its conditions"},
		{"NS-36 and keeps the finalizers of others",
			snapshot{Namespace: ending(finalizers("z", "a"), conditions), SettledAt: settled, Complete: true}, nil, 0,
			"waits for the finalizers of others: z, a"},
		{"NS-15 what cannot be listed is deleted before the namespace is released",
			snapshot{Namespace: ending(), SettledAt: settled, Complete: true, Unlisted: []schema.GroupVersionKind{deployments, secrets}},
			[]string{"delete all Deployment in shop Background", "delete all Secret in shop Background"}, soon, "what cannot be listed"},
		{"NS-15 and before it says that it is empty",
			snapshot{Namespace: ending(metadataFinalizers("x")), SettledAt: settled, Complete: true,
				Unlisted: []schema.GroupVersionKind{secrets}},
			[]string{"delete all Secret in shop Background"}, soon, "what cannot be listed"},
		{"NS-16 collections with objects are deleted in the background, all others are not asked for (NS-53)",
			snapshot{Namespace: ending(), SettledAt: settled, Contents: []content{
				has(deployments, "deployments", object("web"), deleted("old")), has(secrets, "secrets", deleted("a", "x")),
				{Kind: client.KindFor[*corev1.Pod](), Resource: "pods", Error: "no"}}},
			[]string{"delete all Deployment in shop Background"}, soon, "deletes all deployments.apps"},
		{"NS-6 a deletion that had no effect is repeated ever more rarely",
			snapshot{Namespace: ending(), SettledAt: settled, Rounds: 20,
				Contents: []content{unmoved(secrets, "secrets"), has(deployments, "deployments", deleted("old"))}},
			[]string{"delete all Secret in shop Background"}, longestWait,
			"deletes all secrets again, because the last deletion had no effect; waiting until nothing is left; there are 1 secrets (a)"},
		{"NS-16 but soon if another collection is deleted for the first time",
			snapshot{Namespace: ending(), SettledAt: settled, Rounds: 20,
				Contents: []content{unmoved(secrets, "secrets"), has(deployments, "deployments", object("web"))}},
			[]string{"delete all Secret in shop Background", "delete all Deployment in shop Background"}, soon,
			"deletes all secrets, deployments.apps"},
		{"NS-5 pods end within their grace period: the next round comes after half of it",
			snapshot{Namespace: ending(), SettledAt: settled, Rounds: 20, Longest: time.Hour,
				Contents: []content{has(client.KindFor[*corev1.Pod](), "pods", graceful("web-0", 30), graceful("web-1", 10))}},
			nil, 16 * time.Second, "there are 2 pods (web-0, web-1)"},
		{"NS-25 a finalizer is expected to take 15 seconds",
			snapshot{Namespace: ending(), SettledAt: settled, Rounds: 20, Longest: time.Hour,
				Contents: []content{has(secrets, "secrets", deleted("a", "x", "y"))}},
			nil, 8500 * time.Millisecond, "1 secrets (a), 1 held by the finalizer x, 1 held by the finalizer y"},
		{"the first rounds come sooner",
			snapshot{Namespace: ending(), SettledAt: settled, Rounds: 1, Contents: []content{has(secrets, "secrets", deleted("a", "x"))}},
			nil, 2 * firstWait, "1 secrets"},
		{"NS-6 what stays without a reason is looked at ever more rarely",
			snapshot{Namespace: ending(), SettledAt: settled, Rounds: 20, Contents: []content{has(secrets, "secrets", deleted("a"))}},
			nil, longestWait, "1 secrets"},
		{"NS-2 but not more rarely than the period",
			snapshot{Namespace: ending(), SettledAt: settled, Rounds: 20, Longest: time.Second,
				Contents: []content{has(secrets, "secrets", deleted("a"))}},
			nil, time.Second, "1 secrets"},
		{"NS-14 a group that cannot be discovered may hide something",
			snapshot{Namespace: ending(), SettledAt: settled, Discovery: &failure{Groups: 1, Message: "metrics: 503"}},
			nil, firstWait, "unknown resources: metrics: 503"},
		{"NS-28 a resource that cannot be listed may have something",
			snapshot{Namespace: ending(), SettledAt: settled,
				Contents: []content{{Kind: secrets, Resource: "secrets", Error: "list secrets: 500"}}},
			nil, firstWait, "list secrets: 500"},
		{"NS-36 an empty one is released",
			snapshot{Namespace: ending(), SettledAt: settled, Complete: true}, []string{"update finalize []"}, 0, "nothing is left"},
		{"NS-36 the finalizers of others stay, each once and sorted",
			snapshot{Namespace: ending(finalizers("z", "kubernetes", "a", "z"), conditions), SettledAt: settled, Complete: true},
			[]string{"update finalize [a z]"}, 0, ""},
		{"NS-29 one that others hold says first that it is empty",
			snapshot{Namespace: ending(metadataFinalizers("x")), SettledAt: settled, Complete: true}, nil, soon,
			"says so in its conditions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.snapshot.Namespace.DeepCopy()
			p := planContent(now, plantest.Restored(t, c.snapshot))
			if diff := cmp.Diff(c.want, written(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if p.Requeue != c.requeue || !strings.Contains(p.Why, c.why) {
				t.Errorf("requeue %v, want %v; why: %s", p.Requeue, c.requeue, p.Why)
			}
			if diff := cmp.Diff(before, c.snapshot.Namespace); diff != "" {
				t.Errorf("the snapshot was changed:\n%s", diff)
			}
		})
	}
}

func TestReportConditions(t *testing.T) {
	settled := now.Add(-time.Second)
	fine := []string{
		"NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
		"NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
		"NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
		"NamespaceContentRemaining False ContentRemoved: All content successfully removed",
		"NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
	}
	with := func(changes map[int]string) []string {
		all := append([]string{}, fine...)
		for i, c := range changes {
			all[i] = c
		}
		return all
	}
	refused := plan.Outcome{Err: errors.New("x"), Results: []plan.Result{{Verb: plan.Deleted, Err: errors.New("deployments: forbidden")}}}
	for _, c := range []struct {
		name     string
		snapshot snapshot
		did      plan.Outcome
		want     []string
	}{
		{"what was just deleted is reported by the next round",
			snapshot{Namespace: ending(), SettledAt: settled, Contents: []content{has(secrets, "secrets", object("a"))}}, plan.Outcome{},
			nil},
		{"one that vanishes needs no report", snapshot{Namespace: ending(), SettledAt: settled, Complete: true}, plan.Outcome{}, nil},
		{"NS-29 one that others hold has all five",
			snapshot{Namespace: ending(metadataFinalizers("x")), SettledAt: settled, Complete: true}, plan.Outcome{}, fine},
		{"NS-31 some groups could not be discovered",
			snapshot{Namespace: ending(), SettledAt: settled, Discovery: &failure{2, "metrics: 503"}}, plan.Outcome{},
			with(map[int]string{0: "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: Discovery failed for some groups, 2 failing: " +
				"metrics: 503"})},
		{"NS-31 nothing could be discovered", snapshot{Namespace: ending(), SettledAt: settled, Discovery: &failure{0, "503"}},
			plan.Outcome{},
			with(map[int]string{0: "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: 503"})},
		{"NS-33 a deletion was refused",
			snapshot{Namespace: ending(), SettledAt: settled,
				Contents: []content{has(deployments, "deployments", object("a")),
					{Kind: secrets, Resource: "secrets", Error: "list secrets: 500"}}}, refused,
			with(map[int]string{
				2: "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 2 remaining: " +
					"deployments: forbidden, list secrets: 500",
				3: "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource " +
					"instances",
			})},
		{"NS-33 what cannot be listed could not be deleted",
			snapshot{Namespace: ending(), SettledAt: settled, Complete: true, Unlisted: []schema.GroupVersionKind{deployments}}, refused,
			with(map[int]string{2: "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 " +
				"remaining: deployments: forbidden"})},
		{"NS-26 a deletion had no effect",
			snapshot{Namespace: ending(), SettledAt: settled, Contents: []content{unmoved(secrets, "secrets")}}, plan.Outcome{},
			with(map[int]string{
				2: "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: " +
					"unexpected items still remain in namespace: shop for gvr: /v1, Resource=secrets",
				3: "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: secrets. has 1 resource instances",
			})},
		{"NS-26 something stays without a reason",
			snapshot{Namespace: ending(), SettledAt: settled, Contents: []content{has(deployments, "deployments", deleted("a"))}},
			plan.Outcome{},
			with(map[int]string{
				2: "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: " +
					"unexpected items still remain in namespace: shop for gvr: apps/v1, Resource=deployments",
				3: "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource " +
					"instances",
			})},
		{"NS-34, NS-35 what remains, and which finalizers hold it, is sorted",
			snapshot{Namespace: ending(), SettledAt: settled,
				Contents: []content{has(secrets, "secrets", deleted("a", "y"), deleted("b", "x", "y")),
					has(deployments, "deployments", deleted("c", "x"))}}, plan.Outcome{},
			with(map[int]string{
				3: "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource " +
					"instances, secrets. has 2 resource instances",
				4: "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x in " +
					"2 resource instances, y in 2 resource instances",
			})},
		{"NS-30 pods are reported, too",
			snapshot{Namespace: ending(), SettledAt: settled,
				Contents: []content{has(client.KindFor[*corev1.Pod](), "pods", graceful("web-0", 10))}}, plan.Outcome{},
			with(map[int]string{3: "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: pods. has 1 " +
				"resource instances"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := reportConditions(now, plantest.Restored(t, c.snapshot), c.did)
			var got []string
			for _, s := range p.Steps {
				for _, condition := range s.(plan.Change).New.(*corev1.Namespace).Status.Conditions {
					got = append(got, fmt.Sprintf("%s %s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// NS-29: what is said already is not written again, and the time of the last transition changes with the status only. NS-11: the
// phase is set if the server has not set it.
func TestConditionsChangeOnlyWithWhatTheySay(t *testing.T) {
	s := snapshot{Namespace: ending(), SettledAt: now, Contents: []content{has(secrets, "secrets", deleted("a", "x"), deleted("b", "x"))}}
	s.Namespace.Status.Phase = corev1.NamespaceActive
	first := reportConditions(now, s, plan.Outcome{}).Steps[0].(plan.Change).New.(*corev1.Namespace)
	if first.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("phase %s", first.Status.Phase)
	}
	s.Namespace = first
	later := now.Add(time.Minute)
	if p := reportConditions(later, s, plan.Outcome{}); !p.Empty() {
		t.Errorf("written again: %v", p.Steps)
	}
	s.Contents = []content{has(secrets, "secrets", deleted("a", "x"))}
	second := reportConditions(later, s, plan.Outcome{}).Steps[0].(plan.Change).New.(*corev1.Namespace)
	s.Namespace, s.Contents = second, []content{has(secrets, "secrets", deleted("a"))}
	third := reportConditions(later, s, plan.Outcome{}).Steps[0].(plan.Change).New.(*corev1.Namespace)
	at := func(ns *corev1.Namespace, i int) time.Time { return ns.Status.Conditions[i].LastTransitionTime.Time }
	if !at(second, 3).Equal(now) || !at(third, 3).Equal(now) || !at(third, 4).Equal(later) || !at(third, 0).Equal(now) {
		t.Errorf("%+v\n%+v", second.Status, third.Status)
	}
}
