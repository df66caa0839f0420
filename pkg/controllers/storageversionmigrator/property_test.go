package storageversionmigrator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// draw is any snapshot that Observe may return.
func draw(t *rapid.T) (s snapshot) {
	s.Migration = newMigration("m", rapid.SampledFrom([]string{"secrets", "gadgets.example.com"}).Draw(t, "resource"))
	s.Stage = rapid.SampledFrom([]stage{rests, waits, starts, runs, ends}).Draw(t, "stage")
	switch s.Stage {
	case runs:
		isRunning(rapid.SampledFrom([]string{"5", "5", ""}).Draw(t, "version"))(s.Migration)
	case ends:
		isRunning("5")(s.Migration)
		rapid.SampledFrom([]edit{hasSucceeded, hasFailed}).Draw(t, "end")(s.Migration)
	}
	if rapid.Bool().Draw(t, "served") {
		s.Resource = resource{secrets().Kind, rapid.IntRange(0, 3).Draw(t, "able") > 0}
	}
	if rapid.Bool().Draw(t, "defined") {
		s.CRD = newDefinition(begunAt(int64(rapid.IntRange(1, 2).Draw(t, "generation"))))
		if rapid.Bool().Draw(t, "quiet") {
			s.CRD.Migrating = nil
		}
	}
	s.Version = rapid.SampledFrom([]string{"9", "9", ""}).Draw(t, "now")
	s.Unlisted = rapid.SampledFrom([]string{"", "", "", "not found"}).Draw(t, "unlisted")
	s.Failures = rapid.IntRange(0, 10).Draw(t, "failures")
	s.Page = pageWith(rapid.IntRange(0, 5).Draw(t, "objects"), rapid.SampledFrom([]string{"", "next"}).Draw(t, "next"))
	s.Page.Verified = int64(rapid.IntRange(0, 5).Draw(t, "verified"))
	if rapid.Bool().Draw(t, "counted") {
		s.Page.Left = ptr.To(int64(rapid.IntRange(0, 9).Draw(t, "left")))
	}
	if rapid.Bool().Draw(t, "refused before") {
		s.Progress = progress{Next: "page", Verified: 10, Refused: 1, First: "a/b: no"}
		at(`{"continue":"page","verified":10,"refused":1,"first":"a/b: no"}`)(s.Migration)
	}
	return s
}

// Stored versions are cut only when the migration has succeeded, with the definition with which it has begun.
func TestStoredVersionsAreCutAfterSuccessOnly(t *testing.T) { // SVM-7, SVM-20
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		for _, step := range planMigration(epoch, s).Steps {
			c, ok := step.(plan.Change)
			if !ok {
				continue
			}
			cut := fmt.Sprint(c.New) != "" && len(storedBy(c)) < len(s.CRD.Stored)
			may := s.Stage == ends && is(s.Migration, migrationv1.MigrationSucceeded) &&
				s.CRD.Migrating.ObservedGeneration == s.CRD.Generation
			if cut != may {
				t.Errorf("%s: %v", s.Stage, storedBy(c))
			}
		}
	})
}

func storedBy(c plan.Change) []any {
	status := c.New.(interface{ UnstructuredContent() map[string]any }).UnstructuredContent()["status"]
	return status.(map[string]any)["storedVersions"].([]any)
}

// A migration succeeds only after its last page, and if no object was refused. It fails only at the end as well, or when its resource
// cannot be read. No object is counted twice, and none is left out.
func TestEveryObjectCounts(t *testing.T) { // SVM-6, SVM-22
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		s.Stage, s.Unlisted, s.Resource = runs, "", secrets()
		s.Migration = newMigration("m", "secrets", isRunning("5"))
		refused := rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 2, rapid.ID[int]).Draw(t, "refused")
		refused = slices.DeleteFunc(refused, func(i int) bool { return i >= len(s.Page.Objects) })
		status := statusIn(reportStatus(epoch, s, outcomeOf(planMigration(epoch, s), refused...)))
		if status == nil {
			t.Fatal("nothing is reported")
		}
		m := s.Migration.DeepCopy()
		m.Status = *status
		bad := int64(len(refused)) + s.Progress.Refused
		last := s.Page.Next == ""
		if is(m, migrationv1.MigrationSucceeded) != (last && bad == 0) || is(m, migrationv1.MigrationFailed) != (last && bad > 0) {
			t.Errorf("%v", says(status))
		}
		if p := progressOf(m); !last && (p.Next != s.Page.Next || p.Refused != bad || p.Verified != s.Progress.Verified+
			s.Page.Verified+int64(len(s.Page.Objects)-len(refused))) {
			t.Errorf("%+v", p)
		}
	})
}

// What was planned and reported leaves nothing to be planned and reported, unless it is a page.
func TestWhatIsWrittenIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		status := statusIn(reportStatus(epoch, s, outcomeOf(planMigration(epoch, s))))
		if status == nil || s.Stage == runs {
			return
		}
		s.Migration = s.Migration.DeepCopy()
		s.Migration.Status = *status
		if s.Stage, _ = stageOf(s.Migration, all(s.Migration)); s.Stage == starts {
			t.Errorf("it begins again: %v", says(status))
		}
		if is(s.Migration, migrationv1.MigrationFailed) && s.Stage == runs {
			t.Errorf("it runs though it has failed: %v", says(status))
		}
	})
}

// said are the conditions that are reported of an outcome.
func said(s snapshot, did plan.Outcome) []string { return says(statusIn(reportStatus(epoch, s, did))) }

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if rapid.Bool().Draw(t, "left") {
			s = snapshot{Left: newDefinition(begunAt(2))}
		}
		again := plantest.Restored(t, s)
		p, q := planMigration(epoch, s), planMigration(epoch, again)
		plantest.Same(t, p, q)
		if diff := cmp.Diff(said(s, outcomeOf(p)), said(again, outcomeOf(q))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		whole := &migrationv1.StorageVersionMigration{}
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(whole)
		whole.ManagedFields = nil // which no cache has
		projected, err := kept.Project(whole)
		if err != nil {
			t.Fatal(err)
		}
		cached := projected.(*migrationv1.StorageVersionMigration)
		s := draw(t)
		a, b := s, s
		a.Migration, b.Migration = whole, cached
		a.Stage, _ = stageOf(whole, nil)
		b.Stage, _ = stageOf(cached, nil)
		p, q := planMigration(epoch, a), planMigration(epoch, b)
		if p.Why != q.Why || resourceName(whole) != resourceName(cached) || progressOf(whole) != progressOf(cached) {
			t.Errorf("%s, and from the cache: %s", p.Why, q.Why)
		}
		if diff := cmp.Diff(said(a, plan.Outcome{}), said(b, plan.Outcome{})); diff != "" {
			t.Error(diff)
		}
	})
}

// Whatever the age of migrations is, exactly one of those that may begin has the turn, and the answer is the same for all.
func TestOneHasTheTurn(t *testing.T) { // SVM-1
	rapid.Check(t, func(t *rapid.T) {
		var found []*migrationv1.StorageVersionMigration
		for i := range rapid.IntRange(1, 5).Draw(t, "migrations") {
			m := newMigration(fmt.Sprint(i), "secrets", created(time.Duration(rapid.IntRange(0, 2).Draw(t, "age"))*time.Second))
			rapid.SampledFrom([]edit{func(*migrationv1.StorageVersionMigration) {}, leaving, hasFailed, isRunning("5")}).Draw(t, "state")(m)
			found = append(found, m)
		}
		count := map[stage]int{}
		for _, m := range found {
			which, before := stageOf(m, found)
			count[which]++
			if (before != "") != (which == waits) {
				t.Errorf("%s waits for %q", m.Name, before)
			}
		}
		if count[starts] > 1 || count[starts]+count[runs] == 0 && count[waits] > 0 || count[starts] > 0 && count[runs] > 0 {
			t.Errorf("%v", count)
		}
	})
}
