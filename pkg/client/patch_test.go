package client

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// words are few, so that two drawn objects have much in common.
var words = rapid.SampledFrom([]string{"a", "b", "c", "d"})

var labels = rapid.MapOfN(words, words, 0, 3)

func distinct[T any](draw *rapid.Generator[T], key func(T) string) *rapid.Generator[[]T] {
	return rapid.SliceOfNDistinct(draw, 0, 3, key)
}

var objectMeta = rapid.Custom(func(t *rapid.T) metav1.ObjectMeta {
	refs := distinct(rapid.Custom(func(t *rapid.T) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: words.Draw(t, "name"), UID: types.UID(words.Draw(t, "uid")),
			Controller: rapid.SampledFrom([]*bool{nil, ptr.To(true), ptr.To(false)}).Draw(t, "controller")}
	}), func(r metav1.OwnerReference) string { return string(r.UID) })
	return metav1.ObjectMeta{
		Namespace: "ns", Name: "x", UID: "uid-of-x", ResourceVersion: "7",
		Labels: labels.Draw(t, "labels"), Annotations: labels.Draw(t, "annotations"),
		Finalizers:      rapid.SliceOfNDistinct(words, 0, 3, rapid.ID).Draw(t, "finalizers"),
		OwnerReferences: refs.Draw(t, "owners"),
		Generation:      rapid.Int64Min(0).Draw(t, "generation"),
	}
})

var podSpec = rapid.Custom(func(t *rapid.T) corev1.PodSpec {
	env := distinct(rapid.Custom(func(t *rapid.T) corev1.EnvVar {
		return corev1.EnvVar{Name: words.Draw(t, "name"), Value: words.Draw(t, "value")}
	}), func(e corev1.EnvVar) string { return e.Name })
	volumes := distinct(rapid.Custom(func(t *rapid.T) corev1.Volume {
		v := corev1.Volume{Name: words.Draw(t, "name")}
		if v.EmptyDir = (&corev1.EmptyDirVolumeSource{}); rapid.Bool().Draw(t, "secret") {
			v.EmptyDir, v.Secret = nil, &corev1.SecretVolumeSource{SecretName: words.Draw(t, "secret")}
		}
		return v
	}), func(v corev1.Volume) string { return v.Name })
	containers := distinct(rapid.Custom(func(t *rapid.T) corev1.Container {
		return corev1.Container{Name: words.Draw(t, "name"), Image: words.Draw(t, "image"), Env: env.Draw(t, "env"),
			Args: rapid.SliceOfN(words, 0, 3).Draw(t, "args")}
	}), func(c corev1.Container) string { return c.Name })
	return corev1.PodSpec{
		Containers: containers.Draw(t, "containers"), Volumes: volumes.Draw(t, "volumes"),
		NodeSelector: labels.Draw(t, "selector"),
		SecurityContext: rapid.SampledFrom([]*corev1.PodSecurityContext{nil, {}, {RunAsUser: ptr.To(int64(1<<62 + 1))}}).Draw(t,
			"security"),
	}
})

var deployments = rapid.Custom(func(t *rapid.T) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: objectMeta.Draw(t, "metadata")}
	d.Spec.Replicas = rapid.SampledFrom([]*int32{nil, ptr.To(int32(0)), ptr.To(int32(3))}).Draw(t, "replicas")
	d.Spec.Selector = rapid.SampledFrom([]*metav1.LabelSelector{nil, {}, {MatchLabels: map[string]string{"a": "b"}}}).Draw(t, "selector")
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels.Draw(t, "template")},
		Spec: podSpec.Draw(t, "spec")}
	d.Status.ObservedGeneration = rapid.Int64().Draw(t, "observed")
	d.Status.Conditions = distinct(rapid.Custom(func(t *rapid.T) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: appsv1.DeploymentConditionType(words.Draw(t, "type")), Reason: words.Draw(t, "reason")}
	}), func(c appsv1.DeploymentCondition) string { return string(c.Type) }).Draw(t, "conditions")
	return d
})

// ordered sorts the lists that have merge keys: their order is no difference.
func ordered(d *appsv1.Deployment) *appsv1.Deployment {
	d = d.DeepCopy()
	by := func(a, b string) int { return strings.Compare(a, b) }
	spec := &d.Spec.Template.Spec
	slices.Sort(d.Finalizers)
	slices.SortFunc(d.OwnerReferences, func(a, b metav1.OwnerReference) int { return by(string(a.UID), string(b.UID)) })
	slices.SortFunc(spec.Volumes, func(a, b corev1.Volume) int { return by(a.Name, b.Name) })
	slices.SortFunc(spec.Containers, func(a, b corev1.Container) int { return by(a.Name, b.Name) })
	slices.SortFunc(d.Status.Conditions, func(a, b appsv1.DeploymentCondition) int { return by(string(a.Type), string(b.Type)) })
	for i := range spec.Containers {
		slices.SortFunc(spec.Containers[i].Env, func(a, b corev1.EnvVar) int { return by(a.Name, b.Name) })
	}
	return d
}

func testStrategicPatchTurnsOldIntoNew(t *rapid.T) {
	before, after := deployments.Draw(t, "before"), deployments.Draw(t, "after")
	switch rapid.IntRange(0, 2).Draw(t, "alike") { // drawn apart, they nearly always differ in all parts
	case 1:
		volumes := after.Spec.Template.Spec.Volumes
		after = before.DeepCopy()
		after.Spec.Template.Spec.Volumes = volumes
	case 2:
		after = shuffled(t, before)
	}
	unchanged := [2]*appsv1.Deployment{before.DeepCopy(), after.DeepCopy()}
	difference, err := MappingFor[*appsv1.Deployment]().Difference(before, after, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := difference.Data
	if !reflect.DeepEqual([2]*appsv1.Deployment{before, after}, unchanged) {
		t.Fatal("the objects have been changed")
	}
	if same := equality.Semantic.DeepEqual(ordered(before), ordered(after)); same != (patch == nil) {
		t.Fatalf("the same: %v, patch %v", same, patch)
	}
	if patch == nil {
		return
	}
	if data := string(patch); !strings.Contains(data, `"uid":"uid-of-x"`) ||
		strings.Contains(data, "$setElementOrder") || strings.Contains(data, `"resourceVersion"`) {
		t.Fatal(data)
	}
	if result := patched(t, before, patch); !equality.Semantic.DeepEqual(ordered(result), ordered(after)) {
		t.Fatalf("%s\nmakes %v\nof %v\ninstead of %v", patch, result, before, after)
	}
	meanwhile := before.DeepCopy() // somebody else writes
	metav1.SetMetaDataLabel(&meanwhile.ObjectMeta, "z", "z")
	metav1.SetMetaDataAnnotation(&meanwhile.ObjectMeta, "z", "z")
	meanwhile.Finalizers = append(meanwhile.Finalizers, "z")
	meanwhile.OwnerReferences = append(meanwhile.OwnerReferences, metav1.OwnerReference{UID: "z"})
	if r := patched(t, meanwhile, patch); r.Labels["z"] == "" || r.Annotations["z"] == "" || !slices.Contains(r.Finalizers, "z") ||
		!slices.ContainsFunc(r.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == "z" }) {
		t.Fatalf("%s undoes what somebody else has written: %v", patch, r.ObjectMeta)
	}
}

// shuffled changes the order of lists that have merge keys.
func shuffled(t *rapid.T, d *appsv1.Deployment) *appsv1.Deployment {
	d = d.DeepCopy()
	spec := &d.Spec.Template.Spec
	d.Finalizers = rapid.Permutation(d.Finalizers).Draw(t, "finalizers")
	spec.Containers = rapid.Permutation(spec.Containers).Draw(t, "containers")
	for i := range spec.Containers {
		spec.Containers[i].Env = rapid.Permutation(spec.Containers[i].Env).Draw(t, "env")
	}
	return d
}

func patched(t *rapid.T, o *appsv1.Deployment, patch []byte) *appsv1.Deployment {
	old, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	data, err := strategicpatch.StrategicMergePatch(old, patch, &appsv1.Deployment{})
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	result := &appsv1.Deployment{}
	if err := json.Unmarshal(data, result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestStrategicPatchTurnsOldIntoNew(t *testing.T) {
	rapid.Check(t, testStrategicPatchTurnsOldIntoNew)
}

func FuzzStrategicPatch(f *testing.F) { f.Fuzz(rapid.MakeFuzz(testStrategicPatchTurnsOldIntoNew)) }

// anything is a JSON value without null: an API server keeps none, and a merge patch cannot make any.
func anything(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(rapid.Int64().AsAny(), rapid.Bool().AsAny(), words.AsAny(), rapid.Just(any(map[string]any{})))
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf, rapid.MapOfN(words, anything(depth-1), 0, 4).AsAny(), rapid.SliceOfN(anything(depth-1), 0, 3).AsAny())
}

func testMergePatchTurnsOldIntoNew(t *rapid.T) {
	draw := func(name string) *unstructured.Unstructured {
		u := widget("x")
		u.SetUID("uid-of-x")
		u.SetResourceVersion("7")
		u.SetLabels(labels.Draw(t, name+" labels"))
		u.Object["spec"] = rapid.MapOfN(words, anything(3), 0, 4).Draw(t, name)
		return u
	}
	before, after := draw("before"), draw("after")
	unchanged := [2]*unstructured.Unstructured{before.DeepCopy(), after.DeepCopy()}
	difference, err := widgets.Difference(before, after, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := difference.Data
	if !reflect.DeepEqual([2]*unstructured.Unstructured{before, after}, unchanged) {
		t.Fatal("the objects have been changed")
	}
	if patch == nil {
		if !reflect.DeepEqual(before, after) {
			t.Fatal("no patch, but there is a difference")
		}
		return
	}
	var fields map[string]any
	if err := unmarshal(patch, &fields); err != nil {
		t.Fatal(err)
	}
	uid, _, _ := unstructured.NestedString(fields, "metadata", "uid")
	version, _, _ := unstructured.NestedString(fields, "metadata", "resourceVersion")
	if uid != "uid-of-x" || version != "7" {
		t.Fatalf("%s", patch)
	}
	if result := merge(before.DeepCopy().Object, fields); !reflect.DeepEqual(result, any(after.Object)) {
		t.Fatalf("%s\nmakes %v\nof %v\ninstead of %v", patch, result, before, after)
	}
}

func TestMergePatchTurnsOldIntoNew(t *testing.T) { rapid.Check(t, testMergePatchTurnsOldIntoNew) }

func FuzzMergePatch(f *testing.F) { f.Fuzz(rapid.MakeFuzz(testMergePatchTurnsOldIntoNew)) }

func unmarshal(data []byte, into *map[string]any) error {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(slices.Concat([]byte(`{"apiVersion":"v1","kind":"Patch","patch":`), data, []byte("}"))); err != nil {
		return err
	}
	*into = u.Object["patch"].(map[string]any)
	return nil
}

// merge is the algorithm of RFC 7386, section 2.
func merge(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	into, ok := target.(map[string]any)
	if !ok {
		into = map[string]any{}
	}
	for key, value := range fields {
		if value == nil {
			delete(into, key)
		} else {
			into[key] = merge(into[key], value)
		}
	}
	return into
}

func TestDifference(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: "o", UID: "o"}
	pod := func(edit func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7",
			OwnerReferences: []metav1.OwnerReference{owner}, Finalizers: []string{"f", "g"}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: "A", Status: "True"}}
		edit(p)
		return p
	}
	metadata := func(m Mapping, edit func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: pod(func(*corev1.Pod) {}).ObjectMeta}
		o.SetGroupVersionKind(m.GroupVersionKind)
		edit(o)
		return o
	}
	pods := MappingFor[*corev1.Pod]()
	untouched := func(*corev1.Pod) {}
	same := func(*metav1.PartialObjectMetadata) {}
	release := func(o *metav1.PartialObjectMetadata) { o.OwnerReferences = nil }
	integers := widget("a")
	integers.SetUID("u")
	integers.Object["spec"] = map[string]any{"size": 3} // an int, where client-go makes int64 of all
	for name, c := range map[string]struct {
		mapping       Mapping
		before, after plan.Object
		want          string // empty: no patch
	}{
		"nothing":       {pods, pod(untouched), pod(untouched), ""},
		"nil and empty": {pods, pod(untouched), pod(func(p *corev1.Pod) { p.Labels = map[string]string{} }), ""},
		"order":         {pods, pod(untouched), pod(func(p *corev1.Pod) { p.Finalizers = []string{"g", "f"} }), ""},
		"RS-21: release": {pods, pod(untouched), pod(func(p *corev1.Pod) { p.OwnerReferences = nil }),
			`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"o"}],"uid":"u"}}`},
		"RS-22: adopt": {pods, pod(func(p *corev1.Pod) { p.OwnerReferences = nil }), pod(untouched),
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"o"}],"uid":"u"}}`},
		"the last label goes": {pods, pod(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), pod(untouched),
			`{"metadata":{"labels":{"a":null},"uid":"u"}}`},
		"all finalizers go": {pods, pod(untouched), pod(func(p *corev1.Pod) { p.Finalizers = nil }),
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":["f","g"],"uid":"u"}}`},
		"a finalizer goes": {pods, pod(untouched), pod(func(p *corev1.Pod) { p.Finalizers = []string{"g"} }),
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":["f"],"uid":"u"}}`},
		"PGC-13: phase": {pods, pod(untouched), pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			`{"metadata":{"uid":"u"},"status":{"phase":"Failed"}}`},
		"a condition is added": {pods, pod(untouched), pod(func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "B", Status: "True"})
		}),
			`{"metadata":{"uid":"u"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":null,"status":"True","type":"B"}]}}`},
		"an empty part appears": {pods, pod(untouched), pod(func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{} }),
			`{"metadata":{"uid":"u"},"spec":{"securityContext":{}}}`},
		"GC-49: metadata of a built-in kind": {pods, metadata(pods, same), metadata(pods, release),
			`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"o"}],"uid":"u"}}`},
		"GC-49: metadata of a custom resource": {widgets, metadata(widgets, same), metadata(widgets, release),
			`{"metadata":{"ownerReferences":null,"resourceVersion":"7","uid":"u"}}`},
		"numbers by value": {widgets, integers, func() plan.Object {
			u := widget("a")
			u.SetUID("u")
			return u
		}(), ""},
	} {
		patch, err := c.mapping.Difference(c.before, c.after, WriteOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := string(patch.Data); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestApplied(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7",
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}}}}
	for check, want := range map[bool]string{
		false: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"a","uid":"u"},"rules":[{"verbs":["get"]}]}`,
		true: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"a","resourceVersion":"7","uid":"u"},` +
			`"rules":[{"verbs":["get"]}]}`,
	} {
		patch, err := MappingFor[*rbacv1.ClusterRole]().Applied(role, WriteOptions{CheckVersion: check})
		if got := string(patch.Data); err != nil || got != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
}

// API servers know the merge keys of lists in built-in kinds only (CI-3), and merge long lists slowly.
func TestPatchTypes(t *testing.T) {
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7"}}
	long := before.DeepCopy()
	for i := range longList + 1 {
		long.Finalizers = append(long.Finalizers, fmt.Sprint("f", i))
		long.OwnerReferences = append(long.OwnerReferences, metav1.OwnerReference{UID: types.UID(fmt.Sprint("o", i))})
	}
	const strategic, merge = types.StrategicMergePatchType, types.MergePatchType
	for name, c := range map[string]struct {
		before *corev1.Pod
		edit   func(*corev1.Pod)
		want   types.PatchType
	}{
		"a short list":        {before, func(p *corev1.Pod) { p.Finalizers = []string{"f"} }, strategic},
		"a label":             {long, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, strategic},
		"a finalizer of many": {long, func(p *corev1.Pod) { p.Finalizers[0] = "g" }, merge},
		"an owner of many":    {long, func(p *corev1.Pod) { p.OwnerReferences[0].Name = "g" }, merge},
		"a label as well":     {long, func(p *corev1.Pod) { p.Finalizers, p.Labels = nil, map[string]string{"a": "b"} }, strategic},
		"the status as well": {long, func(p *corev1.Pod) {
			p.Finalizers, p.Status.Conditions = nil, []corev1.PodCondition{{Type: "A"}}
		}, strategic},
	} {
		after := c.before.DeepCopy()
		c.edit(after)
		patch, err := MappingFor[*corev1.Pod]().Difference(c.before, after, WriteOptions{})
		checked := strings.Contains(string(patch.Data), `"resourceVersion":"7"`)
		if err != nil || patch.Type != c.want || checked != (c.want == merge) {
			t.Errorf("%s: %s, %t, %v", name, patch.Type, checked, err)
		}
	}
	all, without := widget("a"), widget("a")
	without.SetLabels(map[string]string{"a": "b"})
	if patch, err := widgets.Difference(all, without, WriteOptions{}); err != nil || patch.Type != merge {
		t.Errorf("a custom resource: %s, %v", patch.Type, err)
	}
}

func BenchmarkDifference(b *testing.B) {
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", Labels: map[string]string{"app": "web"}}}
	for i := range 3 {
		before.Spec.Containers = append(before.Spec.Containers, corev1.Container{Name: fmt.Sprint(i), Image: "registry/image:tag"})
	}
	after := before.DeepCopy()
	after.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "o"}}
	pods := MappingFor[*corev1.Pod]()
	for b.Loop() {
		if _, err := pods.Difference(before, after, WriteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOnlyDifferingPartsAreEncoded(t *testing.T) {
	before := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", CreationTimestamp: metav1.Unix(1, 0), Annotations: map[string]string{"a": "1"}},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n"}}},
	}
	after, kept := before.DeepCopy(), before.DeepCopy()
	after.Annotations["a"], after.Spec.Replicas, after.CreationTimestamp = "2", ptr.To[int32](2), metav1.Unix(2, 0)
	wanted := after.DeepCopy()
	oldParts, newParts := differingParts(before, after)
	for _, parts := range []struct{ got, want plan.Object }{
		{oldParts, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(1, 0), Annotations: map[string]string{"a": "1"}},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)},
		}},
		{newParts, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(2, 0), Annotations: map[string]string{"a": "2"}},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
		}},
	} {
		if !reflect.DeepEqual(parts.got, parts.want) {
			t.Errorf("got %+v, want %+v", parts.got, parts.want)
		}
	}
	if !reflect.DeepEqual(before, kept) || !reflect.DeepEqual(after, wanted) {
		t.Error("the objects have changed")
	}
	other := &corev1.Pod{}
	if o, n := differingParts(before, other); o != plan.Object(before) || n != plan.Object(other) {
		t.Error("objects of different types have changed")
	}
}

// An adoption adds one owner and a release removes one; other owners are not mentioned.
func TestDifferenceOfOwners(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "set"}}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "other"}
	orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "pod", OwnerReferences: []metav1.OwnerReference{other}}}
	owned := orphan.DeepCopy()
	owned.OwnerReferences = append(owned.OwnerReferences, *metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")))
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          string
	}{
		{"RS-22 adoption", orphan, owned, `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,` +
			`"controller":true,"kind":"ReplicaSet","name":"web","uid":"set"}],"uid":"pod"}}`},
		{"RS-21 release", owned, orphan, `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"set"}],"uid":"pod"}}`},
		{"nothing", owned, owned.DeepCopy(), ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := MappingFor[*corev1.Pod]().Difference(c.before, c.after, WriteOptions{})
			if err != nil || (got.Data == nil) != (c.want == "") || string(got.Data) != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}
