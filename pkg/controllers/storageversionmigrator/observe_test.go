package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// refusing answers some lists with an error.
type refusing struct {
	client.Reader
	refuse func(client.Mapping, metav1.ListOptions) error
	lists  int
}

func (r *refusing) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions, into runtime.Object) error {
	r.lists++
	if r.refuse != nil {
		if err := r.refuse(m, o); err != nil {
			return err
		}
	}
	return r.Reader.List(ctx, m, namespace, o, into)
}

func newReader(t *testing.T, objects ...plan.Object) *refusing {
	server := clienttest.NewServer()
	for _, o := range objects {
		if _, err := server.Put(o); err != nil {
			t.Fatal(err)
		}
	}
	return &refusing{Reader: server}
}

func look(t *testing.T, k *caches, r *refusing, key plan.Key, m *memory) observation {
	t.Helper()
	o, err := k.observe(t.Context(), request{Key: key, Now: epoch, Reader: r, Memory: m})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func manySecrets(n int) (all []plan.Object) {
	for i := range n {
		all = append(all, newSecret(i))
	}
	return all
}

var secretMapping = client.MappingFor[*corev1.Secret]()

// A page has the objects that are as old as the migration, without what annotations hold of them.
func TestWhatAPageHas(t *testing.T) {
	m := newMigration("m", "secrets", isRunning("21")) // that of the 20th Secret
	r := newReader(t, manySecrets(60)...)
	k := newCaches(t, serves(secretMapping), m)
	o := look(t, k, r, plan.Key{Name: "m"}, nil)
	s := o.Snapshot
	if !o.Exists || s.Stage != runs || s.Resource != secrets() || len(s.Page.Objects) != 20 || s.Page.Verified != 5 || s.Page.Next == "" {
		t.Fatalf("the first page: %+v", s)
	}
	want := object{Namespace: "shop", Name: "s-00000", UID: s.Page.Objects[0].UID, Version: s.Page.Objects[0].Version}
	if s.Page.Objects[0] != want || want.UID == "" || want.Version == "" {
		t.Errorf("%+v", s.Page.Objects[0])
	}
	later := newMigration("m", "secrets", isRunning("1000"), at(fmt.Sprintf(`{"continue":%q,"verified":25}`, s.Page.Next)))
	k = newCaches(t, func(context.Context, ...string) ([]client.Mapping, error) { return nil, errors.New("asked again") }, later)
	seen := *o.Memory
	if seen.UID != "uid-m" || seen.Definition != "" || seen.Limit != smallestPage {
		t.Errorf("%+v", seen)
	}
	seen.Limit = 50
	seen.Done = map[types.UID]string{}
	all := &metav1.PartialObjectMetadataList{}
	if err := r.List(t.Context(), secretMapping, "", metav1.ListOptions{}, all); err != nil {
		t.Fatal(err)
	}
	seen.Done[all.Items[30].UID], seen.Done[all.Items[31].UID] = "", "shop/s-00031: no"
	o = look(t, k, r, plan.Key{Name: "m"}, &seen)
	if p := o.Snapshot.Page; len(p.Objects) != 33 || p.Verified != 1 || p.Refused != 1 || p.First != "shop/s-00031: no" || p.Next != "" ||
		len(p.Done) != 2 || p.Objects[0].Name != "s-00025" || o.Snapshot.Progress.Verified != 25 {
		t.Errorf("the second page, of which two are done: %+v", p)
	}
}

// A version that the server has forgotten is no reason to fail: the server says how to go on, or all begins anew.
func TestExpiredPages(t *testing.T) {
	m := newMigration("m", "secrets", isRunning("1000"), at(`{"continue":"old","verified":25}`))
	for _, c := range []struct {
		name, instead string
		first         string
		verified      int64
	}{
		{"the server says how to go on", "shop/s-00024", "s-00025", 25},
		{"it does not", "", "s-00000", 0},
	} {
		r := newReader(t, manySecrets(30)...)
		r.refuse = func(_ client.Mapping, o metav1.ListOptions) error {
			if o.Continue != "old" {
				return nil
			}
			err := apierrors.NewResourceExpired("too old")
			err.ErrStatus.Continue = c.instead
			return err
		}
		s := look(t, newCaches(t, serves(secretMapping), m), r, plan.Key{Name: "m"}, nil).Snapshot
		if len(s.Page.Objects) == 0 || s.Page.Objects[0].Name != c.first || s.Progress.Verified != c.verified || r.lists != 2 {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

// A server that continues a list without an end is not followed without an end.
func TestEndlessLists(t *testing.T) {
	for _, c := range []struct {
		name, token, next string
		verified          int64
		ends              bool
	}{
		{"the first page", "", "a", 0, false},
		{"another one", "a", "b", 500, false},
		{"the last one", "b", "", 1000, false},
		{"a page that is its own next one", "b", "b", 1000, true},
		{"too many objects", "b", "c", 6_000_000, true},
	} {
		if err := follow(c.token, c.next, progress{Verified: c.verified}); (err != nil) != c.ends {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	r := newReader(t, manySecrets(1)...)
	k := newCaches(t, serves(secretMapping), newMigration("m", "secrets", isRunning("1000"), at(`{"continue":"a","verified":6000000}`)))
	if s := look(t, k, r, plan.Key{Name: "m"}, nil).Snapshot; s.Unlisted == "" || len(s.Page.Objects) > 0 {
		t.Errorf("%+v", s)
	}
}

// SVM-5: what passes is tried again, and what does not is a reason to fail.
func TestSVM5Errors(t *testing.T) {
	status := func(code int) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Message: http.StatusText(code)}}
	}
	for _, m := range []*migrationv1.StorageVersionMigration{
		newMigration("m", "secrets"), newMigration("m", "secrets", isRunning("5")), newMigration("m", "secrets", isRunning("")),
	} {
		for err, passes := range map[error]bool{
			errors.New("connection refused"): true, status(429): true, status(500): true, status(503): true, status(504): true,
			status(401): true, status(408): true, status(404): false, status(403): false, status(405): false, status(400): false,
		} {
			r := newReader(t)
			r.refuse = func(client.Mapping, metav1.ListOptions) error { return err }
			o, got := newCaches(t, serves(secretMapping), m).observe(t.Context(), request{Key: plan.Key{Name: "m"}, Now: epoch, Reader: r})
			if (got != nil) != passes || (o.Snapshot.Unlisted != "") == passes {
				t.Errorf("%v: %v, %q", err, got, o.Snapshot.Unlisted)
			}
		}
	}
}

// What discovery says of the resource decides whether it can be migrated (SVM-3, SVM-6).
func TestDiscovery(t *testing.T) {
	partial := func(group string) error {
		return &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: group, Version: "v1"}: errors.New("down")}}
	}
	answers := func(err error) finder {
		return func(context.Context, ...string) ([]client.Mapping, error) {
			return []client.Mapping{secretMapping}, err
		}
	}
	for _, c := range []struct {
		name, resource string
		resources      finder
		want           resource
		fails          bool
	}{
		{"a built-in one", "secrets", serves(secretMapping), secrets(), false},
		{"a custom one", "gadgets.example.com", serves(secretMapping, gadget), resource{gadget.GroupVersionKind, true}, false},
		{"SVM-3 one that cannot be rewritten", "pods", serves(client.MappingFor[*corev1.Pod]()),
			resource{Kind: corev1.SchemeGroupVersion.WithKind("Pod")}, false},
		{"SVM-6 one that nobody serves", "gadgets.example.com", serves(secretMapping), resource{}, false},
		{"another group is down", "secrets", answers(partial("other.example.com")), secrets(), false},
		{"another group is down, and nobody serves it", "gadgets.example.com", answers(partial("other.example.com")), resource{}, false},
		{"its group is down", "gadgets.example.com", answers(partial("example.com")), resource{}, true},
		{"discovery fails", "gadgets.example.com", answers(errors.New("down")), resource{}, true},
	} {
		k := newCaches(t, c.resources, newMigration("m", c.resource))
		o, err := k.observe(t.Context(), request{Key: plan.Key{Name: "m"}, Now: epoch, Reader: newReader(t)})
		if (err != nil) != c.fails || o.Snapshot.Resource != c.want || o.Snapshot.Stage != starts {
			t.Errorf("%s: %+v, %v", c.name, o.Snapshot, err)
		}
	}
}

// The CustomResourceDefinition is read where the resource may have one, at the beginning and at the end.
func TestDefinitionsAreRead(t *testing.T) {
	want := &definition{Name: "gadgets.example.com", Generation: 2, Storage: "v2", Stored: []string{"v1", "v2"}}
	for _, m := range []*migrationv1.StorageVersionMigration{
		newMigration("m", "gadgets.example.com"), newMigration("m", "gadgets.example.com", isRunning("5"), hasFailed),
	} {
		s := look(t, newCaches(t, serves(gadget), m), newReader(t, newCRD()), plan.Key{Name: "m"}, nil).Snapshot
		if s.CRD == nil || s.CRD.UID == "" || s.CRD.ResourceVersion == "" {
			t.Fatalf("%+v", s)
		}
		want.UID, want.ResourceVersion = s.CRD.UID, s.CRD.ResourceVersion
		if diff := cmp.Diff(want, s.CRD); diff != "" {
			t.Error(diff)
		}
		if s := look(t, newCaches(t, serves(gadget), m), newReader(t), plan.Key{Name: "m"}, nil).Snapshot; s.CRD != nil {
			t.Errorf("there is none: %+v", s.CRD)
		}
	}
}

// SVM-22: a definition that says that it is being migrated is looked at when its migration is gone. One that is not over, in the cache or
// not, sees to it itself.
func TestSVM22Leftovers(t *testing.T) {
	begun := newCRD()
	begun.Object["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "StorageMigrating", "status": "True"}}
	begun.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: definitionManager, Operation: "Apply", Subresource: "status"}})
	quiet := newCRD()
	for _, c := range []struct {
		name    string
		objects []plan.Object
		want    bool
	}{
		{"no migration", []plan.Object{begun}, true},
		{"one that is over", []plan.Object{begun, newMigration("m", "gadgets.example.com", hasSucceeded, isOver)}, true},
		{"one of another resource", []plan.Object{begun, newMigration("m", "secrets", isRunning("5"))}, true},
		{"one that is running", []plan.Object{begun, newMigration("m", "gadgets.example.com", isRunning("5"))}, false},
		{"one that waits", []plan.Object{begun, newMigration("m", "gadgets.example.com")}, false},
		{"the definition says nothing", []plan.Object{quiet}, false},
		{"there is no definition", nil, false},
	} {
		for key, m := range map[plan.Key]*memory{ // of the definition, or of a migration that was about to begin
			definitionKey("gadgets.example.com"): nil, {Name: "gone"}: {UID: "gone", Definition: "gadgets.example.com"},
		} {
			o := look(t, newCaches(t, nil), newReader(t, c.objects...), key, m)
			if o.Exists != c.want || (o.Snapshot.Left != nil) != c.want || o.Memory != m {
				t.Errorf("%s, %s: %+v", c.name, key, o)
			}
		}
	}
	var keys []plan.Key
	other := newCRD()
	other.SetName("widgets.example.com")
	leftovers(newReader(t, begun, other))(t.Context(), func(k plan.Key) { keys = append(keys, k) })
	if diff := cmp.Diff([]plan.Key{definitionKey("gadgets.example.com")}, keys); diff != "" {
		t.Error(diff)
	}
}

func TestEnqueued(t *testing.T) {
	waiting, other := newMigration("b", "gadgets.example.com"), newMigration("c", "secrets")
	running := newMigration("a", "gadgets.example.com", isRunning("5"))
	itself := plan.Key{Name: "a"}
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          []plan.Key
	}{
		{"a new one", nil, running, []plan.Key{itself}},
		{"one that goes on", running, running, []plan.Key{itself}},
		{"SVM-1 one that is over", running, newMigration("a", "gadgets.example.com", hasSucceeded, isOver),
			[]plan.Key{itself, {Name: "b"}, definitionKey("gadgets.example.com")}},
		{"SVM-22 one that is gone", running, nil, []plan.Key{itself, {Name: "b"}, definitionKey("gadgets.example.com")}},
		{"SVM-22 one that is gone, and only its definition says that it had begun", newMigration("a", "gadgets.example.com"), nil,
			[]plan.Key{itself, {Name: "b"}, definitionKey("gadgets.example.com")}},
		{"one that is gone and was over", newMigration("a", "gadgets.example.com", hasSucceeded, isOver), nil, []plan.Key{itself}},
	} {
		if diff := cmp.Diff(c.want, newCaches(t, nil, waiting, other).enqueued(c.before, c.after)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	if o := look(t, newCaches(t, nil), newReader(t), itself, nil); o.Exists {
		t.Errorf("%+v", o)
	}
}
