package storageversionmigrator

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A row is a sentence: what people read in the status, and programs that wait for it.
func TestReport(t *testing.T) {
	const running = "Running=True MigrationRunning: The migration is running"
	waiting := newMigration("m", "secrets")
	begun := newMigration("m", "secrets", isRunning("5"))
	later := newMigration("m", "secrets", isRunning("5"), at(`{"continue":"old","verified":10,"refused":1,"first":"a/b: no"}`))
	with := func(p page, left *int64) page { p.Left = left; return p }
	for _, c := range []struct {
		name    string
		seen    snapshot
		refused []int
		err     error
		want    []string
	}{
		{"SVM-2 V37-77 it begins", snapshot{Migration: waiting, Stage: starts, Resource: secrets(), Version: "9"}, nil, nil,
			[]string{running}},
		{"SVM-2 the definition could not be written", snapshot{Migration: waiting, Stage: starts, Resource: secrets(), Version: "9"}, nil,
			fmt.Errorf("conflict"), nil},
		{"V37-77 the definition cannot be written", snapshot{Migration: waiting, Stage: starts, Resource: secrets(), Version: "9",
			Failures: 8}, nil, fmt.Errorf("forbidden"), []string{"Running=False MigrationPending"}},
		{"SVM-3 the resource cannot be rewritten", snapshot{Migration: waiting, Stage: starts, Resource: resource{Kind: secrets().Kind}},
			nil, nil, []string{"Failed=True StorageVersionMigrationFailed: 0/0 not yet migrated. migration encountered unhandled error: " +
				"secrets cannot be listed, patched and updated"}},
		{"V37-77 a page of many", snapshot{Migration: begun, Stage: runs, Resource: secrets(),
			Page: with(pageWith(3, "x"), ptr.To[int64](7))}, nil, nil, []string{running + ", 7/10 objects not yet migrated", `Cursor=True PageMigrated: {"continue":"x","verified":3}`}},
		{"V37-77 nobody says how many are left", snapshot{Migration: begun, Stage: runs, Resource: secrets(), Page: pageWith(3, "x")},
			nil, nil, []string{running + ", 3 objects verified migrated", `Cursor=True PageMigrated: {"continue":"x","verified":3}`}},
		{"SVM-22 one object is refused, and the others go on", snapshot{Migration: begun, Stage: runs, Resource: secrets(),
			Page: with(pageWith(3, "x"), ptr.To[int64](7))}, []int{1}, nil,
			[]string{running + ", 8/10 objects not yet migrated; 1 objects refused, the first: shop/s-1: no",
				`Cursor=True PageMigrated: {"continue":"x","verified":2,"refused":1,"first":"shop/s-1: no"}`}},
		{"SVM-6 the last page", snapshot{Migration: begun, Stage: runs, Resource: secrets(), Page: pageWith(3, ""),
			Progress: progress{Verified: 10}}, nil, nil, []string{running,
			"Succeeded=True StorageVersionMigrationSucceeded: Migration completed, 13 objects verified migrated"}},
		{"SVM-5 V37-77 the last page, and an object was refused before", snapshot{Migration: later, Stage: runs, Resource: secrets(),
			Page: pageWith(3, ""), Progress: progressOf(later)}, nil, nil, []string{running,
			"Failed=True StorageVersionMigrationFailed: 1/14 not yet migrated. migration encountered unhandled error: a/b: no"}},
		{"a page without objects", snapshot{Migration: begun, Stage: runs, Resource: secrets()}, nil, nil, []string{running,
			"Succeeded=True StorageVersionMigrationSucceeded: Migration completed, 0 objects verified migrated"}},
		{"V37-77 what does not pass at once", snapshot{Migration: begun, Stage: runs, Resource: secrets(), Page: pageWith(3, ""),
			Failures: 8}, nil, fmt.Errorf("no connection"), []string{running + "; transient error: no connection"}},
		{"what passes", snapshot{Migration: begun, Stage: runs, Resource: secrets(), Page: pageWith(3, ""), Failures: 7}, nil,
			fmt.Errorf("no connection"), nil},
		{"SVM-5 the resource is gone", snapshot{Migration: later, Stage: runs, Resource: secrets(), Unlisted: "not found",
			Progress: progressOf(later)}, nil, nil, []string{running,
			"Failed=True StorageVersionMigrationFailed: 1/11 not yet migrated. migration encountered unhandled error: not found"}},
		{"SVM-7 it is over", snapshot{Migration: newMigration("m", "secrets", isRunning("5"), hasSucceeded), Stage: ends}, nil, nil,
			[]string{"Running=False MigrationCompleted", "Succeeded=True Test: "}},
		{"SVM-7 the definition could not be written", snapshot{Migration: newMigration("m", "secrets", isRunning("5"), hasSucceeded),
			Stage: ends}, nil, fmt.Errorf("conflict"), nil},
		{"SVM-1 it waits", snapshot{Migration: waiting, Stage: waits, Before: "other"}, nil, nil, nil},
		{"it rests", snapshot{Migration: newMigration("m", "secrets", hasSucceeded, isOver), Stage: rests}, nil, nil, nil},
		{"SVM-22 it is gone", snapshot{Left: newDefinition(begunAt(2))}, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			did := plan.Outcome{Err: c.err}
			if c.err == nil {
				did = outcomeOf(planMigration(epoch, c.seen), c.refused...)
			}
			var before *migrationv1.StorageVersionMigration
			if c.seen.Migration != nil {
				before = c.seen.Migration.DeepCopy()
			}
			p := reportStatus(epoch, c.seen, did)
			if diff := cmp.Diff(c.want, says(statusIn(p))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, c.seen.Migration); diff != "" {
				t.Errorf("the report changes what was observed: %s", diff)
			}
			if !p.Empty() && (p.Why == "" || p.When != plan.Now()) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// SVM-3: the version is written once, with the condition or, where the original has begun, after it.
func TestSVM3Version(t *testing.T) {
	half := newMigration("m", "secrets", isRunning(""))
	for _, c := range []struct {
		seen snapshot
		want string
	}{
		{snapshot{Migration: newMigration("m", "secrets"), Stage: starts, Resource: secrets(), Version: "9"}, "9"},
		{snapshot{Migration: half, Stage: runs, Resource: secrets(), Version: "9"}, "9"},
		{snapshot{Migration: newMigration("m", "secrets", func(m *migrationv1.StorageVersionMigration) { m.Status.ResourceVersion = "4" }),
			Stage: starts, Resource: secrets(), Version: "9"}, "4"},
	} {
		s := statusIn(reportStatus(epoch, c.seen, plan.Outcome{}))
		if s == nil || s.ResourceVersion != c.want || len(says(s)) != 1 {
			t.Errorf("%v: %+v", c.want, s)
		}
	}
}

// What nobody has written as a cursor counts for nothing, so that no object is left out.
func TestProgressOf(t *testing.T) {
	for text, want := range map[string]progress{
		"":                                  {},
		"nonsense":                          {},
		`{"continue":"x","verified":-1}`:    {},
		`{"continue":1}`:                    {},
		`{"continue":"x","verified":3}`:     {Next: "x", Verified: 3},
		`{"continue":"x","first":"a: b"}`:   {Next: "x", First: "a: b"},
		`{"continue":"x","other":{"y":[]}}`: {Next: "x"},
	} {
		if got := progressOf(newMigration("m", "secrets", at(text))); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// Whatever time it is, the time of a condition is that of its last transition.
func TestTransitions(t *testing.T) {
	s := snapshot{Migration: newMigration("m", "secrets", isRunning("5")), Stage: runs, Resource: secrets(), Page: pageWith(0, "x")}
	status := statusIn(reportStatus(epoch.Add(time.Hour), s, plan.Outcome{}))
	if !status.Conditions[0].LastTransitionTime.Time.Equal(epoch) || status.Conditions[1].LastTransitionTime.Time.Equal(epoch) {
		t.Errorf("%+v", status.Conditions)
	}
}
