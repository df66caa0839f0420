package resourceclaim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const notFound = `Warning FailedResourceClaimCreation PodResourceClaim a: resourceclaimtemplate "gpu" not found`

// A row is a sentence: a pod, the claims and templates that the caches show, the entries that get a claim, the names that the status gets
// when all was created, and the events.
func TestPlanClaims(t *testing.T) {
	web, gpu := newPod("web", wants("a", "gpu"), wants("b", "gpu")), newTemplate("gpu")
	nameA, nameB := claimName(web, "a", 0), claimName(web, "b", 0)
	both := func(edits ...podEdit) *corev1.Pod {
		return newPod("web", append([]podEdit{wants("a", "gpu"), wants("b", "gpu")}, edits...)...)
	}
	for _, c := range []struct {
		name    string
		objects []plan.Object
		want    []string
		status  string // nothing if it stays as it is
		told    []string
	}{
		{"RC-121 each entry gets a claim, in order", []plan.Object{web, gpu}, []string{"a", "b"}, "a=" + nameA + " b=" + nameB, nil},
		{"RC-121 a claim that exists needs not be made", []plan.Object{newPod("web", shares("mine"))}, nil, "", nil},
		{"RC-121 recorded claims of the pod",
			[]plan.Object{both(records("a", "x"), records("b", "y")), gpu, newClaim("x", of(web, "a")), newClaim("y", of(web, "b"))}, nil,
			"", nil},
		{"RC-121 a recorded claim that is being deleted", []plan.Object{newPod("web", wants("a", "gpu"), records("a", "x")), gpu,
			newClaim("x", of(web, "a"), doomed)}, nil, "", nil},
		{"RC-121 a recorded claim of somebody else",
			[]plan.Object{newPod("web", wants("a", "gpu"), records("a", "x")), gpu, newClaim("x", of(newPod("other"), "a"))}, []string{"a"},
			"a=" + nameA, nil},
		{"RC-122 a claim that was made and not recorded is found", []plan.Object{web, gpu, newClaim("made", of(web, "a"))}, []string{"b"},
			"a=made b=" + nameB, nil},
		{"RC-122 of two the first",
			[]plan.Object{newPod("web", wants("a", "gpu")), newClaim("m2", of(web, "a")), newClaim("m1", of(web, "a"))},
			nil, "a=m1", nil},
		{"RC-122 one of an earlier pod of the name is not the pod's",
			[]plan.Object{newPod("web", wants("a", "gpu")), gpu, newClaim("made", of(newPod("web", uid("before")), "a"))}, []string{"a"},
			"a=" + nameA, nil},
		{"RC-179 an unrecorded one that is being deleted goes first",
			[]plan.Object{newPod("web", wants("a", "gpu")), gpu, newClaim(nameA, of(web, "a"), doomed)}, nil, "", nil},
		{"RC-123 a name that somebody has", []plan.Object{newPod("web", wants("a", "gpu")), gpu, newClaim(nameA)}, []string{"a"},
			"a=" + claimName(web, "a", 1), nil},
		{"RC-102 an entry that needs none", []plan.Object{both(records("a", "")), gpu}, []string{"b"}, "b=" + nameB, nil},
		{"RC-125 a template is missing", []plan.Object{newPod("web", wants("a", "gpu"))}, nil, "", []string{notFound}},
		{"RC-125 that holds up no other", []plan.Object{newPod("web", wants("a", "gpu"), wants("b", "tpu")), newTemplate("tpu")},
			[]string{"b"}, "b=" + nameB, []string{notFound}},
		{"RC-126 what is recorded stays", []plan.Object{both(records("a", "x")), gpu, newClaim("x", of(web, "a"))}, []string{"b"},
			"a=x b=" + nameB, nil},
		{"RC-120 a pod that is being deleted", []plan.Object{both(leaving), gpu}, nil, "", nil},
		{"MEND-31 a pod that has succeeded", []plan.Object{both(phase(corev1.PodSucceeded)), gpu}, nil, "", nil},
		{"MEND-31 a pod that has failed", []plan.Object{both(phase(corev1.PodFailed)), gpu}, nil, "", nil},
		{"RC-160 a pod of a group", []plan.Object{both(grouped), gpu}, nil, "", nil},
		{"RC-102 a newer API", []plan.Object{newPod("web", func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a"}}
		})}, nil, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := newTestCaches(t, c.objects...).observe(t.Context(), request[memory]("web"))
			if err != nil || !o.Exists {
				t.Fatal(o, err)
			}
			o.Snapshot.Missing = map[string]missing{"a": {Template: "gpu", Since: epoch.Add(-templateWait)}}
			before := plantest.Restored(t, o.Snapshot)
			d, p := planClaims(epoch, o.Snapshot)
			if p.Why == "" || len(p.Proof) > 0 {
				t.Errorf("%+v", p)
			}
			claims := created(p)
			if diff := cmp.Diff(c.want, entriesOf(claims)); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if diff := cmp.Diff(c.told, told(p)); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if got := statusOf(t, reportNames(epoch, o.Snapshot, d, done(claims...))); got != c.status {
				t.Errorf("the status becomes %q, want %q", got, c.status)
			}
			if diff := cmp.Diff(before, plantest.Restored(t, o.Snapshot)); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

// done is the outcome of the creation of claims.
func done(claims ...*resourcev1.ResourceClaim) (did plan.Outcome) {
	for _, c := range claims {
		did.Results = append(did.Results, plan.Result{Verb: plan.Created, Object: c, Name: c.Name})
	}
	return did
}

// statusOf returns the names that a report applies; nothing if it writes nothing.
func statusOf(t *testing.T, p plan.Plan) string {
	t.Helper()
	if p.Empty() {
		return ""
	}
	change := p.Steps[0].(plan.Change)
	if change.Subresource != "status" || *change.Apply != (plan.Apply{FieldManager: "ResourceClaimController", Force: true}) {
		t.Errorf("%+v", change)
	}
	if change.New.GetUID() != "uid-web" {
		t.Error("RC-175 the status may be that of another pod")
	}
	pod := corev1.Pod{}
	encodeInto(t, change.New, &pod)
	var parts []string
	for _, s := range pod.Status.ResourceClaimStatuses {
		parts = append(parts, s.Name+"="+*s.ResourceClaimName)
	}
	return strings.Join(parts, " ")
}

func TestRC124CreatedClaim(t *testing.T) {
	web, gpu := newPod("web", wants("a", "gpu")), newTemplate("gpu")
	_, p := planClaims(epoch, snapshot{Pod: web, Entries: []entry{{Name: "a", TemplateName: "gpu", Template: gpu, Free: "web-a-x"}}})
	want := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-a-x", GenerateName: "web-a-", Labels: map[string]string{"from": "gpu"},
			Annotations: map[string]string{"note": "gpu", "resource.kubernetes.io/pod-claim-name": "a"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "uid-web",
				Controller: ptr.To(true)}},
		},
		Spec: gpu.Spec.Spec,
	}
	claims := created(p)
	if diff := cmp.Diff([]*resourcev1.ResourceClaim{want}, claims); diff != "" {
		t.Fatal(diff)
	}
	if len(gpu.Spec.Annotations) != 1 {
		t.Error("RC-173 the annotation is written into the template in the cache")
	}
	got := p.Steps[0].(plan.Each).Sequences[0][0].(plan.Create).Events
	if got != (plan.Events{Failed: plan.Event{Type: "Warning", Reason: "FailedResourceClaimCreation",
		Message: "PodResourceClaim a: {error}"}}) {
		t.Errorf("%+v", got)
	}
}

// A recorded claim that the cache lacks is read live before another one is made.
func TestRC121RecordedClaimIsReadLive(t *testing.T) {
	web := newPod("web", wants("a", "gpu"), records("a", "x"))
	s := snapshot{Pod: web,
		Entries: []entry{{Name: "a", TemplateName: "gpu", Template: newTemplate("gpu"), Recorded: "x", Free: "new", Unread: true}}}
	_, p := planClaims(epoch, s)
	if len(p.Proof) != 1 || p.Proof[0].Name != "x" || len(p.Steps) > 0 {
		t.Errorf("%+v", p)
	}
	s.Entries[0].Unread, s.Entries[0].Hidden = false, true
	if _, p := planClaims(epoch, s); len(p.Steps) > 0 || p.Requeue == 0 {
		t.Errorf("it exists: %+v", p)
	}
	s.Entries[0].Hidden = false
	if _, p := planClaims(epoch, s); len(created(p)) != 1 {
		t.Errorf("it is gone: %+v", p)
	}
}

// The names that a status records are those of claims that were created; the others stay as they are.
func TestRC126FailedCreation(t *testing.T) {
	s := snapshot{Pod: newPod("web", wants("a", "gpu"), wants("b", "gpu"), records("b", "old")), Entries: []entry{
		{Name: "a", Template: newTemplate("gpu"), Free: "new-a"},
		{Name: "b", Template: newTemplate("gpu"), Recorded: "old", Free: "new-b"}}}
	d, p := planClaims(epoch, s)
	did := done(created(p)...)
	did.Results[1].Err = fmt.Errorf("refused")
	if got := statusOf(t, reportNames(epoch, s, d, did)); got != "a=new-a b=old" {
		t.Error(got)
	}
	if rep := reportNames(epoch, s, d, plan.Outcome{}); !rep.Empty() {
		t.Error("something is reported that was not done")
	}
}

// An event tells of a missing template once, when it has been missing for a moment.
func TestRC176MissingTemplateIsToldOnce(t *testing.T) {
	s := snapshot{Pod: newPod("web", wants("a", "gpu")), Entries: []entry{{Name: "a", TemplateName: "gpu"}}}
	for _, c := range []struct {
		after   time.Duration
		told    int
		requeue time.Duration
	}{{0, 0, 2 * time.Second}, {time.Second, 0, time.Second}, {2 * time.Second, 1, 0}, {time.Minute, 0, 0}} {
		now := epoch.Add(c.after)
		d, p := planClaims(now, s)
		if len(told(p)) != c.told || p.Requeue != c.requeue {
			t.Errorf("after %v: %q, %v", c.after, told(p), p.Requeue)
		}
		s.Missing = remember(now, s, d, plan.Outcome{}).Missing
	}
	s.Entries[0].Template, s.Entries[0].Free = newTemplate("gpu"), "new"
	d, _ := planClaims(epoch, s)
	if m := remember(epoch, s, d, plan.Outcome{}); m != nil {
		t.Errorf("%+v is remembered of a template that has come", m)
	}
}

func TestRC123Names(t *testing.T) {
	long := strings.Repeat("a", 40)
	for _, c := range []struct{ pod, entry, want string }{
		{"web", "gpu", "web-gpu-"},
		{strings.Repeat("a", 51), "gpu", strings.Repeat("a", 51) + "-gpu-"},
		{long, long, long[:28] + "-" + long[:28]},
		{strings.Repeat("a", 90), strings.Repeat("b", 30), strings.Repeat("a", 42) + "-" + strings.Repeat("b", 14)},
		{strings.Repeat("ab.", 18), "gpu", strings.Repeat("ab.", 18)[:53] + "-gpu"},
	} {
		if got := prefixOf(c.pod, c.entry); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.pod, c.entry, got, c.want)
		}
	}
	names := map[string]bool{}
	for _, p := range []*corev1.Pod{newPod("web"), newPod("web", uid("other"))} {
		for _, entry := range []string{"a", "b"} {
			for attempt := range 3 {
				name := claimName(p, entry, attempt)
				if names[name] || !strings.HasPrefix(name, "web-"+entry+"-") || len(name) != len("web-a-")+5 ||
					name != claimName(p, entry, attempt) {
					t.Error(name)
				}
				names[name] = true
			}
		}
	}
}
