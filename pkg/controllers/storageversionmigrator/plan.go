package storageversionmigrator

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/truncate"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// fieldManager is who touches objects (SVM-4). A touch changes no field, so it comes to own none.
const fieldManager = "storage-version-migrator-controller"

const (
	// discoveryWait is for how long after its creation a migration waits for a resource that nobody serves (SVM-6).
	discoveryWait = time.Minute
	// askAgain is how often discovery is asked meanwhile (V37-76).
	askAgain = 10 * time.Second
)

// stage is what is to be done about a migration.
type stage string

const (
	rests  stage = "rests"  // there is nothing to do
	waits  stage = "waits"  // another migration of the resource comes first
	starts stage = "starts" // it is not running yet
	runs   stage = "runs"
	ends   stage = "ends" // it has succeeded or failed, and still counts as running
)

// snapshot is a migration and what there is to do about it. Observe fills it.
type snapshot struct {
	Migration *migrationv1.StorageVersionMigration // nil if it is gone
	Stage     stage
	Before    string // of one that waits: the name of the migration that comes first

	Resource resource    // of one that starts or runs
	CRD      *definition // of one that starts or ends; nil if the resource is of no CustomResourceDefinition
	Version  string      // of one without a version in its status: that of the resource now
	// Unlisted is why the resource could not be listed, and will not be.
	Unlisted string

	Page     page     // of one that runs
	Progress progress // how far it had come before the page, by its status
	Failures int      // how often in a row the last reconciles have failed

	// Left is a CustomResourceDefinition that says that it is being migrated, and is not; nil for the key of a
	// migration.
	Left *definition
}

// resource is what discovery says of the resource.
type resource struct {
	Kind     schema.GroupVersionKind // empty if nobody serves it
	Rewrites bool                    // its objects can be listed, patched and updated
}

// page is a part of the objects of the resource.
type page struct {
	Objects  []object    // those that are to be written anew
	Verified int64       // how many others there are: newer than the migration, or done when the page was tried before
	Refused  int64       // how many the server has refused when the page was tried before
	First    string      // the first of these refusals, for people
	Done     []types.UID // of those that were done or refused before
	Next     string      // where the next page begins; empty if this is the last one
	Left     *int64      // how many objects come after the page; nil if the server does not say
}

// object is what is kept of an object. Annotations may hold all of it, so nothing of them is.
type object struct {
	Namespace, Name string
	UID             types.UID
	Version         string
}

func (o object) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// planMigration touches the objects of one page, and says in the CustomResourceDefinition when a migration begins and
// ends. What becomes of that, reportStatus writes into the status of the migration.
func planMigration(now time.Time, s snapshot) plan.Plan {
	if s.Left != nil {
		return plan.Plan{Why: "no migration is running, though the CustomResourceDefinition says so",
			Steps: s.Left.ended(now, "The migration was deleted", false), Requeue: time.Second}
	}
	switch s.Stage {
	case waits:
		return plan.Plan{Why: "waits for the migration " + s.Before + " of the same resource"}
	case starts:
		return planStart(now, s)
	case runs:
		return planPage(s)
	case ends:
		p := plan.Plan{Why: "it has come to its end"}
		if s.CRD != nil {
			succeeded := is(s.Migration, migrationv1.MigrationSucceeded)
			p.Steps = s.CRD.ended(now, endOf(succeeded), succeeded)
		}
		return p
	}
	return plan.Plan{Why: "there is nothing to do"}
}

// planStart says in the CustomResourceDefinition that its objects are being migrated (SVM-2).
func planStart(now time.Time, s snapshot) plan.Plan {
	if wait := s.waitsForDiscovery(now); wait > 0 {
		return plan.Plan{Why: "waits for the API server to serve " + resourceName(s.Migration),
			Requeue: min(wait, askAgain)}
	}
	if why := s.impossible(); why != "" {
		return plan.Plan{Why: "it cannot be carried out: " + why}
	}
	p := plan.Plan{Why: "it begins, with what is stored up to the version " + s.Version}
	if s.CRD != nil {
		p.Steps = s.CRD.begun(now)
	}
	return p
}

// planPage touches the objects of a page, each whatever becomes of the others (SVM-4).
func planPage(s snapshot) plan.Plan {
	if why := s.impossible(); why != "" {
		return plan.Plan{Why: "it cannot be carried on: " + why}
	}
	why := fmt.Sprintf("writes %d objects anew; %d of the page are newer than the migration, or done",
		len(s.Page.Objects), s.Page.Verified)
	if len(s.Page.Objects) == 0 {
		return plan.Plan{Why: why}
	}
	version, kind := s.Resource.Kind.ToAPIVersionAndKind()
	touches := make([][]plan.Step, len(s.Page.Objects))
	for i, o := range s.Page.Objects {
		touches[i] = []plan.Step{plan.Touch(&metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.Version,
			},
		}, fieldManager)}
	}
	return plan.Plan{Why: why, Steps: []plan.Step{plan.Each{Sequences: touches}}}
}

// waitsForDiscovery returns for how long the resource is still waited for (SVM-6).
func (s snapshot) waitsForDiscovery(now time.Time) time.Duration {
	if !s.Resource.Kind.Empty() {
		return 0
	}
	return s.Migration.CreationTimestamp.Add(discoveryWait).Sub(now)
}

// impossible says why the resource cannot be migrated; empty if it can be (SVM-3).
func (s snapshot) impossible() string {
	switch {
	case s.Resource.Kind.Empty():
		return "the API server does not serve " + resourceName(s.Migration)
	case !s.Resource.Rewrites:
		return resourceName(s.Migration) + " cannot be listed, patched and updated"
	case s.Unlisted != "":
		return s.Unlisted
	case s.Migration.Status.ResourceVersion == "" && s.Version == "":
		return "a list of " + resourceName(s.Migration) + " has no version"
	}
	return ""
}

// stageOf returns what is to be done about a migration, where these are all of its resource: one runs at a time, the
// oldest first, then by name (SVM-1). Of one that waits it also returns which comes first.
func stageOf(m *migrationv1.StorageVersionMigration, all []*migrationv1.StorageVersionMigration) (stage, string) {
	switch finished := is(m, migrationv1.MigrationSucceeded) || is(m, migrationv1.MigrationFailed); {
	case !blocks(m):
		return rests, ""
	case finished:
		return ends, ""
	case is(m, migrationv1.MigrationRunning):
		return runs, ""
	}
	first := m
	for _, other := range all {
		if blocks(other) && inTurn(other, first) < 0 {
			first = other
		}
	}
	if first != m {
		return waits, first.Name
	}
	return starts, ""
}

// blocks reports whether others of the resource wait for a migration, or would if they were younger: it is not
// finished, or still counts as running. One that is being deleted is not carried on.
func blocks(m *migrationv1.StorageVersionMigration) bool {
	if m.DeletionTimestamp != nil {
		return false
	}
	finished := is(m, migrationv1.MigrationSucceeded) || is(m, migrationv1.MigrationFailed)
	return !finished || is(m, migrationv1.MigrationRunning)
}

// inTurn compares two migrations of a resource by whose turn it is.
func inTurn(a, b *migrationv1.StorageVersionMigration) int {
	switch running := is(a, migrationv1.MigrationRunning); {
	case running == is(b, migrationv1.MigrationRunning):
	case running:
		return -1
	default:
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// is reports whether a condition of the migration is True.
func is(m *migrationv1.StorageVersionMigration, condition migrationv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
}

// resourceName is how people call the resource of a migration.
func resourceName(m *migrationv1.StorageVersionMigration) string {
	return schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}.String()
}

// resourceOf is the index of migrations by their resource.
func resourceOf(m *migrationv1.StorageVersionMigration) []string { return []string{resourceName(m)} }

// definitionOf returns the name of the CustomResourceDefinition that the resource may have; empty for none.
func definitionOf(m *migrationv1.StorageVersionMigration) string {
	if m.Spec.Resource.Group == "" {
		return ""
	}
	return resourceName(m)
}

// The server sets the pace: pages begin small and grow as long as all goes well, and after a failure they are small
// again.
const (
	smallestPage = 25
	largestPage  = 500
)

// memory is what is remembered of a migration from one page to the next.
type memory struct {
	UID        types.UID // of the migration
	Definition string    // that may say that it is running
	Resource   resource
	Plural     string // how the resource is called in paths
	Namespaced bool
	BuiltIn    bool // client-go knows the kind

	Limit int64 // how many objects the next page has
	// Version is that of the resource when the migration was first about to begin with this Generation of the
	// CustomResourceDefinition. So a status that somebody undoes is written anew as it was.
	Version    string
	Generation int64

	// Done are objects of pages that have failed in part, each with why the server has refused it; empty if it has
	// not. They are not tried again.
	Done map[types.UID]string
}

// remember keeps which objects of a page are done as long as the status does not say that all are, and how many
// objects the next page has.
func remember(_ time.Time, s snapshot, _ struct{}, seen *memory, did, reported plan.Outcome) (*memory, bool) {
	if s.Left != nil && did.Err == nil {
		return nil, true
	}
	if s.Stage != runs || seen == nil {
		return seen, true
	}
	m := *seen
	m.Done = maps.Clone(seen.Done)
	m.Limit = min(2*m.Limit, largestPage)
	if did.Err != nil {
		m.Limit = smallestPage
	}
	if did.Err == nil && reported.Err == nil {
		for _, uid := range s.Page.Done {
			delete(m.Done, uid)
		}
		return &m, true
	}
	for _, r := range did.Results {
		if r.Err != nil && !r.Refused {
			continue
		}
		if m.Done == nil {
			m.Done = map[types.UID]string{}
		}
		m.Done[r.Object.GetUID()] = refusal(r)
	}
	return &m, true
}

// refusal says for people why the server has refused an object; empty if it has not.
func refusal(r plan.Result) string {
	if !r.Refused {
		return ""
	}
	return clipped(object{Namespace: r.Object.GetNamespace(), Name: r.Object.GetName()}.String() + ": " + r.Err.Error())
}

// clipped is the beginning of a text that would be too long for a status.
func clipped(text string) string { return truncate.Text(text, 1024) }
