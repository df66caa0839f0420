package resourceclaim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
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
	gates   map[string]bool
}

func run(t *testing.T, test func(b *bench)) {
	t.Helper()
	runWith(t, nil, test)
}

// runWith runs it with these feature gates.
func runWith(t *testing.T, gates map[string]bool, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, clienttest.NewServer(), record.NewFakeRecorder(100), metrics.NewKubeRegistry(), gates}
		b.start(func() { test(b) })
	})
}

// start runs the controller while something is done.
func (b *bench) start(test func()) {
	entry := New(Options{})
	c := managertest.Context(b.T, b.Server, entry, managertest.Cache{Example: &corev1.Pod{}},
		managertest.Cache{Example: &resourcev1.ResourceClaim{}}, managertest.Cache{Example: &resourcev1.ResourceClaimTemplate{}},
		managertest.Cache{Example: &podGroup{}})
	c.Enabled = func(gate string) bool { return b.gates[gate] }
	c.Access.Events = b.events
	b.metrics = metrics.NewKubeRegistry()
	c.RegisterMetrics = b.metrics.MustRegister
	managertest.Run(b.T, c, entry, test)
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

func remove[T plan.Object](b *bench, name string) {
	b.Helper()
	if err := b.Delete(b.Context(), client.MappingFor[T](), plan.Key{Namespace: "shop", Name: name}, metav1.DeleteOptions{}); err != nil {
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

// claimOf returns the claim that the status of a pod names for an entry.
func (b *bench) claimOf(pod, entry string) string {
	b.Helper()
	p := &corev1.Pod{}
	if err := b.Get(b.Context(), client.MappingFor[*corev1.Pod](), plan.Key{Namespace: "shop", Name: pod}, p); err != nil {
		b.Fatal(err)
	}
	return podutil.DeviceRecordsOf(p)[entry]
}

// claim returns a claim as text: its reservations, whether it is allocated, and its finalizers; nothing if it is gone.
func (b *bench) claim(name string) string {
	c := &resourcev1.ResourceClaim{}
	if err := b.Get(b.Context(), client.MappingFor[*resourcev1.ResourceClaim](), plan.Key{Namespace: "shop", Name: name}, c); err != nil {
		return ""
	}
	var by []string
	for _, r := range c.Status.ReservedFor {
		by = append(by, r.Name)
	}
	return fmt.Sprintf("reserved=%s allocated=%t finalizers=%d", strings.Join(by, ","), c.Status.Allocation != nil, len(c.Finalizers))
}

// A pod with a template costs five writes in its life: its claim, its record, and the three that release the claim when it ends.
func TestRC164LifeOfAPod(t *testing.T) {
	run(t, func(b *bench) {
		web := newPod("web", wants("a", "gpu"))
		b.put(newTemplate("gpu"))
		b.put(web)
		name := b.claimOf("web", "a")
		if got := b.Log(); len(got) != 2 || name != claimName(web, "a", 0) {
			t.Fatal(got)
		}
		running := newPod("web", wants("a", "gpu"), records("a", name), on("n1"), phase(corev1.PodRunning))
		b.put(newClaim(name, of(web, "a"), allocated(web)), running)
		time.Sleep(time.Hour)
		if b.CountWrites("") != 2 || b.claim(name) != "reserved=web allocated=true finalizers=1" {
			t.Fatal("nothing is to be done at rest: ", b.Log())
		}
		b.put(newPod("web", wants("a", "gpu"), records("a", name), on("n1"), phase(corev1.PodSucceeded)))
		time.Sleep(time.Hour)
		if b.CountWrites("") != 5 || b.claim(name) != "" {
			t.Error(b.claim(name), b.Log())
		}
		if events := b.told(); len(events) > 0 {
			t.Error(events)
		}
	})
}

// A claim that was deleted by hand is made anew, at once.
func TestRC179ClaimThatWasDeletedByHand(t *testing.T) {
	run(t, func(b *bench) {
		b.put(newTemplate("gpu"))
		b.put(newPod("web", wants("a", "gpu")))
		name := b.claimOf("web", "a")
		remove[*resourcev1.ResourceClaim](b, name)
		time.Sleep(time.Minute)
		if again := b.claimOf("web", "a"); b.claim(again) == "" {
			t.Error(again, b.Log())
		}
	})
}

// A template that comes late works at once, and an event tells of it once (RC-176).
func TestRC113LateTemplate(t *testing.T) {
	run(t, func(b *bench) {
		b.put(newPod("web", wants("a", "gpu")))
		time.Sleep(time.Hour)
		if events := b.told(); !slices.Equal(events, []string{notFound}) || b.CountWrites("") > 0 {
			t.Error(events, b.Log())
		}
		b.put(newTemplate("gpu"))
		if b.claim(b.claimOf("web", "a")) == "" {
			t.Error(b.Log())
		}
	})
}

// A creation that was not answered is not repeated under another name, whether or not the cache shows it.
func TestRC122NoClaimIsMadeTwice(t *testing.T) {
	run(t, func(b *bench) {
		var answered atomic.Bool
		b.AfterWrite(func(w clienttest.Write) error {
			if w.Verb == "create" && !answered.Swap(true) {
				return errors.New("connection lost")
			}
			return nil
		})
		b.FreezeWatches(client.KindFor[*resourcev1.ResourceClaim]())
		b.put(newTemplate("gpu"))
		b.put(newPod("web", wants("a", "gpu")))
		time.Sleep(time.Minute)
		b.ResumeWatches(client.KindFor[*resourcev1.ResourceClaim]())
		time.Sleep(time.Minute)
		if names := b.Names(client.KindFor[*resourcev1.ResourceClaim]()); len(names) != 1 || b.claimOf("web", "a") != names[0] {
			t.Error(names, b.Log())
		}
	})
}

// A process that begins where another one has stopped finishes the work, after whichever write that was.
func TestCrashAtEveryWrite(t *testing.T) { // RC-133
	for writes := range 5 {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{t, clienttest.NewServer(), record.NewFakeRecorder(100), nil, nil}
			done := newPod("web", wants("a", "gpu"), records("a", "web-a"), on("n1"), phase(corev1.PodFailed))
			b.put(newTemplate("gpu"), newPod("new", wants("a", "gpu")), done, newClaim("web-a", of(done, "a"), allocated(done)))
			stopped := errors.New("the process has ended")
			b.BeforeWrite(func(clienttest.Write) error {
				if b.CountWrites("") > writes {
					return stopped
				}
				return nil
			})
			b.start(func() { time.Sleep(time.Minute) })
			b.BeforeWrite(func(clienttest.Write) error { return nil })
			b.start(func() { time.Sleep(time.Minute) })
			claims := b.Names(client.KindFor[*resourcev1.ResourceClaim]())
			if len(claims) != 1 || b.claimOf("new", "a") != claims[0] {
				t.Errorf("after %d writes: %v, %v", writes, claims, b.Log())
			}
		})
	}
}

// The scheduler may be ahead of the cache of pods: a reservation goes only when a live read shows that the pod is gone.
func TestRC130CacheLacksAPod(t *testing.T) {
	run(t, func(b *bench) {
		b.FreezeWatches(client.KindFor[*corev1.Pod]())
		web := newPod("web", shares("gpu"))
		b.put(web, newClaim("gpu", allocated(web)))
		time.Sleep(time.Hour)
		if got := b.claim("gpu"); got != "reserved=web allocated=true finalizers=1" {
			t.Error(got, b.Log())
		}
		b.ResumeWatches(client.KindFor[*corev1.Pod]())
		b.put(newClaim("old", allocated(newPod("gone"))))
		time.Sleep(time.Minute)
		if got := b.claim("old"); got != "reserved= allocated=false finalizers=0" {
			t.Error("nobody is left: ", got)
		}
	})
}

// A deletion that was seen need not be read live: without the right to read pods it counts, too.
func TestRC177DeletionsAreRemembered(t *testing.T) {
	run(t, func(b *bench) {
		var all []*corev1.Pod
		for i := range 256 {
			all = append(all, newPod(fmt.Sprint("web-", i), shares("gpu"), on("n1")))
			b.put(all[i])
		}
		b.put(newClaim("gpu", allocated(all...)))
		for _, p := range all {
			if err := b.Delete(b.Context(), client.MappingFor[*corev1.Pod](), plan.KeyOf(p), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if got := b.claim("gpu"); got != "reserved= allocated=false finalizers=0" || b.CountWrites("patch") > 20 {
			t.Error(got, b.CountWrites("patch"))
		}
	})
}

// What the server refuses is retried, with an event each time, and counted.
func TestRC125RefusedCreation(t *testing.T) {
	run(t, func(b *bench) {
		b.BeforeWrite(clienttest.RefuseFirst(2, apierrors.NewForbidden(client.MappingFor[*resourcev1.ResourceClaim]().GroupResource(),
			"x", errors.New("admin access is not allowed"))))
		b.put(newTemplate("gpu"))
		b.put(newPod("web", wants("a", "gpu")))
		time.Sleep(time.Minute)
		const want = `Warning FailedResourceClaimCreation PodResourceClaim a: resourceclaims.resource.k8s.io "x" is forbidden: ` +
			`admin access is not allowed`
		if events := b.told(); !slices.Equal(events, []string{want, want}) || b.claim(b.claimOf("web", "a")) == "" {
			t.Error(events, b.Log())
		}
	})
}

// Two pods that were placed without the scheduler share a claim. One ends, and does not get its reservation back.
func TestMEND31ReservationIsNotRestored(t *testing.T) {
	run(t, func(b *bench) {
		one, two := newPod("one", shares("gpu"), on("n1")), newPod("two", shares("gpu"), on("n1"))
		b.put(one, two, newClaim("gpu", allocated()))
		if got := b.claim("gpu"); got != "reserved=one,two allocated=true finalizers=1" || b.CountWrites("") > 2 {
			t.Error("RC-127: ", got, b.Log())
		}
		before := b.CountWrites("")
		b.put(newPod("one", shares("gpu"), on("n1"), phase(corev1.PodSucceeded)))
		time.Sleep(time.Hour)
		if got := b.claim("gpu"); got != "reserved=two allocated=true finalizers=1" || b.CountWrites("") != before+1 {
			t.Error(got, b.Log())
		}
	})
}

// gathered returns the series of the controller's metrics, sorted.
func (b *bench) gathered() (all []string) {
	b.Helper()
	families, err := b.metrics.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetName() + "=" + l.GetValue()
			}
			all = append(all, fmt.Sprint(line, " ", m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	slices.Sort(all)
	return all
}

func TestRC162Metrics(t *testing.T) {
	run(t, func(b *bench) {
		admin := newTemplate("admin")
		yes := true
		admin.Spec.Spec.Devices.Requests[0].Exactly.AdminAccess = &yes
		ext := newClaim("ext", allocated())
		ext.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		b.put(newTemplate("gpu"), admin, ext, newClaim("by-hand"), newPod("web", wants("a", "gpu"), wants("b", "admin")))
		got := b.gathered()
		want := []string{
			"dynamic_resource_allocation_resource_claims admin_access=false allocated=false source= 1",
			"dynamic_resource_allocation_resource_claims admin_access=false allocated=false source=resource_claim_template 1",
			"dynamic_resource_allocation_resource_claims admin_access=false allocated=true source=extended_resource 1",
			"dynamic_resource_allocation_resource_claims admin_access=true allocated=false source=resource_claim_template 1",
			"dynamic_resource_allocation_resourceclaim_creates_total admin_access=false owner_api_group= owner_api_kind=Pod " +
				"status=success 1",
			"dynamic_resource_allocation_resourceclaim_creates_total admin_access=true owner_api_group= owner_api_kind=Pod status=success 1",
		}
		if !slices.Equal(got, want) {
			t.Error(strings.Join(got, "\n"))
		}
	})
}
