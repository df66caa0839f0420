package storageversionmigrator

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// vault is a server with very many Secrets, which it makes up when they are asked for.
type vault struct {
	*clienttest.Server
	secrets int

	mu     sync.Mutex
	writes int
	most   uint64 // bytes of the heap
}

func (v *vault) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions, into k8sruntime.Object) error {
	list, ok := into.(*metav1.PartialObjectMetadataList)
	if !ok || m.Resource != "secrets" {
		return v.Server.List(ctx, m, namespace, o, into)
	}
	first, _ := strconv.Atoi(o.Continue)
	last := min(first+int(o.Limit), v.secrets)
	for i := first; i < last; i++ {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprint("s-", i), UID: types.UID(fmt.Sprintf("0a1b2c3d-0000-0000-0000-%012d", i)),
			ResourceVersion: "7",
			Annotations:     map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("password ", 300)},
		}})
	}
	if list.ResourceVersion = "9"; last < v.secrets {
		left := int64(v.secrets - last)
		list.Continue, list.RemainingItemCount = strconv.Itoa(last), &left
	}
	return nil
}

func (v *vault) Patch(ctx context.Context, m client.Mapping, key plan.Key, patch client.Patch,
	o client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	if m.Resource != "secrets" {
		return v.Server.Patch(ctx, m, key, patch, o)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.writes++; v.writes%2000 == 0 {
		v.most = max(v.most, heap())
	}
	i, _ := strconv.Atoi(strings.TrimPrefix(key.Name, "s-"))
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
		UID: types.UID(fmt.Sprintf("0a1b2c3d-0000-0000-0000-%012d", i)), ResourceVersion: strconv.Itoa(100 + v.writes)}}, nil
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// 20,000 Secrets take at most 10 MB more memory while they are migrated, each is written once, and the status nearly as seldom as can be.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vault{Server: clienttest.NewServer(), secrets: 20_000}
		b := newBench(t, v.Server, v, serves(secretMapping))
		b.during(func() {
			before := heap()
			b.put(newMigration("m", "secrets"))
			b.settled("m", "Succeeded=True StorageVersionMigrationSucceeded: Migration completed, 20000 objects verified migrated")
			statuses := v.CountWrites("patch StorageVersionMigration")
			if v.writes != 20_000 || statuses > 50 {
				t.Errorf("%d objects are written, and %d statuses", v.writes, statuses)
			}
			after := heap()
			t.Logf("20,000 Secrets take at most %.1f MB more while they are migrated, and %.1f MB afterwards",
				float64(int64(v.most)-int64(before))/1e6, float64(int64(after)-int64(before))/1e6)
			if int64(v.most)-int64(before) > 10_000_000 {
				t.Errorf("%d bytes, and before %d", v.most, before)
			}
		})
	})
}

// BenchmarkPage reads and plans a page of a resource of so many objects, and reports what has become of it: what that costs does not depend
// on their number.
func BenchmarkPage(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			k := newCaches(b, serves(secretMapping), newMigration("m", "secrets", isRunning("8")))
			v := &vault{Server: clienttest.NewServer(), secrets: n}
			r := request{Key: plan.Key{Name: "m"}, Reader: v, Memory: &memory{UID: "uid-m", Limit: largestPage}}
			for b.Loop() {
				o, err := k.observe(b.Context(), r)
				p := planMigration(epoch, o.Snapshot)
				if r := reportStatus(epoch, o.Snapshot, outcomeOf(p)); err != nil || p.Empty() || r.Empty() {
					b.Fatal(err, p.Why)
				}
			}
		})
	}
}

// bench is a server on which the controller works in virtual time.
type bench struct {
	*testing.T
	*clienttest.Server
	run func(test func())
}

// newBench returns one whose controller reaches the server by a client, and finds these resources.
func newBench(t *testing.T, server *clienttest.Server, by client.Client, resources finder) *bench {
	entry := New(Options{})
	c := managertest.Context(t, server, entry, managertest.Cache{Example: &migrationv1.StorageVersionMigration{}})
	c.Shared.Mapper, c.Access.Client = kinds{}, by
	access := reconcile.Access{Client: by, Method: c.Access.Method, MayGet: c.Access.MayGet, Hooks: c.Access.Hooks}
	runner, err := (&Options{Workers: 5}).build(c, access, resources)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t, server, func(test func()) { clienttest.Run(t, runner.Run, test) }}
}

// during runs the controller while a test works.
func (b *bench) during(test func()) { b.run(test) }

func (b *bench) put(o plan.Object) {
	b.Helper()
	if _, err := b.Put(o); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) migration(name string) *migrationv1.StorageVersionMigration {
	b.Helper()
	m := &migrationv1.StorageVersionMigration{}
	if err := b.Get(b.Context(), client.MappingFor[*migrationv1.StorageVersionMigration](), plan.Key{Name: name}, m); err != nil {
		b.Fatal(err)
	}
	return m
}

// settled waits until nothing happens any more, and compares how a migration has ended.
func (b *bench) settled(name, want string) {
	b.Helper()
	clienttest.Settle()
	synctest.Wait()
	m := b.migration(name)
	got := says(&m.Status)
	if len(got) != 2 || !slices.Contains(got, "Running=False MigrationCompleted") || !slices.Contains(got, want) {
		b.Errorf("%s: %q", name, got)
	}
}

// soon waits for a moment.
func soon() { time.Sleep(time.Second) }
