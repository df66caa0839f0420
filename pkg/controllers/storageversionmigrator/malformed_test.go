package storageversionmigrator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	migrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, nothing panics, and nothing that was observed is changed.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		m, other := &migrationv1.StorageVersionMigration{}, &migrationv1.StorageVersionMigration{}
		list := &metav1.PartialObjectMetadataList{}
		fill(m)
		fill(other)
		fill(list)
		m.Namespace, m.Name, other.Name = "", "m", "other"
		k := newCaches(t, nil, m, other)
		k.enqueued(m, other)
		k.enqueued(m, nil)
		s := draw(t)
		s.Migration = m
		s.Stage, s.Before = stageOf(m, all(m, other))
		s.Page = pageOf(list, m.Status.ResourceVersion, memory{})
		s.Progress = progressOf(m)
		before := m.DeepCopy()
		p := planMigration(epoch, s)
		if r := reportStatus(epoch, s, outcomeOf(p)); !p.Empty() || !r.Empty() {
			remember(epoch, s, struct{}{}, &memory{Limit: 25}, outcomeOf(p), plan.Outcome{})
		}
		if diff := cmp.Diff(before, m); diff != "" {
			t.Errorf("what was observed is changed: %s", diff)
		}
	})
}

// A CustomResourceDefinition of which the status means nothing fails with an error, or counts as one that says nothing.
func TestAnyDefinition(t *testing.T) {
	for _, content := range []map[string]any{
		nil, {"spec": "x"}, {"status": map[string]any{"conditions": "x"}}, {"spec": map[string]any{"versions": []any{"x"}}},
		{"status": map[string]any{"storedVersions": []any{int64(1)}}}, {"status": map[string]any{"conditions": []any{map[string]any{}}}},
	} {
		if d, err := definitionFrom(&unstructured.Unstructured{Object: content}); err == nil && (d.runs() || d.Storage != "") {
			t.Errorf("%v: %+v", content, d)
		}
	}
}
