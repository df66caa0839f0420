package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func virtually(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.NewServer()
		b := newBench(t, server, server, serves(secretMapping, gadget))
		b.during(func() { test(b) })
	})
}

func (b *bench) gadgets(n int) {
	b.Helper()
	for i := range n {
		b.put(newGadget(i))
	}
}

func (b *bench) crd() (stored []string, condition string) {
	b.Helper()
	u := &unstructured.Unstructured{}
	if err := b.Get(b.Context(), definitionMapping(), plan.Key{Name: "gadgets.example.com"}, u); err != nil {
		b.Fatal(err)
	}
	d, err := definitionFrom(u)
	if err != nil {
		b.Fatal(err)
	}
	if d.Migrating != nil {
		condition = string(d.Migrating.Status) + " " + d.Migrating.Reason
	}
	return d.Stored, condition
}

const succeeded100 = "Succeeded=True StorageVersionMigrationSucceeded: Migration completed, 100 objects verified migrated"

// A migration in three pages: each object is written once, and the definition says when it begins, ends, and what is stored.
func TestLifeOfAMigration(t *testing.T) { // SVM-2 to SVM-7
	virtually(t, func(b *bench) {
		b.put(newCRD())
		b.gadgets(100)
		b.put(newMigration("m", "gadgets.example.com"))
		b.settled("m", succeeded100)
		if stored, c := b.crd(); !slices.Equal(stored, []string{"v2"}) || c != "False MigrationSucceeded" {
			t.Errorf("%v %s", stored, c)
		}
		if n := b.CountWrites("patch Gadget"); n != 100 {
			t.Errorf("%d gadgets are written", n)
		}
		// begins, two pages, succeeds, is over
		if n, d := b.CountWrites("patch StorageVersionMigration"), b.CountWrites("patch CustomResourceDefinition"); n != 5 || d != 2 {
			t.Errorf("%d statuses, %d definitions: %v", n, d, b.Log())
		}
		for _, w := range b.Writes() {
			if w.Kind == "Gadget" && w.Options.FieldManager != "storage-version-migrator-controller" {
				t.Errorf("%+v", w.Options)
			}
		}
	})
}

// SVM-22: an object that is refused does not stop the others, and SVM-20: the stored versions stay as they are.
func TestOneObjectIsRefused(t *testing.T) {
	virtually(t, func(b *bench) {
		b.BeforeWrite(func(w clienttest.Write) error {
			if w.Key.Name == "g-00003" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Gadget"}, "g-00003", nil)
			}
			return nil
		})
		b.put(newCRD())
		b.gadgets(100)
		b.put(newMigration("m", "gadgets.example.com"))
		b.settled("m", "Failed=True StorageVersionMigrationFailed: 1/100 not yet migrated. migration encountered unhandled error: "+
			`shop/g-00003: Gadget "g-00003" is invalid`)
		if stored, c := b.crd(); !slices.Equal(stored, []string{"v1", "v2"}) || c != "False MigrationFailed" {
			t.Errorf("%v %s", stored, c)
		}
		if n := b.CountWrites("patch Gadget"); n != 99 {
			t.Errorf("%d gadgets are written: %v", n, b.Log())
		}
	})
}

// V37-76: conflicts and objects that are gone are progress. What the server puts off is done later, and what was done is not done again.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse error
		writes int // that are carried out
	}{
		{"a conflict", apierrors.NewConflict(schema.GroupResource{Resource: "gadgets"}, "x", errors.New("changed")), 95},
		{"gone", apierrors.NewNotFound(schema.GroupResource{Resource: "gadgets"}, "x"), 95},
		{"too many requests", apierrors.NewTooManyRequests("later", 7), 100},
		{"an internal error", apierrors.NewInternalError(errors.New("x")), 100},
		{"no connection", errors.New("connection refused"), 100},
	} {
		virtually(t, func(b *bench) {
			b.gadgets(100)
			var tries atomic.Int64
			b.BeforeWrite(func(w clienttest.Write) error {
				if w.Kind != "Gadget" {
					return nil
				}
				if n := tries.Add(1); n > 30 && n <= 35 {
					return c.refuse
				}
				return nil
			})
			b.put(newMigration("m", "gadgets.example.com"))
			b.settled("m", succeeded100)
			if done := b.CountWrites("patch Gadget"); done != c.writes {
				t.Errorf("%s: %d gadgets are written", c.name, done)
			}
		})
	}
}

// While the server has too much to do, few requests are made, and people can read why it takes so long.
func TestPace(t *testing.T) {
	virtually(t, func(b *bench) {
		b.gadgets(100)
		var tries atomic.Int64
		b.BeforeWrite(func(w clienttest.Write) error {
			if w.Kind == "Gadget" {
				tries.Add(1)
				return apierrors.NewTooManyRequests("later", 60)
			}
			return nil
		})
		b.put(newMigration("m", "gadgets.example.com"))
		time.Sleep(20 * time.Minute)
		if n := tries.Load(); n < 25*19 || n > 25*25 {
			t.Errorf("%d requests in 20 minutes", n)
		}
		b.BeforeWrite(func(w clienttest.Write) error {
			if w.Kind == "Gadget" {
				return apierrors.NewInternalError(errors.New("no storage"))
			}
			return nil
		})
		time.Sleep(20 * time.Minute)
		m := b.migration("m")
		if got := says(&m.Status); len(got) != 1 || !strings.Contains(got[0], "; transient error: change Gadget g-000") {
			t.Errorf("%q", got)
		}
		b.BeforeWrite(nil)
		time.Sleep(2 * time.Minute)
		b.settled("m", succeeded100)
	})
}

// Another process goes on at the page where the one before was killed.
func TestGoesOnAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.NewServer()
		first := newBench(t, server, server, serves(gadget))
		first.during(func() {
			first.gadgets(100)
			var tries atomic.Int64
			server.BeforeWrite(func(w clienttest.Write) error {
				tried := tries.Load()
				if w.Kind == "Gadget" {
					tried = tries.Add(1) - 1
				}
				if tried >= 60 {
					return client.ErrNotLeading
				}
				return nil
			})
			first.put(newMigration("m", "gadgets.example.com"))
			soon()
		})
		server.BeforeWrite(nil)
		before := server.CountWrites("patch Gadget")
		next := newBench(t, server, server, serves(gadget))
		next.during(func() { next.settled("m", succeeded100) })
		if n := server.CountWrites("patch Gadget") - before; before != 60 || n != 40 {
			t.Errorf("%d gadgets were written, and then %d", before, n)
		}
	})
}

// SVM-1: one migration of a resource runs at a time, and those of others do not wait.
func TestSVM1OneAtATime(t *testing.T) {
	virtually(t, func(b *bench) {
		b.gadgets(60)
		b.BeforeWrite(func(w clienttest.Write) error {
			if w.Kind == "Gadget" {
				return apierrors.NewTooManyRequests("later", 1)
			}
			return nil
		})
		b.put(newMigration("a", "gadgets.example.com"))
		soon()
		b.put(newMigration("b", "gadgets.example.com"))
		b.put(newMigration("c", "secrets"))
		time.Sleep(time.Minute)
		if m := b.migration("b"); len(m.Status.Conditions) > 0 {
			t.Errorf("%q", says(&m.Status))
		}
		b.settled("c", "Succeeded=True StorageVersionMigrationSucceeded: Migration completed, 0 objects verified migrated")
		b.BeforeWrite(nil)
		time.Sleep(time.Minute)
		for _, name := range []string{"a", "b"} {
			b.settled(name, "Succeeded=True StorageVersionMigrationSucceeded: Migration completed, 60 objects verified migrated")
		}
	})
}

// SVM-22: when a migration is deleted that is running, its definition does not say any more that it is; nor when that happens while nobody
// leads.
func TestSVM22Deletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.NewServer()
		b := newBench(t, server, server, serves(gadget))
		begin := func() {
			server.BeforeWrite(func(w clienttest.Write) error {
				if w.Kind == "Gadget" {
					return apierrors.NewTooManyRequests("later", 1)
				}
				return nil
			})
			b.put(newMigration("m", "gadgets.example.com"))
			soon()
			if _, c := b.crd(); c != "True MigrationRunning" {
				t.Errorf("it is not running: %q", c)
			}
		}
		remove := func() {
			if err := b.Delete(b.Context(), client.MappingFor[*migrationv1.StorageVersionMigration](), plan.Key{Name: "m"},
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		b.put(newCRD())
		b.gadgets(10)
		b.during(func() {
			begin()
			remove()
			soon()
			if stored, c := b.crd(); c != "False MigrationFailed" || len(stored) != 2 {
				t.Errorf("after its deletion: %v %q", stored, c)
			}
			begin()
		})
		remove()
		u := &unstructured.Unstructured{}
		if err := b.Get(b.Context(), definitionMapping(), plan.Key{Name: "gadgets.example.com"}, u); err != nil {
			t.Fatal(err)
		}
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: definitionManager, Operation: "Apply", Subresource: "status"}})
		b.put(u)
		again := newBench(t, server, server, serves(gadget))
		again.during(func() {
			if _, c := again.crd(); c != "False MigrationFailed" {
				t.Errorf("after a deletion that nobody has seen: %q", c)
			}
		})
	})
}

// SVM-6: a resource that comes to be served within a minute is migrated.
func TestLateDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.NewServer()
		var found atomic.Bool
		late := newBench(t, server, server, func(ctx context.Context, verbs ...string) ([]client.Mapping, error) {
			if !found.Load() {
				return nil, nil
			}
			return serves(gadget)(ctx, verbs...)
		})
		late.during(func() {
			late.put(newMigration("m", "gadgets.example.com", func(m *migrationv1.StorageVersionMigration) {
				m.CreationTimestamp = metav1.Now()
			}))
			late.put(newMigration("never", "widgets.example.com", func(m *migrationv1.StorageVersionMigration) {
				m.CreationTimestamp = metav1.Now()
			}))
			time.Sleep(30 * time.Second)
			found.Store(true)
			late.settled("m", "Succeeded=True StorageVersionMigrationSucceeded: Migration completed, 0 objects verified migrated")
			m := late.migration("never")
			if got := says(&m.Status); len(got) != 1 || !strings.HasSuffix(got[0], "the API server does not serve widgets.example.com") {
				t.Errorf("%q", got)
			}
		})
	})
}

// REG-20, V37-12: the names by which flags, logs, roles and clients know the controller, and the gate that switches it off.
func TestREG20Names(t *testing.T) {
	c := New(Options{})
	if c.Name != "storage-version-migrator-controller" || c.Alias != "svm" || c.Account != c.Name || c.OffByDefault || c.Flags != nil ||
		fmt.Sprint(c.Gates, c.Needs) != "[StorageVersionMigrator] [storagemigration.k8s.io/v1, Resource=storageversionmigrations]" {
		t.Errorf("%+v", c)
	}
}
