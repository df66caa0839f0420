package storageversionmigrator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	migrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// One migration of a resource runs at a time: the oldest, then by name.
func TestStages(t *testing.T) {
	const secrets = "secrets"
	one := newMigration("b", secrets)
	for _, c := range []struct {
		name   string
		m      *migrationv1.StorageVersionMigration
		others []*migrationv1.StorageVersionMigration
		want   stage
		before string
	}{
		{"SVM-1 the only one", one, nil, starts, ""},
		{"SVM-1 a younger one waits for it", one, all(newMigration("a", secrets, created(time.Second))), starts, ""},
		{"SVM-1 it waits for an older one", one, all(newMigration("c", secrets, created(-time.Second))), waits, "c"},
		{"SVM-1 of one age the name decides", one, all(newMigration("a", secrets)), waits, "a"},
		{"SVM-1 one that is running comes first", one, all(newMigration("c", secrets, created(time.Hour), isRunning("5"))), waits, "c"},
		{"SVM-1 one that has failed and is not over", one, all(newMigration("c", secrets, isRunning("5"), hasFailed)), waits, "c"},
		{"SVM-1 one that is over", one, all(newMigration("a", secrets, hasSucceeded, isOver)), starts, ""},
		{"SVM-1 one that could not begin", one, all(newMigration("a", secrets, hasFailed)), starts, ""},
		{"SVM-22 one that is being deleted", one, all(newMigration("a", secrets, isRunning("5"), leaving)), starts, ""},
		{"it is running", newMigration("b", secrets, isRunning("5")), all(newMigration("a", secrets)), runs, ""},
		{"it has succeeded, and is not over", newMigration("b", secrets, isRunning("5"), hasSucceeded), nil, ends, ""},
		{"it has failed, and is not over", newMigration("b", secrets, isRunning("5"), hasFailed), nil, ends, ""},
		{"it is over", newMigration("b", secrets, hasSucceeded, isOver), nil, rests, ""},
		{"it is being deleted", newMigration("b", secrets, isRunning("5"), leaving), nil, rests, ""},
	} {
		got, before := stageOf(c.m, append(c.others, c.m))
		if got != c.want || before != c.before {
			t.Errorf("%s: %s %s", c.name, got, before)
		}
	}
}

func all(m ...*migrationv1.StorageVersionMigration) []*migrationv1.StorageVersionMigration { return m }

// A row is a sentence: what a migration does about its CustomResourceDefinition. want is the condition and the stored versions that are
// applied; empty for no write.
func TestMEND34SVM7Definitions(t *testing.T) {
	gadgets := newMigration("m", "gadgets.example.com")
	ending := func(end edit) *migrationv1.StorageVersionMigration {
		return newMigration("m", "gadgets.example.com", isRunning("5"), end)
	}
	able := resource{gadget.GroupVersionKind, true}
	const begins, ok, failed = "True MigrationRunning 2 [v1 v2]", "False MigrationSucceeded 2 ", "False MigrationFailed 2 [v1 v2]"
	for _, c := range []struct {
		name string
		seen snapshot
		want string
	}{
		{"SVM-2 it begins", snapshot{Migration: gadgets, Stage: starts, CRD: newDefinition(), Resource: able, Version: "9"}, begins},
		{"SVM-2 it has begun with another definition",
			snapshot{Migration: gadgets, Stage: starts, CRD: newDefinition(begunAt(1)), Resource: able, Version: "9"}, begins},
		{"SVM-2 the definition says so already",
			snapshot{Migration: gadgets, Stage: starts, CRD: newDefinition(begunAt(2)), Resource: able, Version: "9"}, ""},
		{"SVM-2 a resource without a definition", snapshot{Migration: gadgets, Stage: starts, Resource: able, Version: "9"}, ""},
		{"SVM-7 it has succeeded", snapshot{Migration: ending(hasSucceeded), Stage: ends, CRD: newDefinition(begunAt(2))}, ok + "[v2]"},
		{"SVM-7 the definition has changed meanwhile",
			snapshot{Migration: ending(hasSucceeded), Stage: ends, CRD: newDefinition(begunAt(1))}, "False MigrationSucceeded 1 [v1 v2]"},
		{"SVM-20 MEND-34 it has failed", snapshot{Migration: ending(hasFailed), Stage: ends, CRD: newDefinition(begunAt(2))}, failed},
		{"nobody has said that it has begun", snapshot{Migration: ending(hasSucceeded), Stage: ends, CRD: newDefinition()}, ""},
		{"SVM-22 it was deleted while it was running", snapshot{Left: newDefinition(begunAt(2))}, failed},
		{"a page writes nothing to it", snapshot{Migration: gadgets, Stage: runs, CRD: newDefinition(), Resource: able}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planMigration(epoch.Add(time.Hour), c.seen)
			if got := appliedBy(t, p); got != c.want || p.Why == "" {
				t.Errorf("%s: %q", p.Why, got)
			}
		})
	}
}

// appliedBy returns what a plan applies to a definition, and checks that it is applied as it has to be.
func appliedBy(t *testing.T, p plan.Plan) string {
	if p.Empty() {
		return ""
	}
	c := p.Steps[0].(plan.Change)
	o := c.New.(*unstructured.Unstructured)
	if len(p.Steps) != 1 || c.Apply == nil || c.Apply.FieldManager != "migration-runner-controller" || !c.Apply.Force ||
		!c.CheckVersion || c.Subresource != "status" || o.GetResourceVersion() != "7" || o.GetUID() != "uid-gadgets" {
		t.Errorf("%+v", c)
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	stored, _, _ := unstructured.NestedStringSlice(o.Object, "status", "storedVersions")
	m := conditions[0].(map[string]any)
	if m["type"] != "StorageMigrating" || m["lastTransitionTime"] == "" {
		t.Errorf("%+v", m)
	}
	return fmt.Sprint(m["status"], " ", m["reason"], " ", m["observedGeneration"], " ", stored)
}

// SVM-4: each object of a page is touched, with its version as a precondition.
func TestSVM4Touches(t *testing.T) {
	s := snapshot{Migration: newMigration("m", "secrets", isRunning("5")), Stage: runs, Resource: secrets(), Page: pageWith(3, "")}
	p := planMigration(epoch, s)
	each := p.Steps[0].(plan.Each)
	if len(p.Steps) != 1 || len(each.Sequences) != 3 {
		t.Fatalf("%+v", p)
	}
	for i, sequence := range each.Sequences {
		c := sequence[0].(plan.Change)
		want := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprint("s-", i), UID: types.UID(fmt.Sprint("uid-s-", i)), ResourceVersion: "1"}}
		if diff := cmp.Diff(plan.Touch(want, "storage-version-migrator-controller"), c); diff != "" || len(sequence) != 1 {
			t.Error(diff)
		}
	}
	s.Page = page{Verified: 4}
	if p := planMigration(epoch, s); !p.Empty() || !strings.Contains(p.Why, "4 of the page") {
		t.Errorf("%+v", p)
	}
}

// SVM-6: a resource that nobody serves is waited for.
func TestSVM6Discovery(t *testing.T) {
	s := snapshot{Migration: newMigration("m", "gadgets.example.com"), Stage: starts}
	for after, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 55 * time.Second: 5 * time.Second,
		time.Minute: 0, time.Hour: 0} {
		p := planMigration(epoch.Add(after), s)
		if p.Requeue != want || !p.Empty() {
			t.Errorf("after %v: %+v", after, p)
		}
		r := reportStatus(epoch.Add(after), s, plan.Outcome{})
		if r.Empty() != (want > 0) {
			t.Errorf("after %v: %v", after, says(statusIn(r)))
		}
	}
}

// Pages grow as long as all goes well, and what is done of a page that has failed is not done again.
func TestRemember(t *testing.T) {
	s := snapshot{Migration: newMigration("m", "secrets", isRunning("5")), Stage: runs, Resource: secrets(), Page: pageWith(3, "next")}
	did := outcomeOf(planMigration(epoch, s), 1)
	m, ok := remember(epoch, s, struct{}{}, &memory{Limit: 25}, did, plan.Outcome{})
	if !ok || m.Limit != 50 || len(m.Done) != 0 {
		t.Errorf("a page that is done: %+v", m)
	}
	if m, _ = remember(epoch, s, struct{}{}, &memory{Limit: 400}, did, plan.Outcome{}); m.Limit != 500 {
		t.Errorf("the largest page: %+v", m)
	}
	failed := did
	failed.Results = failed.Results[:2]
	failed.Err = fmt.Errorf("too many requests")
	failed.Results = append(failed.Results, plan.Result{Verb: plan.Changed, Object: did.Results[2].Object, Err: failed.Err})
	m, _ = remember(epoch, s, struct{}{}, &memory{Limit: 400}, failed, plan.Outcome{})
	want := &memory{Limit: 25, Done: map[types.UID]string{"uid-s-0": "", "uid-s-1": "shop/s-1: no"}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("one that has failed in part: %s", diff)
	}
	s.Page = page{Verified: 1, Refused: 1, Done: []types.UID{"uid-s-0", "uid-s-1"}}
	if m, _ = remember(epoch, s, struct{}{}, m, plan.Outcome{}, plan.Outcome{Err: failed.Err}); len(m.Done) != 2 {
		t.Errorf("the status does not say that it is done: %+v", m)
	}
	if m, _ = remember(epoch, s, struct{}{}, m, plan.Outcome{}, plan.Outcome{}); len(m.Done) != 0 {
		t.Errorf("the status says so: %+v", m)
	}
	left := snapshot{Left: newDefinition()}
	if m, ok := remember(epoch, left, struct{}{}, &memory{Definition: "x"}, plan.Outcome{}, plan.Outcome{}); m != nil || !ok {
		t.Errorf("the definition says that it is over: %+v", m)
	}
	s.Stage = ends
	if again, ok := remember(epoch, s, struct{}{}, m, plan.Outcome{}, plan.Outcome{}); again != m || !ok {
		t.Errorf("no page: %+v", again)
	}
}

func TestClipped(t *testing.T) {
	if got := clipped(strings.Repeat("ü", 1000)); len(got) > 1024 || !strings.HasSuffix(got, "ü ...") {
		t.Error(len(got))
	}
	if got := clipped("short"); got != "short" {
		t.Error(got)
	}
}
