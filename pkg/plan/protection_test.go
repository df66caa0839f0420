package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestProtection(t *testing.T) { // SM-21
	const p Protection = "example.com/protection"
	for _, c := range []struct {
		name     string
		has      []string
		deleted  bool
		due      bool
		toggled  []string
		toggled2 []string
	}{
		{"an object that lacks it", []string{"a"}, false, true, []string{"a", string(p)}, []string{"a"}},
		{"an object that has it", []string{string(p), "a"}, false, false, []string{"a"}, []string{"a", string(p)}},
		{"one that is being deleted and has it", []string{string(p)}, true, true, []string{}, []string{string(p)}},
		{"one that is being deleted and lacks it", nil, true, false, []string{string(p)}, []string{}},
	} {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Finalizers: slices.Clone(c.has)}}
		if c.deleted {
			o.DeletionTimestamp = &metav1.Time{}
		}
		once := p.Toggle(o, "why")
		twice := p.Toggle(once.New, "why")
		if p.Due(o) != c.due || !slices.Equal(once.New.GetFinalizers(), c.toggled) ||
			!slices.Equal(twice.New.GetFinalizers(), c.toggled2) ||
			!slices.Equal(o.Finalizers, c.has) || once.Old != Object(o) {
			t.Errorf("%s: due %t, %v, %v", c.name, p.Due(o), once.New.GetFinalizers(), twice.New.GetFinalizers())
		}
	}
}
