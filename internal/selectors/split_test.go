package selectors

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Few selectors are split into many: each pair of values is an entry of the index.
func TestSelectorsOfManyValues(t *testing.T) {
	in := func(key string, n int) metav1.LabelSelectorRequirement {
		r := metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn}
		for i := range n {
			r.Values = append(r.Values, fmt.Sprint("v", i))
		}
		return r
	}
	for _, c := range []struct {
		in           []metav1.LabelSelectorRequirement
		alternatives int
		rest         bool
	}{
		{nil, 1, false},
		{[]metav1.LabelSelectorRequirement{in("a", 4), in("b", 4)}, 16, false},
		{[]metav1.LabelSelectorRequirement{in("a", 4), in("b", 5)}, 4, true},
		{[]metav1.LabelSelectorRequirement{in("a", 17)}, 1, true},
	} {
		s, err := Split(&metav1.LabelSelector{MatchExpressions: c.in})
		if err != nil || len(s.Alternatives) != c.alternatives || (s.rest != nil) != c.rest {
			t.Errorf("%d alternatives, rest %v, %v, want %d", len(s.Alternatives), s.rest, err, c.alternatives)
		}
	}
}
