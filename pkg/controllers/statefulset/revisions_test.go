package statefulset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestFirstRevision(t *testing.T) {
	set := web(1, func(set *appsv1.StatefulSet) {
		set.Annotations = map[string]string{"kubernetes.io/change-cause": "first"}
	})
	p := planned(plantest.Epoch, see(set))
	made := p.Steps[0].(plan.Create).Object.(*appsv1.ControllerRevision)
	data := `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"v1","name":"web","resources":{}}]}}}}`
	hash := history.Hash([]byte(data), 0)
	want := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: plantest.Namespace, Name: "web-" + hash,
			Labels:      map[string]string{"app": "web", "controller.kubernetes.io/hash": hash},
			Annotations: set.Annotations, OwnerReferences: []metav1.OwnerReference{reference("set")},
		},
		Revision: 1,
	}
	want.Data.Raw = []byte(data)
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("STS-30, STS-33 (-want +got):\n%s", diff)
	}
	if got := p.Steps[1].(plan.Create).Object.GetLabels()["controller-revision-hash"]; got != made.Name {
		t.Errorf("STS-13 the pod has %s, the revision is %s", got, made.Name)
	}
}

func TestLongNamesAreCut(t *testing.T) {
	set := web(1, func(set *appsv1.StatefulSet) { set.Name = strings.Repeat("a", 250) })
	if name, hash := revisionName(set, []byte("x"), 0); name != strings.Repeat("a", 223)+"-"+hash {
		t.Errorf("STS-30 %s", name)
	}
}

func TestFindRevisions(t *testing.T) {
	set := web(1)
	other := func(r *appsv1.ControllerRevision) *appsv1.ControllerRevision {
		r.OwnerReferences = []metav1.OwnerReference{reference("other")}
		return r
	}
	foreign := func(data string) *appsv1.ControllerRevision { // has the name of the first revision
		r := other(revision("v1", 4, set))
		r.Data.Raw = []byte(data)
		return r
	}
	reencoded := revision("v1", 1, set)
	reencoded.Name, reencoded.Data.Raw = "web-old",
		[]byte(strings.Replace(string(reencoded.Data.Raw), `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1))
	orphaned := revision("v1", 1, set)
	orphaned.OwnerReferences = nil
	collided, _ := revisionName(set, revision("v1", 1, set).Data.Raw, 1)
	equal := string(revision("v1", 1, set).Data.Raw)
	current := func(name string) edit {
		return func(set *appsv1.StatefulSet) { set.Status.CurrentRevision = name }
	}
	observed := func(set *appsv1.StatefulSet) {
		set.Status.ObservedGeneration = set.Generation
		set.Status.CurrentRevision, set.Status.UpdateRevision = revision("v1", 1, set).Name, revision("v1", 1, set).Name
	}
	newDefault := func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.SchedulerName = "default-scheduler" }
	nextGeneration := func(set *appsv1.StatefulSet) { set.Generation++ }
	named := func(img string) string { return revision(img, 1, set).Name }
	for _, c := range []struct {
		name            string
		set             *appsv1.StatefulSet
		there           []plan.Object
		byBytes         bool
		update, current string
		collisions      int32
		steps           []string
	}{
		{"STS-33 the newest is it", set, []plan.Object{revision("v1", 1, set)}, false, named("v1"), named("v1"), 0, nil},
		{"STS-33 none is it", set, []plan.Object{revision("v2", 3, set)}, false, named("v1"), named("v1"), 0,
			[]string{"create revision 4"}},
		{"STS-33 an earlier one is it", set, []plan.Object{revision("v1", 1, set), revision("v2", 2, set)}, false, named("v1"), named("v1"),
			0, []string{"change revision 3"}},
		{"STS-35 the current one is that of the status", web(1, current(named("v2"))),
			[]plan.Object{revision("v2", 1, set), revision("v1", 2, set)}, false, named("v1"), named("v2"), 0, nil},
		{"STS-35 if it does not exist, the update revision", web(1, current("web-gone")), []plan.Object{revision("v1", 2, set)}, false,
			named("v1"), named("v1"), 0, nil},
		{"STS-34 another encoding of the template is no new revision", set, []plan.Object{reencoded}, false, "web-old", "web-old", 0, nil},
		{"STS-34 nor are new defaults of the server, of a template that has not changed", web(1, observed, newDefault),
			[]plan.Object{revision("v1", 1, set)}, false, named("v1"), named("v1"), 0, nil},
		{"STS-33 but a template that has changed is", web(1, observed, newDefault, nextGeneration), []plan.Object{revision("v1", 1, set)},
			false, "", named("v1"), 0, []string{"create revision 2"}},
		{"STS-34 unless the gate is off", set, []plan.Object{reencoded}, true, named("v1"), named("v1"), 0, []string{"create revision 2"}},
		{"STS-31 the name is taken by a revision with other data", set, []plan.Object{foreign("{}")}, false, collided, collided, 1,
			[]string{"create revision 1"}},
		{"STS-31 the name is taken by a revision with the same data", set, []plan.Object{foreign(equal)}, false, named("v1"), named("v1"),
			0, nil},
		{"STS-32 an orphan is adopted", set, []plan.Object{orphaned}, false, named("v1"), named("v1"), 0, nil},
		{"STS-36 other changes make no revision", web(5, parallel, onDelete), []plan.Object{revision("v1", 1, set)}, false, named("v1"),
			named("v1"), 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := see(c.set, c.there...)
			s.ByBytes, s.Known = c.byBytes, known(c.set, s.Data, memory{})
			r := newRollout(plantest.Epoch, s)
			if r.invalid != nil {
				t.Fatal(r.invalid)
			}
			if c.update != "" && r.update.Name != c.update || r.current.Name != c.current || r.collisions != c.collisions {
				t.Errorf("update %s, current %s, %d collisions", r.update.Name, r.current.Name, r.collisions)
			}
			if diff := cmp.Diff(c.steps, lines(r.steps)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if adopts := strings.Contains(c.name, "adopted"); r.adopting != adopts {
				t.Errorf("adopts: %t", r.adopting)
			}
		})
	}
}

// TestRevisionFor: a pod that is missing is created at the revision that its ordinal has.
func TestRevisionFor(t *testing.T) {
	base := web(3)
	updating := func(set *appsv1.StatefulSet) {
		image("v2")(set)
		set.Status.CurrentRevision = revision("v1", 1, base).Name
		set.Status.CurrentReplicas = 1
	}
	noRollingUpdate := func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate = nil }
	for _, c := range []struct {
		name string
		set  *appsv1.StatefulSet
		want string // the images of three pods
	}{
		{"STS-38 all at the update revision", web(3, updating), "v2 v2 v2"},
		{"STS-56 below the partition at the current one", web(3, updating, partition(2)), "v1 v1 v2"},
		{"STS-38 the partition counts from the start", web(3, updating, from(4), partition(1)), "v1 v2 v2"},
		{"STS-38 without rollingUpdate, as many as are current", web(3, updating, noRollingUpdate), "v1 v2 v2"},
		{"STS-57 on deletion at the update revision", web(3, updating, onDelete), "v2 v2 v2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parallel(c.set)
			p := planned(plantest.Epoch, see(c.set, revision("v1", 1, base), revision("v2", 2, base)))
			byName := map[string]string{}
			for _, step := range p.Steps {
				for _, sequence := range step.(plan.Each).Sequences {
					made := sequence[0].(plan.Create).Object.(*corev1.Pod)
					img := made.Spec.Containers[0].Image
					byName[made.Name] = img
					if got := revisionOf(made); got != revision(img, 1, base).Name {
						t.Errorf("%s has the label %s", made.Name, got)
					}
				}
			}
			var got []string
			for i := range 3 {
				got = append(got, byName[podName(c.set, start(c.set)+i)])
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestRevisionThatCannotBeRead(t *testing.T) {
	set := web(2, image("v2"), partition(1), func(set *appsv1.StatefulSet) { set.Status.CurrentRevision = "web-bad" })
	bad := revision("v1", 1, set)
	bad.Name, bad.Data.Raw = "web-bad", []byte("{")
	p := planned(plantest.Epoch, see(set, bad, revision("v2", 2, set)))
	got := lines(p.Steps)
	if len(got) != 1 ||
		!strings.HasPrefix(got[0], "Warning FailedCreate: Create Pod web-0 in StatefulSet web failed error: ControllerRevision web-bad: ") {
		t.Errorf("STS-71 got %v", got)
	}
}

func TestHistory(t *testing.T) {
	base := web(1)
	four := []plan.Object{revision("v1", 1, base), revision("v2", 2, base), revision("v3", 3, base), revision("v4", 4, base),
		pod(base, 0, "v4")}
	current := func(img string) edit {
		return func(set *appsv1.StatefulSet) { set.Status.CurrentRevision = revision(img, 1, base).Name }
	}
	for _, c := range []struct {
		name string
		set  *appsv1.StatefulSet
		more []plan.Object
		want []string
	}{
		{"STS-37 the oldest beyond the limit go", web(1, image("v4"), keeps(1)), nil, []string{" | delete revision 1 revision 2"}},
		{"STS-37 nothing beyond the limit", web(1, image("v4"), keeps(3)), nil, nil},
		{"STS-37 a negative limit keeps all", web(1, image("v4"), keeps(-1)), nil, nil},
		{"STS-37 the current one stays", web(1, image("v4"), keeps(0), current("v1")), nil, []string{" | delete revision 2 revision 3"}},
		{"STS-37 one that a pod carries stays", web(2, image("v4"), keeps(0), partition(9)), []plan.Object{pod(base, 1, "v2")},
			[]string{" | delete revision 1 revision 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planned(plantest.Epoch, see(c.set, append(c.more, four...)...))
			if diff := cmp.Diff(c.want, lines(p.Steps)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestKnown: what was found for a template holds as long as the template does not change, also if the set is scaled meanwhile.
func TestKnown(t *testing.T) {
	set := web(1, func(set *appsv1.StatefulSet) {
		set.Generation, set.Status.ObservedGeneration, set.Status.UpdateRevision = 2, 1, "web-old"
	})
	for _, c := range []struct {
		name   string
		before memory
		want   string
	}{
		{"STS-34 nothing is remembered, and the status is of another generation", memory{}, ""},
		{"STS-34 the template is the same as before", memory{Generation: 1, Data: []byte("x"), Revision: "web-x"}, "web-x"},
		{"STS-34 the template has other defaults, and the same generation", memory{Generation: 2, Data: []byte("y"), Revision: "web-y"},
			"web-y"},
		{"STS-34 no revision was found then", memory{Generation: 2, Data: []byte("x")}, ""},
		{"STS-34 the template is another one", memory{Generation: 1, Data: []byte("y"), Revision: "web-y"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := known(set, []byte("x"), c.before); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
