package storageversionmigrator

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*migrationv1.StorageVersionMigration)

// newMigration is one that was created at the epoch, of a resource such as secrets or gadgets.example.com.
func newMigration(name, resource string, edits ...edit) *migrationv1.StorageVersionMigration {
	plural, group, _ := strings.Cut(resource, ".")
	m := &migrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "3",
			CreationTimestamp: metav1.NewTime(epoch)},
		Spec: migrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: plural}},
	}
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func condition(name migrationv1.MigrationConditionType, message string) edit {
	return func(m *migrationv1.StorageVersionMigration) {
		reason := "Test"
		if name == migrationv1.MigrationRunning {
			reason = "MigrationRunning"
		}
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: string(name), Status: metav1.ConditionTrue, Reason: reason,
			Message: message, LastTransitionTime: metav1.NewTime(epoch)})
	}
}

// isRunning has begun at a version.
func isRunning(version string) edit {
	return func(m *migrationv1.StorageVersionMigration) {
		condition(migrationv1.MigrationRunning, "The migration is running")(m)
		m.Status.ResourceVersion = version
	}
}

// at has come so far.
func at(message string) edit { return condition(cursor, message) }

func hasSucceeded(m *migrationv1.StorageVersionMigration) {
	condition(migrationv1.MigrationSucceeded, "")(m)
}

func hasFailed(m *migrationv1.StorageVersionMigration) { condition(migrationv1.MigrationFailed, "")(m) }

func isOver(m *migrationv1.StorageVersionMigration) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: "Running", Status: metav1.ConditionFalse, Reason: "Test"})
}

func leaving(m *migrationv1.StorageVersionMigration) { m.DeletionTimestamp = &metav1.Time{Time: epoch} }

func created(after time.Duration) edit {
	return func(m *migrationv1.StorageVersionMigration) { m.CreationTimestamp = metav1.NewTime(epoch.Add(after)) }
}

// secrets is the resource of most tests.
func secrets() resource { return resource{corev1.SchemeGroupVersion.WithKind("Secret"), true} }

// newDefinition is that of gadgets, whose objects were stored in v1, and are in v2 now.
func newDefinition(edits ...func(*definition)) *definition {
	d := &definition{Name: "gadgets.example.com", UID: "uid-gadgets", ResourceVersion: "7", Generation: 2, Storage: "v2",
		Stored: []string{"v1", "v2"}}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

// begunAt is one whose migration has begun with a generation.
func begunAt(generation int64) func(*definition) {
	return func(d *definition) {
		d.Migrating = &metav1.Condition{Type: migrating, Status: metav1.ConditionTrue, Reason: definitionRuns,
			Message: "The migration is running", ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(epoch)}
	}
}

// pageWith has objects that are to be written.
func pageWith(n int, next string) (p page) {
	for i := range n {
		p.Objects = append(p.Objects, object{"shop", fmt.Sprint("s-", i), types.UID(fmt.Sprint("uid-s-", i)), "1"})
	}
	p.Next = next
	return p
}

// outcomeOf is what becomes of a plan if the objects at some positions are refused.
func outcomeOf(p plan.Plan, refused ...int) (did plan.Outcome) {
	for _, step := range p.Steps {
		each, ok := step.(plan.Each)
		if !ok {
			continue
		}
		for i, sequence := range each.Sequences {
			r := plan.Result{Verb: plan.Changed, Object: sequence[0].(plan.Change).New}
			for _, n := range refused {
				if n == i {
					r.Refused, r.Err = true, fmt.Errorf("no")
				}
			}
			did.Results = append(did.Results, r)
		}
	}
	return did
}

// statusIn returns the status that a report writes; nil if it writes none.
func statusIn(p plan.Plan) *migrationv1.StorageVersionMigrationStatus {
	if p.Empty() {
		return nil
	}
	return &p.Steps[0].(plan.Change).New.(*migrationv1.StorageVersionMigration).Status
}

// says returns the conditions of a status, and when they are True their messages.
func says(s *migrationv1.StorageVersionMigrationStatus) (all []string) {
	if s == nil {
		return nil
	}
	for _, c := range s.Conditions {
		text := fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
		if c.Status == metav1.ConditionTrue {
			text += ": " + c.Message
		}
		all = append(all, text)
	}
	return all
}

// newCaches returns a cache with these migrations.
func newCaches(t interface{ Fatal(...any) }, resources finder, all ...*migrationv1.StorageVersionMigration) *caches {
	migrations, err := informers.IndexedObjects(informers.NewFactory(fake.NewClientset(), 0), "resource", resourceOf)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if err := migrations.Informer().GetIndexer().Add(m); err != nil {
			t.Fatal(err)
		}
	}
	return &caches{migrations: migrations, resources: resources}
}

var gadget = client.Mapping{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Gadget"},
	Resource: "gadgets", Namespaced: true}

// serves finds these resources, all of which can be rewritten but pods.
func serves(all ...client.Mapping) finder {
	return func(_ context.Context, verbs ...string) (found []client.Mapping, err error) {
		for _, m := range all {
			if len(verbs) == 0 || m.Resource != "pods" {
				found = append(found, m)
			}
		}
		return found, nil
	}
}

// kinds knows the built-in kinds and two others.
type kinds struct{ client.BuiltIns }

func (k kinds) Mapping(ctx context.Context, kind schema.GroupVersionKind) (client.Mapping, error) {
	for _, m := range []client.Mapping{gadget, definitionMapping()} {
		if kind == m.GroupVersionKind {
			return m, nil
		}
	}
	return k.BuiltIns.Mapping(ctx, kind)
}

func (k kinds) MappingFor(ctx context.Context, o runtime.Object) (client.Mapping, error) {
	kind, err := client.KindOf(o)
	if err != nil {
		return client.Mapping{}, err
	}
	return k.Mapping(ctx, kind)
}

func newSecret(i int) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("s-%05d", i),
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "password"}}}
}

func newGadget(i int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gadget.GroupVersionKind)
	u.SetNamespace("shop")
	u.SetName(fmt.Sprintf("g-%05d", i))
	return u
}

// newCRD is the CustomResourceDefinition of gadgets.
func newCRD() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"versions": []any{map[string]any{"name": "v1"}, map[string]any{"name": "v2", "storage": true}}},
		"status": map[string]any{
			"conditions":     []any{map[string]any{"type": "Established", "status": "True", "reason": "x", "message": ""}},
			"storedVersions": []any{"v1", "v2"},
		},
	}}
	u.SetGroupVersionKind(definitionKind())
	u.SetName("gadgets.example.com")
	u.SetGeneration(2)
	return u
}
