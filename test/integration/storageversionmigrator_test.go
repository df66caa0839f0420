package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// stored is a custom resource whose version of storage changes, in a group of its own.
type stored struct {
	*bench
	dynamic dynamic.Interface
	gvr     schema.GroupVersionResource
}

// relics makes the custom resource, with so many objects that are stored in v1. It skips the test on servers that have no migrations.
func (b *bench) relics(n int) *stored {
	b.Helper()
	s := &stored{b, must(dynamic.NewForConfig(b.RESTConfig)),
		schema.GroupVersionResource{Group: b.ns + ".example.com", Version: "v1", Resource: "relics"}}
	s.define("v1")
	name := s.gvr.GroupResource().String()
	b.Kubectl(b.T, "wait", "--for=condition=Established", "crd/"+name, "--timeout=60s")
	s.deleteAtTheEnd(crds, name)
	for i := range n {
		s.make(fmt.Sprintf("relic-%03d", i))
	}
	return s
}

// deleteAtTheEnd deletes an object that belongs to no namespace when the test has ended, if it is there then.
func (s *stored) deleteAtTheEnd(resource schema.GroupVersionResource, name string) {
	s.Cleanup(func() {
		err := s.dynamic.Resource(resource).Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Error(err)
		}
	})
}

func (s *stored) define(version string) {
	s.Helper()
	const versionText = "\n  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, " +
		"x-kubernetes-preserve-unknown-fields: true}}}"
	s.Apply(s.T, s.ns, fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\nspec:\n"+
		"  group: %s\n  scope: Namespaced\n  names: {plural: relics, singular: relic, kind: Relic}\n  versions:%s%s\n",
		s.gvr.GroupResource(), s.gvr.Group, fmt.Sprintf(versionText, "v1", version == "v1"),
		fmt.Sprintf(versionText, "v2", version == "v2")))
}

func (s *stored) make(name string) {
	s.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": s.gvr.GroupVersion().String(), "kind": "Relic",
		"metadata": map[string]any{"name": name}, "of": "old"}}
	s.wait("there is "+name, func() error {
		_, err := s.dynamic.Resource(s.gvr).Namespace(s.ns).Create(s.Context(), o, metav1.CreateOptions{})
		return err
	})
}

// versions are those of the objects, by name.
func (s *stored) versions() map[string]string {
	s.Helper()
	list, err := s.dynamic.Resource(s.gvr).Namespace(s.ns).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	found := map[string]string{}
	for _, o := range list.Items {
		if o.Object["of"] != "old" {
			s.Errorf("%s has changed: %v", o.GetName(), o.Object)
		}
		found[o.GetName()] = o.GetResourceVersion()
	}
	return found
}

// migrate asks for a migration of the objects.
func (s *stored) migrate() {
	s.Helper()
	m := &migrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}
	m.Spec.Resource = metav1.GroupResource{Group: s.gvr.Group, Resource: s.gvr.Resource}
	if _, err := s.Client.StoragemigrationV1().StorageVersionMigrations().Create(s.Context(), m, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.deleteAtTheEnd(migrationv1.SchemeGroupVersion.WithResource("storageversionmigrations"), s.ns)
}

// migration waits until the migration is as the function says.
func (s *stored) migration(what string, is func(migrationv1.StorageVersionMigrationStatus) bool) migrationv1.StorageVersionMigrationStatus {
	s.Helper()
	var status migrationv1.StorageVersionMigrationStatus
	cluster.Eventually(s.T, 2*patience, what, func() error {
		m, err := s.Client.StoragemigrationV1().StorageVersionMigrations().Get(s.Context(), s.ns, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status = m.Status; !is(status) {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	return status
}

func hasEnded(s migrationv1.StorageVersionMigrationStatus) bool {
	return meta.IsStatusConditionFalse(s.Conditions, "Running") && meta.FindStatusCondition(s.Conditions, "Cursor") == nil
}

// definition returns the stored versions, and what is said of the migration.
func (s *stored) definition() (versions []string, migrating string) {
	s.Helper()
	u, err := s.dynamic.Resource(crds).Get(s.Context(), s.gvr.GroupResource().String(), metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	versions, _, _ = unstructured.NestedStringSlice(u.Object, "status", "storedVersions")
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "StorageMigrating" {
			migrating = fmt.Sprint(c["status"], " ", c["reason"])
		}
	}
	return versions, migrating
}

func (b *bench) servesMigrations() bool {
	b.Helper()
	return serves(b.T, b.Cluster, migrationv1.SchemeGroupVersion.WithResource("storageversionmigrations"))
}

func (b *bench) needsMigrations() {
	b.Helper()
	if !b.servesMigrations() {
		b.Skip("the server does not serve migrations of v1")
	}
}

// All objects are stored anew, and nothing else of them changes; the definition says in which version they are stored.
func TestStorageVersionMigration(t *testing.T) { // SVM-2 to SVM-7
	b := share(t)
	b.needsMigrations()
	s := b.relics(60)
	s.define("v2")
	before := s.versions()
	s.migrate()
	status := s.migration("it is over", hasEnded)
	if !meta.IsStatusConditionTrue(status.Conditions, "Succeeded") || status.ResourceVersion == "" {
		t.Errorf("%+v", status)
	}
	for name, version := range s.versions() {
		if before[name] == version {
			t.Errorf("%s is stored as it was", name)
		}
	}
	if versions, migrating := s.definition(); !slices.Equal(versions, []string{"v2"}) || migrating != "False MigrationSucceeded" {
		t.Errorf("%v, %s", versions, migrating)
	}
}

// An object that a policy refuses does not keep others from being stored anew, and the definition keeps its stored versions.
func TestMEND34SVM22RefusedObjectOnAServer(t *testing.T) {
	b := share(t)
	b.needsMigrations()
	s := b.relics(30)
	s.Apply(t, s.ns, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [%[2]s], apiVersions: ["*"], operations: [UPDATE], resources: [relics]}]
  validations: [{expression: "object.metadata.name != 'relic-003'", message: it is not to be touched}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, s.ns, s.gvr.Group))
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		s.deleteAtTheEnd(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}, s.ns)
	}
	s.wait("the policy is at work", func() error {
		out, err := b.TryKubectl(t, "-n", s.ns, "label", "--dry-run=server", "--overwrite", "relics."+s.gvr.Group, "relic-003", "a=b")
		if err == nil {
			return fmt.Errorf("it is not: %s", out)
		}
		return nil
	})
	s.define("v2")
	before := s.versions()
	s.migrate()
	status := s.migration("it is over", hasEnded)
	failed := meta.FindStatusCondition(status.Conditions, "Failed")
	if failed == nil || failed.Status != metav1.ConditionTrue || !strings.Contains(failed.Message, s.ns+"/relic-003: ") {
		t.Errorf("%+v", status)
	}
	for name, version := range s.versions() {
		if (before[name] == version) != (name == "relic-003") {
			t.Errorf("%s: from version %s to %s", name, before[name], version)
		}
	}
	if versions, migrating := s.definition(); !slices.Equal(versions, []string{"v1", "v2"}) || migrating != "False MigrationFailed" {
		t.Errorf("%v, %s", versions, migrating)
	}
}

// A manager is killed in the middle. The next one goes on at the page where that was, and one that finds that a migration was deleted
// meanwhile says so in the definition.
func TestMigrationGoesOnAfterAKill(t *testing.T) {
	b := alone(t)
	b.needsMigrations()
	const n = 400
	s := b.relics(n)
	s.define("v2")
	begin := b.AuditEnd(t)
	slow := []string{"--controllers=storage-version-migrator-controller", "--kube-api-qps=1", "--kube-api-burst=1"} // 20 in a second
	first := b.Manager(t, slow...)
	s.migrate()
	s.migration("some pages are done", func(st migrationv1.StorageVersionMigrationStatus) bool {
		c := meta.FindStatusCondition(st.Conditions, "Cursor")
		return c != nil && !strings.Contains(c.Message, `"verified":25}`)
	})
	first.Kill(t)
	next := b.Manager(t, "--controllers=storage-version-migrator-controller")
	status := s.migration("it is over", hasEnded)
	if !meta.IsStatusConditionTrue(status.Conditions, "Succeeded") {
		t.Errorf("%+v", status)
	}
	requests, _ := b.Requests(t, begin)
	patches := 0
	for _, r := range requests {
		if r.Verb == "patch" && r.ObjectRef.Resource == s.gvr.Resource {
			patches++
		}
	}
	if patches < n || patches > n+50 { // what was under way
		t.Errorf("%d objects were written %d times", n, patches)
	}
	if versions, _ := s.definition(); !slices.Equal(versions, []string{"v2"}) {
		t.Errorf("%v", versions)
	}
	next.Stop(t)
	b.Kubectl(t, "delete", "storageversionmigrations", s.ns)
	s.define("v1")
	third := b.Manager(t, slow...)
	s.migrate()
	s.wait("it has begun", func() error {
		if _, migrating := s.definition(); migrating != "True MigrationRunning" {
			return fmt.Errorf("%s", migrating)
		}
		return nil
	})
	third.Kill(t)
	b.Kubectl(t, "delete", "storageversionmigrations", s.ns)
	b.Manager(t, slow...)
	s.wait("the definition says that nothing is being migrated", func() error {
		if versions, migrating := s.definition(); migrating != "False MigrationFailed" || len(versions) != 2 {
			return fmt.Errorf("%v, %s", versions, migrating)
		}
		return nil
	})
}

// workOfMigrations has a page listed, objects written, and a definition read and written.
func (b *bench) workOfMigrations() {
	b.Helper()
	if !b.servesMigrations() {
		return
	}
	s := b.relics(3)
	s.define("v2")
	s.migrate()
	s.migration("it is over", hasEnded)
}
