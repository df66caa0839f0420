package ttl

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Nodes that no server accepts are annotated like others.
func TestMalformedNodes(t *testing.T) {
	for _, n := range []*corev1.Node{
		{},
		{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"": ""}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{key: "\xff\x00"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{key: "-9223372036854775809"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a", DeletionTimestamp: &metav1.Time{}, Finalizers: []string{""}}},
	} {
		for class := unknown; class < steps; class++ {
			p := planAnnotation(epoch, snapshot{Node: n, Class: class})
			if (class == unknown) != p.Empty() {
				t.Errorf("%v in class %d: %s", n.Annotations, class, p.Why)
			}
			if !p.Empty() && !right(p.Steps[0].(plan.Change).New.(*corev1.Node), class) {
				t.Errorf("%v in class %d stays wrong", n.Annotations, class)
			}
		}
	}
}
