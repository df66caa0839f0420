package resourceclaim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

type podGroup = schedulingv1beta1.PodGroup

// gang is a PodGroup with the entries and the records of what would be a pod.
func gang(like *corev1.Pod, edits ...func(*podGroup)) *podGroup {
	g := &podGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gang", UID: "uid-gang", ResourceVersion: "4"}}
	for _, e := range like.Spec.ResourceClaims {
		g.Spec.ResourceClaims = append(g.Spec.ResourceClaims, schedulingv1beta1.PodGroupResourceClaim(e))
	}
	for _, s := range like.Status.ResourceClaimStatuses {
		g.Status.ResourceClaimStatuses = append(g.Status.ResourceClaimStatuses, schedulingv1beta1.PodGroupResourceClaimStatus(s))
	}
	for _, edit := range edits {
		edit(g)
	}
	return g
}

// member is a pod of the PodGroup.
func member(name string, edits ...podEdit) *corev1.Pod {
	return newPod(name, append(edits, grouped)...)
}

// ofGang has a claim belong to an entry of the PodGroup.
func ofGang(entry string) claimEdit {
	return func(c *resourcev1.ResourceClaim) {
		c.Annotations = map[string]string{resourcev1.PodResourceClaimAnnotation: entry}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroup", Name: "gang",
			UID: "uid-gang", Controller: ptr.To(true)}}
	}
}

// newGroupedCaches returns caches of a cluster in which PodGroups may have claims.
func newGroupedCaches(t interface{ Fatal(...any) }, objects ...plan.Object) *caches {
	k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0), true)
	if err != nil {
		t.Fatal(err)
	}
	k.workloads = true
	for _, o := range objects {
		k.cache(t, o)
	}
	return k
}

// A row is a sentence: what the caches show, the entries of the PodGroup that get a claim, and the names that its status gets.
func TestRC160ClaimsOfPodGroups(t *testing.T) {
	two, gpu := newPod("", wants("a", "gpu"), wants("b", "gpu")), newTemplate("gpu")
	one := newPod("", wants("a", "gpu"))
	for _, c := range []struct {
		name    string
		objects []plan.Object
		want    []string
		status  string
		told    []string
	}{
		{"each entry gets one", []plan.Object{gang(two), gpu}, []string{"a", "b"},
			"a=" + claimName(gang(two), "a", 0) + " b=" + claimName(gang(two), "b", 0), nil},
		{"one that names a claim gets none", []plan.Object{gang(newPod("", shares("x"))), gpu}, nil, "", nil},
		{"one that was made is found", []plan.Object{gang(one), gpu, newClaim("x", ofGang("a"))}, nil, "a=x", nil},
		{"one that is recorded stays", []plan.Object{gang(newPod("", wants("a", "gpu"), records("a", "x"))), newClaim("x", ofGang("a"))},
			nil, "", nil},
		{"that of a pod of its name is another's", []plan.Object{gang(one), gpu, newClaim("x", of(newPod("gang", uid("uid-pod")), "a"))},
			[]string{"a"},
			"a=" + claimName(gang(one), "a", 0), nil},
		{"it is being deleted", []plan.Object{gang(one, func(g *podGroup) { g.DeletionTimestamp = &metav1.Time{Time: epoch} }), gpu}, nil,
			"", nil},
		{"a template is missing", []plan.Object{gang(one)}, nil, "",
			[]string{`Warning FailedResourceClaimCreation PodGroupResourceClaim a: resourceclaimtemplate "gpu" not found`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := newGroupedCaches(t, c.objects...).observeGroup(t.Context(), request[memory]("gang"))
			if err != nil || !o.Exists {
				t.Fatal(o, err)
			}
			o.Snapshot.Missing = map[string]missing{"a": {Template: "gpu", Since: epoch.Add(-templateWait)}}
			d, p := planClaims(epoch, o.Snapshot)
			claims := created(p)
			if diff := cmp.Diff(c.want, entriesOf(claims)) + cmp.Diff(c.told, told(p)); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			rep := reportNames(epoch, o.Snapshot, d, done(claims...))
			if got := groupStatus(t, rep); got != c.status {
				t.Errorf("the status becomes %q, want %q", got, c.status)
			}
			for _, made := range claims {
				ref := metav1.OwnerReference{APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroup", Name: "gang", UID: "uid-gang",
					Controller: ptr.To(true)}
				if diff := cmp.Diff([]metav1.OwnerReference{ref}, made.OwnerReferences); diff != "" ||
					!strings.HasPrefix(made.Name, "gang-") || !owned(made, "uid-gang") || owned(made, "uid-other") {
					t.Errorf("%s: %s", made.Name, diff)
				}
			}
		})
	}
}

// groupStatus returns the names that a report applies to the status of a PodGroup; nothing if it writes nothing.
func groupStatus(t interface{ Fatal(...any) }, p plan.Plan) string {
	if p.Empty() {
		return ""
	}
	g := &podGroup{}
	encodeInto(t, p.Steps[0].(plan.Change).New, g)
	if g.UID != "uid-gang" || g.Kind != "PodGroup" {
		t.Fatal(g)
	}
	var parts []string
	for _, s := range g.Status.ResourceClaimStatuses {
		parts = append(parts, s.Name+"="+*s.ResourceClaimName)
	}
	return strings.Join(parts, " ")
}

// A row is a sentence: a pod of a PodGroup, what else the caches show, the entries that get a claim of the pod's own, and the names that
// its status gets.
func TestRC160PodsOfPodGroups(t *testing.T) {
	gpu, web := newTemplate("gpu"), member("web", wants("a", "gpu"))
	own := claimName(web, "a", 0)
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		objects []plan.Object
		want    []string
		status  string
	}{
		{"it records the claim of the same entry of its group", web,
			[]plan.Object{gpu, gang(newPod("", wants("a", "gpu"), records("a", "x"))), newClaim("x", ofGang("a"))}, nil, "a=x"},
		{"it waits for that claim", web, []plan.Object{gpu, gang(newPod("", wants("a", "gpu")))}, nil, ""},
		{"it waits until its group records the claim", web,
			[]plan.Object{gpu, gang(newPod("", wants("a", "gpu"))), newClaim("x", ofGang("a"))}, nil, ""},
		{"the recorded claim is not that of its group", web,
			[]plan.Object{gpu, gang(newPod("", wants("a", "gpu"), records("a", "x"))), newClaim("x")}, nil, ""},
		{"it waits for its group", web, []plan.Object{gpu, newClaim("x", ofGang("a"))}, nil, ""},
		{"another template is another entry", web, []plan.Object{gpu, gang(newPod("", wants("a", "tpu"))), newClaim("x", ofGang("a"))},
			[]string{"a"}, "a=" + own},
		{"another name is another entry", web, []plan.Object{gpu, gang(newPod("", wants("b", "gpu"))), newClaim("x", ofGang("b"))},
			[]string{"a"}, "a=" + own},
		{"its group has no entries", web, []plan.Object{gpu, gang(newPod(""))}, []string{"a"}, "a=" + own},
		{"its group needs no claim", web, []plan.Object{gpu, gang(newPod("", wants("a", "gpu"), records("a", "")))}, nil, ""},
		{"RC-121 the claim of its own that it has stays", member("web", wants("a", "gpu"), records("a", "mine")),
			[]plan.Object{gpu, gang(newPod("", wants("a", "gpu"), records("a", "x"))), newClaim("x", ofGang("a")),
				newClaim("mine", of(newPod("web"), "a"))}, nil, ""},
		{"the claim of an earlier group of the name is replaced", member("web", wants("a", "gpu"), records("a", "old")),
			[]plan.Object{gpu, gang(newPod("", wants("a", "gpu"), records("a", "x"))), newClaim("x", ofGang("a")),
				newClaim("old", ofGang("a"), func(c *resourcev1.ResourceClaim) { c.OwnerReferences[0].UID = "uid-before" })}, nil, "a=x"},
		{"a pod without a group", newPod("web", wants("a", "gpu")), []plan.Object{gpu, gang(newPod("", wants("a", "gpu")))}, []string{"a"},
			"a=" + own},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newGroupedCaches(t, append(c.objects, c.pod)...)
			o, err := k.observe(t.Context(), request[memory]("web"))
			if err != nil || !o.Exists {
				t.Fatal(o, err)
			}
			before := plantest.Restored(t, o.Snapshot)
			d, p := planClaims(epoch, o.Snapshot)
			if diff := cmp.Diff(c.want, entriesOf(created(p))); diff != "" || p.Why == "" || len(p.Proof) > 0 {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if got := statusOf(t, reportNames(epoch, o.Snapshot, d, done(created(p)...))); got != c.status {
				t.Errorf("%s: the status becomes %q, want %q", p.Why, got, c.status)
			}
			if diff := cmp.Diff(before, plantest.Restored(t, o.Snapshot)); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

// A row is a sentence: a claim, the other objects in the caches, and what becomes of the claim. What has to be read live stands behind a
// question mark.
func TestRC161ReservationsOfPodGroups(t *testing.T) {
	a, b := member("a", wants("x", "gpu"), records("x", "gpu"), on("n1")), member("b", wants("x", "gpu"), records("x", "gpu"), on("n1"))
	group := gang(newPod("", wants("x", "gpu"), shares("s")))
	for _, c := range []struct {
		name    string
		claim   *resourcev1.ResourceClaim
		objects []plan.Object
		gone    types.UID
		want    string
	}{
		{"the group is there", newClaim("gpu", ofGang("x"), allocated(), reservedByGroup), []plan.Object{group, a}, "", ""},
		{"also when no pod of it is left", newClaim("gpu", ofGang("x"), allocated(), reservedByGroup), []plan.Object{group}, "", ""},
		{"its deletion was seen", newClaim("gpu", ofGang("x"), allocated(), reservedByGroup), nil, "uid-gang",
			"status reserved= allocated=false; finalizers []"},
		{"the cache lacks it", newClaim("gpu", ofGang("x"), allocated(), reservedByGroup), nil, "", "?gang"},
		{"the cache shows another one", newClaim("gpu", allocated(), reservedByGroup),
			[]plan.Object{gang(newPod(""), func(g *podGroup) { g.UID = "uid-other" })}, "", "?gang"},
		{"one that is gone takes no pod with it", newClaim("gpu", allocated(newPod("c")), reservedByGroup),
			[]plan.Object{newPod("c", on("n1"))}, "uid-gang", "status reserved=c allocated=true"},
		{"of pods that were placed without the scheduler the group reserves", newClaim("gpu", ofGang("x"), allocated()),
			[]plan.Object{group, a, b}, "", "status reserved=gang allocated=true"},
		{"once", newClaim("gpu", ofGang("x"), allocated(), reservedByGroup), []plan.Object{group, a, b}, "", ""},
		{"a claim that both name", newClaim("s", allocated()), []plan.Object{group, member("c", shares("s"), on("n1"))}, "",
			"status reserved=gang allocated=true"},
		{"a claim that only the pod names", newClaim("t", allocated()), []plan.Object{group, member("c", shares("t"), on("n1"))}, "",
			"status reserved=c allocated=true"},
		{"a pod of a group that is not there yet", newClaim("t", allocated()), []plan.Object{member("c", shares("t"), on("n1"))}, "", ""},
		{"a claim that was made for the group is not that of a pod with another entry", newClaim("gpu", ofGang("x"), allocated()),
			[]plan.Object{group, member("c", wants("y", "gpu"), records("y", "gpu"), on("n1"))}, "", ""},
		{"what was made for an earlier group of the name is not reserved for this one", newClaim("gpu", ofGang("x"), allocated()),
			[]plan.Object{gang(newPod("", wants("x", "gpu")), func(g *podGroup) { g.UID = "uid-other" }), a}, "", ""},
		{"a claim of the pod's own is reserved for the pod", newClaim("gpu", of(newPod("a"), "x"), allocated()),
			[]plan.Object{group, a}, "", "status reserved=a allocated=true"},
		{"a claim of a group is nothing to a pod without one", newClaim("gpu", ofGang("x"), allocated()),
			[]plan.Object{group, newPod("d", wants("x", "gpu"), records("x", "gpu"), on("n1"))}, "", ""},
		{"it is never deleted", newClaim("gpu", ofGang("x")), nil, "uid-gang", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newGroupedCaches(t, append(c.objects, c.claim)...)
			r := request[struct{}](c.claim.Name)
			if c.gone != "" {
				r.Changes = []reconcile.Change{{Before: gang(newPod(""), func(g *podGroup) { g.UID = c.gone })}}
			}
			o, err := k.observeClaim(t.Context(), r)
			if err != nil || !o.Exists {
				t.Fatal(o, err)
			}
			before := plantest.Restored(t, o.Snapshot)
			p := planRelease(epoch, o.Snapshot)
			if diff := cmp.Diff(before, plantest.Restored(t, o.Snapshot)); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
			got := text(p)
			for _, ref := range p.Proof {
				got += "?" + ref.Name
				if ref.Kind.Kind != "PodGroup" {
					t.Errorf("%+v", ref)
				}
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s", p.Why, got, c.want)
			}
			if got != "" && c.gone == "" && len(k.claimsByClaim(nil, c.claim)) != 1 {
				t.Error("the claim is not enqueued")
			}
			if strings.Contains(got, "reserved=gang") && len(k.claimsByGroup(nil, group)) != 1 {
				t.Error("it is not enqueued when the PodGroup comes")
			}
			if c.gone != "" && len(c.claim.OwnerReferences) > 0 && len(k.claimsByGroup(group, nil)) != 1 {
				t.Error("it is not enqueued when the PodGroup goes")
			}
		})
	}
}

// A row is a change, the caches after it, and the keys that are enqueued because of it: pods, and PodGroups behind a colon.
func TestKeysOfPodGroups(t *testing.T) {
	gpu, made := newTemplate("gpu"), newClaim("x", ofGang("a"))
	group, recorded := gang(newPod("", wants("a", "gpu"))), gang(newPod("", wants("a", "gpu"), records("a", "x")))
	web, satisfied := member("web", wants("a", "gpu")), member("web", wants("a", "gpu"), records("a", "x"))
	for _, c := range []struct {
		name          string
		cached        []plan.Object
		before, after plan.Object
		want          string
	}{
		{"a PodGroup has come", []plan.Object{group, web}, nil, group, "web:gang"},
		{"its names are recorded", []plan.Object{recorded, web, made}, group, recorded, "web:"},
		{"nothing of it has changed", []plan.Object{group, web}, group, group, ":"},
		{"it is gone", []plan.Object{web}, group, nil, ":gang"},
		{"its claim has come", []plan.Object{group, web, made}, nil, made, ":gang"},
		{"a recorded claim has come", []plan.Object{recorded, web, made}, nil, made, "web:"},
		{"its claim is gone", []plan.Object{recorded, satisfied}, made, nil, "web:gang"},
		{"its template has come", []plan.Object{group, web, gpu}, nil, gpu, "web:gang"},
		{"all is there", []plan.Object{recorded, satisfied, made, gpu}, nil, gpu, ":"},
	} {
		k := newGroupedCaches(t, c.cached...)
		var pods, groups []plan.Key
		switch {
		case kind[*podGroup](c.before, c.after):
			pods, groups = k.podsByGroup(c.before, c.after), k.groupsByGroup(c.before, c.after)
		case kind[*resourcev1.ResourceClaim](c.before, c.after):
			pods, groups = k.enqueuedByClaim(c.before, c.after), k.groupsByClaim(c.before, c.after)
		default:
			pods, groups = k.enqueuedByTemplate(c.before, c.after), k.groupsByTemplate(c.before, c.after)
		}
		if got := strings.Join(namesOf(pods), ",") + ":" + strings.Join(namesOf(groups), ","); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Whatever entries a PodGroup and its pods have, equal ones share the claim of the group, others have a claim of their own, and then
// nothing is to be done.
func TestEqualEntriesShareTheClaimOfTheGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod, like := drawPod(t, "web"), drawPod(t, "like")
		grouped(pod)
		pod.DeletionTimestamp, pod.Status.Phase = nil, corev1.PodPending
		group := gang(like)
		k := newGroupedCaches(t, pod, group, newTemplate("gpu"), newTemplate("tpu"))
		k.settle(t, "gang", k.observeGroup)
		k.settle(t, "web", k.observe)
		u, g := userOfPod(k.pods.Get("shop", "web")), userOfGroup(k.groups.byClaim.Get("shop", "gang"))
		for _, e := range u.entries {
			name, needed := u.records.Wanted(e)
			owner := u.GetUID()
			if g.has(e) {
				owner = g.GetUID()
				ofGroup, given := g.records.Wanted(e)
				if needed = needed && given; needed && ofGroup != name {
					t.Errorf("%s of the pod, %s of its group", name, ofGroup)
				}
			}
			if c := k.claims.Get("shop", name); needed && (c == nil || !owned(c, owner)) {
				t.Errorf("the claim %s of the entry %s: %+v", name, e.Name, c)
			}
		}
		if k.lacks(k.pods.Get("shop", "web")) || k.groupLacks(k.groups.byClaim.Get("shop", "gang")) {
			t.Error("something is lacking")
		}
	})
}

// planOf is the plan for a user.
func planOf(s snapshot) plan.Plan {
	_, p := planClaims(epoch, s)
	return p
}

// settle carries out what is planned for a user until nothing is, which is at once.
func (k *caches) settle(t *rapid.T, name string, observe func(context.Context, reconcile.Request[memory]) (observation, error)) {
	for round := range 3 {
		o, err := observe(t.Context(), request[memory](name))
		if err != nil {
			t.Fatal(err)
		}
		for i := range o.Snapshot.Entries {
			o.Snapshot.Entries[i].Unread = false // the proof shows that it is gone
		}
		plantest.Same(t, planOf(o.Snapshot), planOf(plantest.Restored(t, o.Snapshot)))
		d, p := planClaims(epoch, o.Snapshot)
		for _, c := range created(p) {
			if !owned(c, o.Snapshot.owner().GetUID()) || k.claims.Get("shop", c.Name) != nil {
				t.Errorf("%s is created", c.Name)
			}
			k.cache(t, c)
		}
		rep := reportNames(epoch, o.Snapshot, d, done(created(p)...))
		if round > 0 && (len(created(p)) > 0 || !rep.Empty()) {
			t.Fatalf("it is not done: %s", p.Why)
		}
		if !rep.Empty() {
			k.cache(t, k.reported(t, rep.Steps[0].(plan.Change)))
		}
	}
}

// reported is a user as a report leaves it.
func (k *caches) reported(t *rapid.T, c plan.Change) plan.Object {
	if g, ok := c.Old.(*podGroup); ok {
		after, applied := g.DeepCopy(), &podGroup{}
		encodeInto(t, c.New, applied)
		none := slices.DeleteFunc(after.Status.ResourceClaimStatuses,
			func(s schedulingv1beta1.PodGroupResourceClaimStatus) bool { return s.ResourceClaimName != nil })
		after.Status.ResourceClaimStatuses = append(none, applied.Status.ResourceClaimStatuses...)
		return after
	}
	after, applied := c.Old.(*corev1.Pod).DeepCopy(), &corev1.Pod{}
	encodeInto(t, c.New, applied)
	none := slices.DeleteFunc(after.Status.ResourceClaimStatuses,
		func(s corev1.PodResourceClaimStatus) bool { return s.ResourceClaimName != nil })
	after.Status.ResourceClaimStatuses = append(none, applied.Status.ResourceClaimStatuses...)
	return after
}

// The life of a PodGroup on a server: one claim for it and two pods, which record it; the scheduler reserves it for the group; when the
// group is gone the devices are given back.
func TestRC160LifeOfAPodGroup(t *testing.T) {
	runWith(t, map[string]bool{groupGate: true, claimsGate: true}, func(b *bench) {
		b.put(member("one", wants("a", "gpu")), newTemplate("gpu"))
		if got := b.claimOf("one", "a"); got != "" {
			t.Error("a pod has a claim before its group is there: ", got)
		}
		b.put(gang(newPod("", wants("a", "gpu"))), member("two", wants("a", "gpu")))
		name := b.claimOf("one", "a")
		if name == "" || b.claimOf("two", "a") != name || b.CountWrites("create") != 1 {
			t.Fatal(name, b.claimOf("two", "a"), b.Log())
		}
		claim := &resourcev1.ResourceClaim{}
		claims := client.MappingFor[*resourcev1.ResourceClaim]()
		if err := b.Get(b.Context(), claims, plan.Key{Namespace: "shop", Name: name}, claim); err != nil {
			t.Fatal(err)
		}
		allocated()(claim)
		reservedByGroup(claim)
		b.put(claim)
		if !slices.ContainsFunc(b.gathered(), func(line string) bool { return strings.Contains(line, "owner_api_kind=PodGroup") }) {
			t.Error("RC-162: ", b.gathered())
		}
		remove[*resourcev1.ResourceClaim](b, name) // by hand: it is made anew, with the same name
		if b.claim(name) == "" {
			t.Fatal("it is not made anew: ", b.Log())
		}
		b.put(claim)
		before := b.CountWrites("")
		time.Sleep(time.Hour)
		if b.CountWrites("") != before {
			t.Error("writes at rest: ", b.Log())
		}
		remove[*corev1.Pod](b, "one")
		remove[*corev1.Pod](b, "two")
		if got := b.claim(name); got != "reserved=gang allocated=true finalizers=1" {
			t.Error(got)
		}
		remove[*podGroup](b, "gang")
		if got := b.claim(name); got != "reserved= allocated=false finalizers=0" || b.CountWrites("delete") > 4 {
			t.Error(got, b.Log())
		}
	})
}

// Without the gate PodGroups are not read, and pods of them have claims of their own.
func TestRC160WithoutTheGate(t *testing.T) {
	for _, gates := range []map[string]bool{{}, {groupGate: true}} {
		runWith(t, gates, func(b *bench) {
			b.put(member("one", wants("a", "gpu")), newTemplate("gpu"))
			if got := b.claimOf("one", "a") != ""; got != gates[groupGate] {
				t.Error(gates, b.Log())
			}
		})
	}
}

// A PodGroup is deleted and made anew with its name: the devices of the first are given back, and its claim is nothing to the second.
func TestRC161APodGroupIsMadeAnew(t *testing.T) {
	runWith(t, map[string]bool{groupGate: true, claimsGate: true}, func(b *bench) {
		b.put(newTemplate("gpu"), gang(newPod("", wants("a", "gpu"))), member("one", wants("a", "gpu"), on("n1")))
		name := b.claimOf("one", "a")
		old := newClaim(name, ofGang("a"), allocated(), reservedByGroup)
		b.put(old)
		remove[*podGroup](b, "gang")
		b.put(gang(newPod("", wants("a", "gpu")), func(g *podGroup) { g.UID = "uid-new" }))
		if got := b.claim(name); got != "reserved= allocated=false finalizers=0" {
			t.Error(got, b.Log())
		}
		if now := b.claimOf("one", "a"); now == name || b.claim(now) != "reserved= allocated=false finalizers=0" {
			t.Error(now, b.Log())
		}
	})
}

// Of PodGroups, and of pods for them, the caches keep what is read.
func TestIgnoresFieldsOfPodGroupsNotCached(t *testing.T) {
	entry := New(Options{})
	entry.Gates = []string{claimsGate}
	kept, err := managertest.Projection(entry)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		group, pod := gang(drawPod(t, "like")), drawPod(t, "web")
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		fill(&group.Spec.SchedulingPolicy)
		fill(&pod.Spec.Containers)
		grouped(pod)
		whole := newGroupedCaches(t, newTemplate("gpu"), group, pod)
		cached := newGroupedCaches(t, newTemplate("gpu"), project(t, kept.Project, group), kept.ProjectPod(pod))
		if slim := cached.pods.Get("shop", "web"); len(slim.Spec.Containers) > 0 && len(pod.Spec.Containers) > 0 {
			t.Error("pods are kept whole")
		}
		a, _ := whole.observeGroup(t.Context(), request[memory]("gang"))
		b, _ := cached.observeGroup(t.Context(), request[memory]("gang"))
		plantest.Same(t, planOf(a.Snapshot), planOf(b.Snapshot))
		a, _ = whole.observe(t.Context(), request[memory]("web"))
		b, _ = cached.observe(t.Context(), request[memory]("web"))
		plantest.Same(t, planOf(a.Snapshot), planOf(b.Snapshot))
	})
}
