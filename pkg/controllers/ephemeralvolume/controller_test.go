package ephemeralvolume

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bench is a server on which the controller works in virtual time.
type bench struct {
	*testing.T
	*clienttest.Server
	events  *record.FakeRecorder
	metrics metrics.KubeRegistry
}

func run(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, clienttest.NewServer(), record.NewFakeRecorder(100), metrics.NewKubeRegistry()}
		entry := New(Options{})
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &corev1.Pod{}},
			managertest.Cache{Example: &corev1.PersistentVolumeClaim{}})
		c.Access.Events = b.events
		c.RegisterMetrics = b.metrics.MustRegister
		managertest.Run(t, c, entry, func() { test(b) })
	})
}

func (b *bench) put(objects ...plan.Object) {
	b.Helper()
	for _, o := range objects {
		if _, err := b.Put(o); err != nil {
			b.Fatal(err)
		}
	}
	clienttest.Settle()
}

func (b *bench) remove(claim string) {
	b.Helper()
	if err := b.Delete(b.Context(), client.MappingFor[*corev1.PersistentVolumeClaim](), plan.Key{Namespace: "shop", Name: claim},
		metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	clienttest.Settle()
}

// told returns the events so far.
func (b *bench) told() (events []string) {
	for {
		select {
		case e := <-b.events.Events:
			events = append(events, e)
		default:
			return events
		}
	}
}

// want compares the claims that there are, and how many were created.
func (b *bench) want(what string, created int, names ...string) {
	b.Helper()
	if got := b.Names(client.KindFor[*corev1.PersistentVolumeClaim]()); !slices.Equal(got, names) || b.CountWrites("create") != created {
		b.Errorf("%s: %v, %v", what, got, b.Log())
	}
}

func (b *bench) counter(name string) float64 {
	b.Helper()
	families, err := b.metrics.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	b.Fatalf("there is no metric %s", name)
	return 0
}

func TestClaimsFollowTheirPod(t *testing.T) { // ST-20 to ST-24, ST-26
	run(t, func(b *bench) {
		b.put(newPod("web", ephemeral("a"), ephemeral("b")))
		b.want("a new pod", 2, "web-a", "web-b")
		b.remove("web-a")
		b.want("a claim that was deleted by hand is made anew", 3, "web-a", "web-b")
		if b.counter("ephemeral_volume_controller_create_total") != 3 ||
			b.counter("ephemeral_volume_controller_create_failures_total") != 0 {
			t.Error("the metrics count something else")
		}
		if events := b.told(); len(events) > 0 {
			t.Error(events)
		}
	})
}

func TestForeignClaim(t *testing.T) { // ST-24, ST-25, ST-84
	run(t, func(b *bench) {
		b.put(newClaim("web-a", nil), newPod("web", ephemeral("a"), ephemeral("b")))
		time.Sleep(time.Hour)
		b.want("it is not adopted, and holds up no other", 1, "web-a", "web-b")
		if events := b.told(); !slices.Equal(events, []string{conflict}) {
			t.Error(events)
		}
		b.remove("web-a")
		b.want("when it is gone", 2, "web-a", "web-b")
	})
}

// A claim that the cache does not show yet is no mistake if it is the pod's own.
func TestST83StaleCache(t *testing.T) {
	run(t, func(b *bench) {
		web := newPod("web", ephemeral("a"))
		b.FreezeWatches(client.KindFor[*corev1.PersistentVolumeClaim]())
		b.put(newClaim("web-a", web), web)
		time.Sleep(time.Minute)
		if events := b.told(); len(events) > 0 {
			t.Error(events)
		}
		b.ResumeWatches(client.KindFor[*corev1.PersistentVolumeClaim]())
		time.Sleep(time.Minute)
		b.want("it has its claim", 0, "web-a")
		if events := b.told(); len(events) > 0 {
			t.Error(events)
		}
	})
}

func TestErrorsAreRetried(t *testing.T) { // ST-25, ST-26
	run(t, func(b *bench) {
		b.BeforeWrite(clienttest.RefuseFirst(2,
			apierrors.NewForbidden(client.MappingFor[*corev1.PersistentVolumeClaim]().GroupResource(), "web-a",
				errors.New("exceeded quota"))))
		b.put(newPod("web", ephemeral("a")))
		time.Sleep(time.Minute)
		b.want("when the quota allows it", 1, "web-a")
		const want = `Warning FailedBinding ephemeral volume a: create PVC web-a: persistentvolumeclaims "web-a" is forbidden: exceeded quota`
		if events := b.told(); !slices.Equal(events, []string{want, want}) {
			t.Error(events)
		}
		if b.counter("ephemeral_volume_controller_create_total") != 3 ||
			b.counter("ephemeral_volume_controller_create_failures_total") != 2 {
			t.Error("the metrics count something else")
		}
	})
}

// A quota that forbids one claim does not keep the pod from the others.
func TestST84EachVolumeByItself(t *testing.T) {
	run(t, func(b *bench) {
		b.BeforeWrite(func(w clienttest.Write) error {
			if w.Key.Name == "web-a" {
				return apierrors.NewForbidden(client.MappingFor[*corev1.PersistentVolumeClaim]().GroupResource(), "web-a",
					errors.New("exceeded quota"))
			}
			return nil
		})
		b.put(newPod("web", ephemeral("a"), ephemeral("b")))
		time.Sleep(time.Minute)
		b.want("the other one", 1, "web-b")
	})
}
