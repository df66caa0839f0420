package storageversionmigrator

import (
	"context"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// definitions stands in the place of the namespace in keys of CustomResourceDefinitions. Migrations have none.
const definitions = "customresourcedefinitions"

func definitionKey(name string) plan.Key { return plan.Key{Namespace: definitions, Name: name} }

func definitionMapping() client.Mapping {
	return client.Mapping{GroupVersionKind: definitionKind(), Resource: definitions}
}

// observeDefinition looks whether a CustomResourceDefinition says that it is being migrated, and no migration sees to
// that. The migrations are listed live: a cache may lack one that the leader before has begun.
func observeDefinition(ctx context.Context, r request, name string) (o observation, err error) {
	d, err := readDefinition(ctx, r, name)
	if err != nil || d == nil || !d.runs() {
		return o, err
	}
	all := &migrationv1.StorageVersionMigrationList{}
	mapping := client.MappingFor[*migrationv1.StorageVersionMigration]()
	if err := r.Reader.List(ctx, mapping, "", metav1.ListOptions{}, all); err != nil {
		return o, err
	}
	for i := range all.Items {
		if m := &all.Items[i]; resourceName(m) == name && blocks(m) {
			return o, nil
		}
	}
	o.Exists, o.Snapshot.Left = true, d
	return o, nil
}

// leftovers enqueues the CustomResourceDefinitions to which a migration has ever been written, once for each term: one
// of these may have been deleted while nobody led. Their metadata say who has written to the status.
func leftovers(reader client.Reader) func(context.Context, func(plan.Key)) {
	return func(ctx context.Context, enqueue func(plan.Key)) {
		for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, time.Minute) {
			all := &metav1.PartialObjectMetadataList{}
			if err := reader.List(ctx, definitionMapping(), "", metav1.ListOptions{}, all); err == nil {
				for i := range all.Items {
					if written(&all.Items[i]) {
						enqueue(definitionKey(all.Items[i].Name))
					}
				}
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

// written reports whether a migration has written to the status of a CustomResourceDefinition.
func written(o metav1.Object) bool {
	for _, f := range o.GetManagedFields() {
		if f.Manager == definitionManager && f.Subresource == plan.Status {
			return true
		}
	}
	return false
}

// readDefinition reads a CustomResourceDefinition live (SVM-2); nil if there is none.
func readDefinition(ctx context.Context, r request, name string) (*definition, error) {
	if name == "" {
		return nil, nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(definitionKind())
	err := r.Reader.Get(ctx, definitionMapping(), plan.Key{Name: name}, u)
	switch {
	case client.IsAbsent(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return definitionFrom(u)
}

// crd are the fields of a CustomResourceDefinition that matter here.
type crd struct {
	Spec struct {
		Versions []struct {
			Name    string `json:"name"`
			Storage bool   `json:"storage"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions     []metav1.Condition `json:"conditions"`
		StoredVersions []string           `json:"storedVersions"`
	} `json:"status"`
}

// definitionFrom keeps of a CustomResourceDefinition what matters here.
func definitionFrom(u *unstructured.Unstructured) (*definition, error) {
	var content crd
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &content); err != nil {
		return nil, err
	}
	d := &definition{
		Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(),
		Stored: content.Status.StoredVersions,
	}
	for _, v := range content.Spec.Versions {
		if v.Storage {
			d.Storage = v.Name
		}
	}
	for i, c := range content.Status.Conditions {
		if c.Type == migrating {
			d.Migrating = &content.Status.Conditions[i]
		}
	}
	return d, nil
}
