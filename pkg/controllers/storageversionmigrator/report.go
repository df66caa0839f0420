package storageversionmigrator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// cursor is a condition of a migration that has more pages than one. Its message says where it goes on, for whoever
// leads then.
const cursor = "Cursor"

// The reasons of conditions (SVM-2 to SVM-7).
const (
	reasonPending   = "MigrationPending"
	reasonRunning   = "MigrationRunning"
	reasonCompleted = "MigrationCompleted"
	reasonSucceeded = "StorageVersionMigrationSucceeded"
	reasonFailed    = "StorageVersionMigrationFailed"
	reasonPage      = "PageMigrated"
)

// lasting is after how many failures in a row the status says that something is wrong.
const lasting = 8

// progress is how far a migration has come. It is the message of the cursor.
type progress struct {
	Next     string `json:"continue,omitempty"` // where the next page begins
	Verified int64  `json:"verified,omitempty"` // objects that are stored as they are to be
	Refused  int64  `json:"refused,omitempty"`  // those that the server does not take as they are
	First    string `json:"first,omitempty"`    // the first of these, and why
}

// progressOf returns how far a migration has come by its status. What is no cursor is none: all begins anew.
func progressOf(m *migrationv1.StorageVersionMigration) (p progress) {
	c := meta.FindStatusCondition(m.Status.Conditions, cursor)
	if c == nil || json.Unmarshal([]byte(c.Message), &p) != nil || p.Verified < 0 || p.Refused < 0 {
		return progress{}
	}
	return p
}

// reportStatus says how far a migration has come.
func reportStatus(now time.Time, s snapshot, did plan.Outcome) plan.Plan {
	if s.Migration == nil || s.Stage == rests || s.Stage == waits {
		return plan.Plan{}
	}
	r := &report{now: now, status: s.Migration.Status.DeepCopy()}
	switch {
	case did.Err != nil:
		r.trouble(s, did.Err)
	case s.Stage == runs && s.impossible() == "" && s.Migration.Status.ResourceVersion != "":
		r.page(s, did)
	case s.Stage == starts && s.waitsForDiscovery(now) > 0:
		return plan.Plan{}
	case s.Stage != ends && s.impossible() == "":
		r.set(string(migrationv1.MigrationRunning), metav1.ConditionTrue, reasonRunning, "The migration is running")
		r.status.ResourceVersion = cmp.Or(r.status.ResourceVersion, s.Version) // once set it may not be changed
	case s.Stage != ends:
		done := s.Progress
		r.fail(done.Refused, done.Verified+done.Refused, s.impossible())
	default:
		r.set(string(migrationv1.MigrationRunning), metav1.ConditionFalse, reasonCompleted, "The migration has ended")
		meta.RemoveStatusCondition(&r.status.Conditions, cursor)
	}
	if equality.Semantic.DeepEqual(&s.Migration.Status, r.status) {
		return plan.Plan{}
	}
	changed := s.Migration.DeepCopy()
	changed.Status = *r.status
	return plan.Plan{
		Why: r.why,
		Steps: []plan.Step{plan.Change{
			Old: s.Migration, New: changed, Subresource: plan.Status, CheckVersion: true, FieldManager: fieldManager,
			Why: r.why,
		}},
		Progressing: s.Stage == starts || s.Stage == runs,
	}
}

// report is a status that is being written.
type report struct {
	now    time.Time
	status *migrationv1.StorageVersionMigrationStatus
	why    string // what it says, for people
}

// set sets a condition.
func (r *report) set(condition string, status metav1.ConditionStatus, reason, message string) {
	r.why = strings.TrimPrefix(r.why+"; "+message, "; ")
	meta.SetStatusCondition(&r.status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(r.now),
	})
}

// page says what became of a page: where the migration goes on, or how it has ended.
func (r *report) page(s snapshot, did plan.Outcome) {
	if len(did.Results) < len(s.Page.Objects) {
		return // it is not known yet what becomes of it
	}
	p := s.Progress.after(s.Page, did)
	switch {
	case p.Next != "":
		text, err := json.Marshal(p)
		if err != nil {
			text = nil // the migration begins anew, if nobody remembers where it was
		}
		r.set(string(migrationv1.MigrationRunning), metav1.ConditionTrue, reasonRunning, p.message(s.Page.Left))
		r.set(cursor, metav1.ConditionTrue, reasonPage, string(text))
		r.why = p.message(s.Page.Left)
		return
	case p.Refused > 0:
		r.fail(p.Refused, p.Verified+p.Refused, p.First)
	default:
		r.set(string(migrationv1.MigrationSucceeded), metav1.ConditionTrue, reasonSucceeded,
			fmt.Sprintf("Migration completed, %d objects verified migrated", p.Verified))
	}
	meta.RemoveStatusCondition(&r.status.Conditions, cursor)
}

// after returns how far it has come when all objects of a page were tried.
func (p progress) after(page page, did plan.Outcome) progress {
	p.Next = page.Next
	p.Verified += page.Verified
	p.Refused += page.Refused
	p.First = cmp.Or(p.First, page.First)
	for _, r := range did.Results {
		if r.Refused {
			p.Refused, p.First = p.Refused+1, cmp.Or(p.First, refusal(r))
		} else {
			p.Verified++
		}
	}
	return p
}

// message is what people read while the migration is running (V37-77). Left is how many objects come after the
// page; nil if nobody knows.
func (p progress) message(left *int64) string {
	text := fmt.Sprintf("The migration is running, %d objects verified migrated", p.Verified)
	if left != nil {
		text = fmt.Sprintf("The migration is running, %d/%d objects not yet migrated", *left+p.Refused,
			*left+p.Refused+p.Verified)
	}
	if p.Refused > 0 {
		text += fmt.Sprintf("; %d objects refused, the first: %s", p.Refused, p.First)
	}
	return text
}

// trouble says what keeps the migration from going on, if that lasts. Another reason later does not replace it.
func (r *report) trouble(s snapshot, err error) {
	const transient = "; transient error: "
	c := meta.FindStatusCondition(r.status.Conditions, string(migrationv1.MigrationRunning))
	if c == nil {
		c = &metav1.Condition{Type: string(migrationv1.MigrationRunning), Status: metav1.ConditionFalse,
			Reason: reasonPending, Message: "The migration has not begun"}
	}
	if s.Failures < lasting || strings.Contains(c.Message, transient) {
		return
	}
	r.set(c.Type, c.Status, c.Reason, c.Message+transient+clipped(err.Error()))
}

// fail says that so many of the objects are not migrated, and why (SVM-5, V37-77).
func (r *report) fail(not, all int64, why string) {
	r.set(string(migrationv1.MigrationFailed), metav1.ConditionTrue, reasonFailed,
		fmt.Sprintf("%d/%d not yet migrated. migration encountered unhandled error: %s", not, all, why))
	meta.RemoveStatusCondition(&r.status.Conditions, cursor)
}
