package suite

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// Gadgets are a custom resource that is stored in one of two versions. All users of a cluster share it.
const (
	gadgetGroup = "migrated.example.com"
	gadgets     = "gadgets." + gadgetGroup
	definitions = "customresourcedefinitions.apiextensions.k8s.io"
)

func storageVersionMigratorEntry() Entry {
	return Entry{
		Controller: "storage-version-migrator-controller",
		Operations: map[string]Operation{
			"gadgets": defineGadgets,    // storage=v1, v2: the version in which gadgets are stored
			"gadget":  makeGadgets,      // NAME n=: so many gadgets
			"migrate": migrationOfUsers, // NAME: a migration of gadgets; do=delete
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(time.Second, "gadgets storage=v1")
			g.Add(2*time.Second+g.Early(), "gadget %s n=%d", app, workload.Pick(g, 1, 5, 40))
			g.Add(at, "gadgets storage=v2")
			migration := fmt.Sprintf("%s-%d", app, g.IntN(3))
			begin := at + workload.Pick(g, time.Millisecond, 100*time.Millisecond, 3*time.Second)
			switch g.IntN(6) {
			case 0: // an object is refused for good, or for a while
				g.Add(at, "fault m* refuse n=%d code=%d resource=%s verb=patch for=60s", 1+g.IntN(3),
					workload.Pick(g, 422, 403, 500, 429), gadgets) // a conflict would say that the object was written
			case 1: // what the controller sees is late, so that others can do something meanwhile
				g.Add(at, "fault m* delay storageversionmigrations %dms for=40s", 500+g.IntN(3000))
				g.Add(begin+g.Early(), "gadgets storage=v1")
			case 2:
				g.Add(at, "fault m* delay storageversionmigrations %dms for=40s", 500+g.IntN(3000))
				g.Add(begin+g.Early(), "migrate %s do=delete", migration)
			case 3:
				g.Add(begin+time.Millisecond, "migrate %s-again", app)
			}
			g.Add(begin, "migrate %s", migration)
			if g.IntN(2) == 0 {
				g.Add(soon+5*time.Second, "gadgets storage=v1")
				g.Add(soon+6*time.Second, "migrate %s-back", app)
			}
		}}},
		Settled: migrationsSettled,
		Scenarios: []Scenario{{
			Name:    "gadgets are migrated",
			Prepare: func(u *User) { u.gadgetsIn("v1", 30) },
			Play: func(u *User) {
				u.storeIn("v2")
				u.migrate("first")
				u.storeIn("v1")
				u.migrate("second")
			},
		}},
		Malformed: map[string]string{
			"storageversionmigrations/absurd": `{"apiVersion":"storagemigration.k8s.io/v1","kind":"StorageVersionMigration","metadata":${META},
				"spec":{"resource":{"group":"/","resource":""}},"status":{"resourceVersion":"x","conditions":[{"type":"","status":"Perhaps"},
				{"type":"Running","status":"True"},{"type":"Cursor","status":"True","message":"{"}]}}`,
		},
		Mutants: migrationMutants,
		Budgets: []Budget{{
			// the definition and the migration say that it begins and that it is over, and the migration how it has ended
			Name: "20 gadgets are migrated", Floor: floor.Writes{Status: 5, Other: 20},
			Prepare: func(u *User) {
				u.gadgetsIn("v1", 20)
				u.storeIn("v2")
			},
			Do: func(u *User) { u.migrate("all") },
		}},
	}
}

// raw begins a request in JSON.
func (u *User) raw(verb, path, body string) *rest.Request {
	r := u.Client.CoreV1().RESTClient().Verb(verb).AbsPath(path).SetHeader("Accept", "application/json")
	if body == "" {
		return r
	}
	kind := "application/json"
	if verb == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	return r.SetHeader("Content-Type", kind).Body([]byte(body))
}

const definitionPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// defineGadgets creates the definition, or changes the version in which gadgets are stored.
func defineGadgets(u *User, l script.Line) error {
	storage, _ := l.Get("storage")
	return u.define(storage)
}

func (u *User) define(storage string) error {
	versions := fmt.Sprintf(`"versions":[{"name":"v1","served":true,"storage":%t,%[3]s},{"name":"v2","served":true,"storage":%[2]t,%[3]s}]`,
		storage != "v2", storage == "v2", `"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`)
	return u.defineKind("Gadget", gadgetGroup, versions)
}

// defineKind creates the definition of a custom resource with these versions, or changes it. Its objects belong to namespaces.
func (u *User) defineKind(kind, group, versions string) error {
	labels, singular := "{}", strings.ToLower(kind)
	if !u.Alone {
		labels = fmt.Sprintf(`{"of-namespace":%q}`, u.Namespace)
	}
	name := singular + "s." + group
	err := u.raw(http.MethodPost, definitionPath, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":%q,"labels":%s},"spec":{"group":%q,"scope":"Namespaced","names":{"plural":%q,"singular":%q,"kind":%q},%s}}`,
		name, labels, group, singular+"s", singular, kind, versions)).Do(ctx()).Error()
	if err == nil || ignoreExists(err) != nil {
		return err
	}
	return u.raw(http.MethodPatch, definitionPath+"/"+name, `{"metadata":{"labels":`+labels+`},"spec":{`+versions+`}}`).Do(ctx()).Error()
}

// makeGadgets creates gadgets that are not there.
func makeGadgets(u *User, l script.Line) error {
	n, _ := l.Int("n")
	for i := range n {
		if err := u.makeGadget(fmt.Sprintf("%s-%d", l.Arg(0), i)); err != nil {
			return err
		}
	}
	return nil
}

func (u *User) makeGadget(name string) error {
	path := fmt.Sprintf("/apis/%s/v1/namespaces/%s/gadgets", gadgetGroup, u.Namespace)
	return ignoreExists(u.raw(http.MethodPost, path, fmt.Sprintf(`{"apiVersion":%q,"kind":"Gadget","metadata":{"name":%q},"size":7}`,
		gadgetGroup+"/v1", name)).Do(ctx()).Error())
}

func (u *User) newMigration(name string) *migrationv1.StorageVersionMigration {
	m := &migrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: u.unique(name)}}
	m.Spec.Resource = metav1.GroupResource{Group: gadgetGroup, Resource: "gadgets"}
	u.mark(m)
	return m
}

func migrationOfUsers(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*migrationv1.StorageVersionMigration](u, u.unique(l.Arg(0)))
	}
	return create(u, u.newMigration(l.Arg(0)))
}

// gadgetsIn makes gadgets that are stored in a version.
func (u *User) gadgetsIn(version string, n int) {
	u.Helper()
	u.storeIn(version)
	u.Each(n, func(i int) error {
		u.Try("create a gadget", func() error { return u.makeGadget(fmt.Sprint("gadget-", i)) })
		return nil
	})
}

func (u *User) storeIn(version string) {
	u.Helper()
	u.Try("gadgets are stored in "+version, func() error { return u.define(version) })
}

// migrate has the gadgets migrated, and waits until that is over, well or not.
func (u *User) migrate(name string) {
	u.Helper()
	u.Create(u.newMigration(name))
	Await(u, u.unique(name), func(m *migrationv1.StorageVersionMigration) error { return unless(unfinished(m) == "", m.Status) })
}

// unfinished says why a migration is not over; empty if it is.
func unfinished(m *migrationv1.StorageVersionMigration) string {
	has := func(condition migrationv1.MigrationConditionType) bool {
		return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
	}
	switch {
	case has(migrationv1.MigrationSucceeded) == has(migrationv1.MigrationFailed):
		return "it has neither succeeded nor failed, or both"
	case has(migrationv1.MigrationRunning):
		return "it counts as running"
	case meta.FindStatusCondition(m.Status.Conditions, "Cursor") != nil:
		return "it says where it goes on"
	}
	return ""
}

// migrationsSettled says which migrations are not over, what migrations have changed of objects besides the version in which they are
// stored, and when the stored versions of the definition were cut though an object was not written since the version was changed.
func migrationsSettled(s *View) (wrong []string) {
	for _, m := range subjects[*migrationv1.StorageVersionMigration](s) {
		if why := unfinished(m); why != "" && m.DeletionTimestamp == nil { // SVM-1, SVM-6, SVM-7
			wrong = append(wrong, fmt.Sprintf("the migration %s: %s: %+v", m.Name, why, m.Status))
		}
	}
	for _, c := range s.Changes(gadgets) {
		if c.Managed && !c.Deleted && c.Before != nil && !sameButVersion(c.Before, c.Object) { // SVM-4
			wrong = append(wrong, fmt.Sprintf("the gadget %s was changed at version %d", c.Object.GetName(), c.Version))
		}
	}
	var last definition
	var switched uint64 // when the version was changed in which gadgets are stored
	for _, c := range s.Changes(definitions) {
		before := last
		if last = definitionOf(c.Object); last.storage() != before.storage() {
			switched = c.Version
		}
		if !c.Managed || len(last.Status.StoredVersions) >= len(before.Status.StoredVersions) {
			continue
		}
		s.Looked++
		if !slices.Equal(last.Status.StoredVersions, []string{last.storage()}) { // SVM-7
			wrong = append(wrong, fmt.Sprintf("gadgets are stored in %s, and the definition says %v", last.storage(),
				last.Status.StoredVersions))
		}
		for _, o := range s.past(gadgets, c.Version) {
			if v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64); err != nil || v < switched { // SVM-20
				wrong = append(wrong, fmt.Sprintf("the stored versions were cut at version %d, and the gadget %s was not written since %d",
					c.Version, o.GetName(), switched))
			}
		}
	}
	for _, c := range last.Status.Conditions {
		if c.Type == "StorageMigrating" && c.Status == metav1.ConditionTrue { // SVM-7, SVM-22
			wrong = append(wrong, "the definition says that gadgets are being migrated")
		}
	}
	return wrong
}

// definition is what matters of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Versions []struct {
			Name    string
			Storage bool
		}
	}
	Status struct {
		Conditions     []metav1.Condition
		StoredVersions []string
	}
}

func definitionOf(o Object) (d definition) {
	if text, err := json.Marshal(o); err == nil {
		_ = json.Unmarshal(text, &d) // what cannot be read says nothing
	}
	return d
}

func (d definition) storage() string {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// sameButVersion compares two states of a custom resource.
func sameButVersion(a, b Object) bool {
	plain := func(o Object) map[string]any {
		u := o.DeepCopyObject().(*unstructured.Unstructured)
		u.SetResourceVersion("")
		u.SetManagedFields(nil)
		return u.Object
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

const (
	migratorFolder = "pkg/controllers/storageversionmigrator/"
	migratedLate   = withoutElection + `
			at 2s   gadgets storage=v1
			at 5s   gadget web n=5
			at 10s  gadgets storage=v2
			at 11s  fault m0 delay storageversionmigrations 4s for=100s
			at 12s  migrate web # begins at 16 s, writes objects at 20 s, and is over after 24 s`
)

var migrationMutants = []Mutant{
	{
		Name: "a failed migration cuts the stored versions",
		Edits: []Edit{{migratorFolder + "plan.go", "succeeded := is(s.Migration, migrationv1.MigrationSucceeded)",
			"succeeded := is(s.Migration, migrationv1.MigrationRunning)"}},
		Script: withoutElection + `
			at 2s   gadgets storage=v1
			at 5s   gadget web n=5
			at 10s  gadgets storage=v2
			at 11s  fault m0 refuse n=1 code=422 resource=` + gadgets + ` verb=patch
			at 12s  migrate web`,
		Oracle: SettledOracle,
	},
	{
		Name: "the stored versions are cut of a definition that has changed meanwhile",
		Edits: []Edit{{migratorFolder + "plan_definition.go", "if d.Migrating.ObservedGeneration == d.Generation && d.Storage != \"\" {",
			"if d.Generation > 0 && d.Storage != \"\" {"}},
		Script: migratedLate + "\n\t\t\tat 22s  gadgets storage=v1",
		Oracle: SettledOracle,
	},
	{
		Name: "a migration that is deleted leaves its definition as it is",
		Edits: []Edit{{migratorFolder + "observe_definition.go", "if err != nil || d == nil || !d.runs() {",
			"if err != nil || d == nil || d.runs() {"}},
		Script: migratedLate + "\n\t\t\tat 18s  migrate web do=delete",
		Oracle: SettledOracle,
	},
	{
		Name: "objects that are older than the migration are left out",
		Edits: []Edit{{migratorFolder + "observe.go", "case done, err == nil && order > 0:",
			"case done, err == nil && order < 0:"}},
		Script: migratedLate,
		Oracle: SettledOracle,
	},
	{
		Name:  "a migration ends with its first page",
		Edits: []Edit{{migratorFolder + "report.go", "p.Next = page.Next", "p.Next = page.Next[:0]"}},
		Script: withoutElection + `
			at 2s   gadgets storage=v1
			at 5s   gadget web n=40
			at 10s  gadgets storage=v2
			at 12s  migrate web`,
		Oracle: SettledOracle,
	},
	{
		Name:  "a migration that has succeeded counts as running for ever",
		Edits: []Edit{{migratorFolder + "plan.go", "case finished:\n\t\treturn ends, \"\"", "case finished:\n\t\treturn rests, \"\""}},
		Script: withoutElection + `
			at 2s   gadgets storage=v1
			at 5s   gadget web n=5
			at 12s  migrate web`,
		Oracle: SettledOracle,
	},
}
