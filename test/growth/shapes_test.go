//go:build unix

package growth

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// shape is a list or a map of objects of a kind, which is to grow.
type shape struct {
	path    string
	variant int
	find    func(object reflect.Value) reflect.Value // makes what leads to it
}

func (s shape) String() string {
	if s.variant > 0 {
		return fmt.Sprintf("%s#%d", s.path, s.variant)
	}
	return s.path
}

// opaque are types that are looked at as one value.
var opaque = map[reflect.Type]bool{
	reflect.TypeFor[metav1.TypeMeta](): true, reflect.TypeFor[metav1.Time](): true, reflect.TypeFor[metav1.MicroTime](): true,
	reflect.TypeFor[resource.Quantity](): true, reflect.TypeFor[intstr.IntOrString](): true, reflect.TypeFor[runtime.RawExtension](): true,
}

// likeOthers are lists of which the elements have lists that are treated like those of others that grow: in templates and in pods.
var likeOthers = []string{".initContainers.", ".ephemeralContainers.", ".httpHeaders", "spec.volumes.",
	".preferredDuringSchedulingIgnoredDuringExecution."}

// inPods are lists within the pods of templates, which are looked at as a whole, but for the affinities of pods on nodes.
var inPods = []string{"emplate.spec.containers.", "emplate.spec.affinity.", "emplate.spec.dnsConfig.", "emplate.spec.securityContext.",
	"emplate.spec.topologySpreadConstraints."}

// shapesOf returns all lists and maps of objects of a type.
func shapesOf(object apiserver.Object) (all []shape) {
	walk(reflect.TypeOf(object).Elem(), "", func(o reflect.Value) reflect.Value { return o }, &all)
	_, placed := object.(*appsv1.DaemonSet)
	return slices.DeleteFunc(all, func(s shape) bool {
		if placed && strings.Contains(s.path, ".nodeAffinity.") {
			return false
		}
		return slices.ContainsFunc(inPods, func(part string) bool { return strings.Contains(s.path, part) })
	})
}

func walk(t reflect.Type, path string, find func(reflect.Value) reflect.Value, all *[]shape) {
	switch {
	case opaque[t]:
	case t.Kind() == reflect.Pointer:
		walk(t.Elem(), path, func(o reflect.Value) reflect.Value {
			p := find(o)
			if p.IsNil() {
				p.Set(reflect.New(t.Elem()))
			}
			return p.Elem()
		}, all)
	case t.Kind() == reflect.Struct:
		walkFields(t, path, find, all)
	case t.Kind() == reflect.Map:
		addShapes(t.Key(), path, find, all)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		addShapes(t.Elem(), path, find, all)
		walk(t.Elem(), path, func(o reflect.Value) reflect.Value {
			list := find(o)
			if list.Len() == 0 {
				list.Set(reflect.Append(list, element(t.Elem(), 0, 0)))
			}
			return list.Index(0)
		}, all)
	}
}

// addShapes adds one for each variant of the elements, or keys.
func addShapes(varies reflect.Type, path string, find func(reflect.Value) reflect.Value, all *[]shape) {
	for variant := range max(1, len(variants[varies])) {
		*all = append(*all, shape{path, variant, find})
	}
}

func walkFields(t reflect.Type, path string, find func(reflect.Value) reflect.Value, all *[]shape) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		inner := path + "." + name
		if name == "" {
			inner = path
		}
		if name == "managedFields" || slices.ContainsFunc(likeOthers, func(part string) bool { return strings.Contains(inner, part) }) {
			continue
		}
		walk(t.Field(i).Type, inner, func(o reflect.Value) reflect.Value { return find(o).Field(i) }, all)
	}
}

// grow returns a copy of an object with so many bytes in the list or map, and one of which one element is another one.
func (s shape) grow(t *testing.T, ordinary apiserver.Object, bytes int) (grown, changed apiserver.Object, n int) {
	t.Helper()
	grown = ordinary.DeepCopyObject().(apiserver.Object)
	v := s.find(reflect.ValueOf(grown).Elem())
	n = max(2, bytes/sizeOf(t, v.Type(), s.variant))
	changed = grown.DeepCopyObject().(apiserver.Object)
	w := s.find(reflect.ValueOf(changed).Elem())
	if v.Kind() == reflect.Map {
		s.fillMap(v, n-1, n-1)
		s.fillMap(w, n-1, n)
		return grown, changed, n
	}
	for _, list := range []reflect.Value{v, w} {
		list.Set(reflect.MakeSlice(list.Type(), n, n))
		for i := range n {
			list.Index(i).Set(element(list.Type().Elem(), s.variant, i))
		}
	}
	w.Index(n - 1).Set(element(w.Type().Elem(), s.variant, n))
	return grown, changed, n
}

// fillMap adds elements, and one more with another number.
func (s shape) fillMap(m reflect.Value, n, other int) {
	if m.IsNil() {
		m.Set(reflect.MakeMapWithSize(m.Type(), n+1))
	}
	for i := range n + 1 {
		if i == n {
			i = other
		}
		m.SetMapIndex(element(m.Type().Key(), s.variant, i), element(m.Type().Elem(), 0, i))
	}
}

// sizeOf is how many bytes an element has in JSON.
func sizeOf(t *testing.T, of reflect.Type, variant int) int {
	t.Helper()
	const usual = 10_000
	parts := []any{}
	if of.Kind() == reflect.Map {
		parts = append(parts, element(of.Key(), variant, usual).Interface())
		variant = 0
	}
	text, err := json.Marshal(append(parts, element(of.Elem(), variant, usual).Interface()))
	if err != nil {
		t.Fatal(err)
	}
	return len(text) - 1
}

// element returns an element that no other number has.
func element(t reflect.Type, variant, i int) reflect.Value {
	if of := variants[t]; len(of) > 0 {
		return reflect.ValueOf(of[variant](i))
	}
	v := reflect.New(t).Elem()
	fill(v, i)
	return v
}

// fill sets what makes a value another one than those of other numbers: texts and numbers, not what may be left out.
func fill(v reflect.Value, i int) {
	if text, ok := words[v.Type()]; ok {
		v.SetString(text)
		return
	}
	if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
		*q = resource.MustParse("1")
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("x", i))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(i%50_000 + 1))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), i)
		}
	case reflect.Struct:
		for f := range v.NumField() {
			if v.Type().Field(f).IsExported() && !opaque[v.Field(f).Type()] {
				fill(v.Field(f), i)
			}
		}
	}
}

// words are values of types of which not any text will do.
var words = map[reflect.Type]string{
	reflect.TypeFor[metav1.LabelSelectorOperator]():      string(metav1.LabelSelectorOpIn),
	reflect.TypeFor[metav1.ConditionStatus]():            string(metav1.ConditionTrue),
	reflect.TypeFor[corev1.ConditionStatus]():            string(corev1.ConditionTrue),
	reflect.TypeFor[corev1.NodeSelectorOperator]():       string(corev1.NodeSelectorOpIn),
	reflect.TypeFor[corev1.TolerationOperator]():         string(corev1.TolerationOpEqual),
	reflect.TypeFor[corev1.TaintEffect]():                string(corev1.TaintEffectNoExecute),
	reflect.TypeFor[corev1.Protocol]():                   string(corev1.ProtocolTCP),
	reflect.TypeFor[corev1.ScopeSelectorOperator]():      string(corev1.ScopeSelectorOpIn),
	reflect.TypeFor[corev1.ResourceQuotaScope]():         string(corev1.ResourceQuotaScopePriorityClass),
	reflect.TypeFor[corev1.PersistentVolumeAccessMode](): string(corev1.ReadWriteOnce),
}
