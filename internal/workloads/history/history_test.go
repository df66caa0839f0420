package history

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

var kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

func TestData(t *testing.T) {
	odd := plantest.Template("web", "nginx:1.27")
	odd.Spec.Containers[0].Args = []string{"a<b && c>d"}
	odd.Spec.TerminationGracePeriodSeconds = ptr.To[int64](math.MaxInt64)
	for _, c := range []struct {
		name     string
		template corev1.PodTemplateSpec
		want     string
	}{
		{
			"STS-30 compact, with sorted keys", plantest.Template("web", "nginx:1.27"),
			`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},` +
				`"spec":{"containers":[{"image":"nginx:1.27","name":"web","resources":{}}]}}}}`,
		},
		{
			"DS-50 escapes what could be HTML, has no null, and keeps numbers exact", odd,
			`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},` +
				`"spec":{"containers":[{"args":["a\u003cb \u0026\u0026 c\u003ed"],"image":"nginx:1.27","name":"web","resources":{}}],` +
				`"terminationGracePeriodSeconds":9223372036854775807}}}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Data(&c.template)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDataIsAPatch: kubectl rollout undo sends the data of a revision as a strategic merge patch, and gets its template (STS-30, DS-50).
func TestDataIsAPatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var before, after corev1.PodTemplateSpec
		plantest.Anything(rapid.Int64().Draw(t, "before"))(&before)
		plantest.Anything(rapid.Int64().Draw(t, "after"))(&after)
		r, err := New(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, kind, &after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !Same(r, &after) {
			t.Fatal("the revision does not keep the template")
		}
		original, err := json.Marshal(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: before}})
		if err != nil {
			t.Fatal(err)
		}
		patched, err := strategicpatch.StrategicMergePatch(original, r.Data.Raw, &appsv1.StatefulSet{})
		if err != nil {
			t.Fatal(err)
		}
		var got appsv1.StatefulSet
		if err := json.Unmarshal(patched, &got); err != nil {
			t.Fatal(err)
		}
		data, err := Data(&got.Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		if !Equal(r, data) {
			t.Fatal(cmp.Diff(string(r.Data.Raw), string(data)))
		}
	})
}

func TestNew(t *testing.T) {
	owner := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u", Annotations: map[string]string{"kubernetes.io/change-cause": "new image"},
	}}
	template := plantest.Template("web", "nginx:1.27")
	r, err := New(owner, kind, &template, 3)
	if err != nil {
		t.Fatal(err)
	}
	r.Labels["controller.kubernetes.io/hash"] = "x"
	r.Annotations["more"] = "y"
	if r.Revision != 3 || r.Namespace != "shop" || r.Labels["app"] != "web" || r.Annotations["kubernetes.io/change-cause"] != "new image" ||
		!metav1.IsControlledBy(r, owner) {
		t.Errorf("got %+v", r)
	}
	if len(template.Labels) != 1 || len(owner.Annotations) != 1 {
		t.Error("the labels or annotations of the owner are shared")
	}
}

func TestTemplate(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"not JSON", `{`, "ControllerRevision web-1: decode its data: "},
		{"no data", ``, "ControllerRevision web-1: decode its data: "},
		{"of another shape", `{"spec":{"template":[]}}`, "ControllerRevision web-1: decode its data: "},
		{"without a template", `{"spec":{}}`, "ControllerRevision web-1: its data has no template"},
		{"null", `null`, "ControllerRevision web-1: its data has no template"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := revision("web-1", 1, 0)
			r.Data.Raw = []byte(c.data)
			if _, err := Template(r); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if Same(r, &corev1.PodTemplateSpec{}) {
				t.Error("it is the same as an empty template")
			}
		})
	}
}

// TestSame: other encodings of the same template are no new revision (STS-34).
func TestSame(t *testing.T) {
	template := plantest.Template("web", "nginx:1.27")
	template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for _, c := range []struct {
		name, data string
		want       bool
	}{
		{
			"STS-34 a null timestamp, as before 1.34, and an amount written otherwise",
			`{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},` +
				`"spec":{"containers":[{"name":"web","image":"nginx:1.27","resources":{"limits":{"cpu":"1000m"}}}],"volumes":[]}}}}`,
			true,
		},
		{
			"STS-34 another image",
			`{"spec":{"template":{"metadata":{"labels":{"app":"web"}},` +
				`"spec":{"containers":[{"name":"web","image":"nginx:1.28","resources":{"limits":{"cpu":"1"}}}]}}}}`,
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(c.data)}}
			if got := Same(r, &template); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// revision is as many seconds old as age says.
func revision(name string, number int64, age int) *appsv1.ControllerRevision {
	created := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(age) * time.Second))
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: created}, Revision: number}
}

func names(revisions []*appsv1.ControllerRevision) string {
	var all []string
	for _, r := range revisions {
		all = append(all, r.Name)
	}
	return strings.Join(all, " ")
}

func TestOrder(t *testing.T) {
	all := []*appsv1.ControllerRevision{
		revision("e", 3, 0), revision("b", 1, 3), revision("d", 2, 9), revision("c", 1, 3), revision("a", 1, 5),
	}
	goes := revision("_", 0, 9)
	goes.DeletionTimestamp = &goes.CreationTimestamp
	surplus := func(limit int32, used string) (list string) {
		for _, o := range Surplus(append(slices.Clone(all), goes), limit,
			func(r *appsv1.ControllerRevision) bool { return r.Name == used }) {
			list = strings.TrimSpace(list + " " + o.GetName())
		}
		return list
	}
	before := names(all)
	for _, c := range []struct{ name, got, want string }{
		{"STS-32 by number, age and name", names(Sorted(all)), "a b c d e"},
		{"STS-37 the oldest two", surplus(3, ""), "a b"},
		{"STS-37 all, if none is to be kept", surplus(0, ""), "a b c d e"},
		{"DS-58 none, if there is no surplus", surplus(6, ""), ""},
		{"DS-58 one that is used stays, and counts", surplus(3, "a"), "b c"},
		{"the argument is left alone", names(all), before},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("got %q, want %q", c.got, c.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []*appsv1.ControllerRevision
		want int64
	}{
		{"STS-33 the first", nil, 1},
		{"STS-33 one more than the highest", []*appsv1.ControllerRevision{revision("a", 4, 0), revision("b", 2, 0)}, 5},
		{"DS-53 a number that is not positive", []*appsv1.ControllerRevision{revision("a", -4, 0)}, 1},
		{"the last one there is", []*appsv1.ControllerRevision{revision("a", math.MaxInt64, 0)}, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Next(c.all); got != c.want {
				t.Errorf("got %d", got)
			}
		})
	}
}

func TestNumbered(t *testing.T) {
	old := revision("a", 1, 0)
	if got := Numbered(old, 7); got.Revision != 7 || got.Name != "a" || old.Revision != 1 {
		t.Errorf("got %d, and the old one is %d", got.Revision, old.Revision)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add([]byte(`{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"containers":null}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}}
		template, err := Template(r)
		if err != nil {
			return
		}
		encoded, err := Data(template)
		if err != nil {
			t.Fatal(err)
		}
		if again := (&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: encoded}}); !Same(again, template) {
			t.Errorf("%s does not keep the template", encoded)
		}
	})
}
