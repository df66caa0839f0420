package storageversionmigrator

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What CustomResourceDefinitions say about the migration of their objects (SVM-2, SVM-7).
const (
	migrating           = "StorageMigrating"
	definitionRuns      = "MigrationRunning"
	definitionSucceeded = "MigrationSucceeded"
	definitionFailed    = "MigrationFailed"
)

// definitionManager is who applies the status of CustomResourceDefinitions (SVM-2). With another name, the fields that
// the original has applied could be nobody's or two managers' after a change from one to the other.
const definitionManager = "migration-runner-controller"

// definition is what is read of a CustomResourceDefinition.
type definition struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Generation      int64
	Storage         string            // the version in which objects are stored
	Stored          []string          // those in which objects may be stored, by the status
	Migrating       *metav1.Condition // nil if nobody has said anything
}

// definitionKind returns the kind of CustomResourceDefinitions.
func definitionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// begun says that a migration has begun, for the definition as it is now (SVM-2).
func (d *definition) begun(now time.Time) []plan.Step {
	return d.apply(now, metav1.Condition{
		Status: metav1.ConditionTrue, Reason: definitionRuns, Message: "The migration is running",
		ObservedGeneration: d.Generation,
	}, d.Stored)
}

// runs reports whether the definition says that its objects are being migrated.
func (d *definition) runs() bool {
	return d.Migrating != nil && d.Migrating.Status == metav1.ConditionTrue
}

// ended says that a migration has ended. After success, the objects are stored in the version of now alone, if the
// definition is still the one with which the migration has begun (SVM-7, SVM-20).
func (d *definition) ended(now time.Time, why string, succeeded bool) []plan.Step {
	if d.Migrating == nil {
		return nil // nobody has said that it has begun
	}
	end := metav1.Condition{
		Status: metav1.ConditionFalse, Reason: definitionFailed, Message: why,
		ObservedGeneration: d.Migrating.ObservedGeneration,
	}
	stored := d.Stored
	if succeeded {
		end.Reason = definitionSucceeded
		if d.Migrating.ObservedGeneration == d.Generation && d.Storage != "" {
			stored = []string{d.Storage}
		}
	}
	return d.apply(now, end, stored)
}

// apply writes the condition if it says something else, and the stored versions with it. These are always applied,
// as a manager that does not apply a field any more takes it off. The version is a precondition: what is written
// rests on all of the definition.
func (d *definition) apply(now time.Time, c metav1.Condition, stored []string) []plan.Step {
	c.Type, c.LastTransitionTime = migrating, metav1.NewTime(now)
	if old := d.Migrating; old != nil && old.Status == c.Status {
		if c.LastTransitionTime = old.LastTransitionTime; same(*old, c) && slices.Equal(stored, d.Stored) {
			return nil
		}
	}
	versions := make([]any, len(stored))
	for i, v := range stored {
		versions[i] = v
	}
	status := map[string]any{
		"conditions": []any{map[string]any{
			"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message,
			"lastTransitionTime": c.LastTransitionTime.UTC().Format(time.RFC3339),
			"observedGeneration": c.ObservedGeneration,
		}},
		"storedVersions": versions,
	}
	before, after := d.object(nil), d.object(status)
	return []plan.Step{plan.Change{
		Old: before, New: after, Subresource: plan.Status, CheckVersion: true, Unowned: true,
		Apply: &plan.Apply{FieldManager: definitionManager, Force: true}, Why: c.Message,
	}}
}

// object is the definition with a status, and without anything else.
func (d *definition) object(status map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(definitionKind())
	o.SetName(d.Name)
	o.SetUID(d.UID)
	o.SetResourceVersion(d.ResourceVersion)
	if status != nil {
		o.Object["status"] = status
	}
	return o
}

// same compares conditions of one type, but for their times.
func same(a, b metav1.Condition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.ObservedGeneration == b.ObservedGeneration
}

// endOf is what the CustomResourceDefinition says of the end of a migration.
func endOf(succeeded bool) string {
	if succeeded {
		return "The migration has succeeded"
	}
	return "The migration has failed"
}
