package deployment

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

func TestMatcherMatchesAsTheLibraryDoes(t *testing.T) {
	words := rapid.SampledFrom([]string{"a", "b", "c", "no label!"})
	valid := rapid.SampledFrom([]string{"a", "b", "c"}) // as all that objects have
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom([]*metav1.LabelSelector{nil, {}}).Draw(t, "selector")
		if s != nil {
			s = &metav1.LabelSelector{MatchLabels: rapid.MapOfN(words, words, 0, 3).Draw(t, "labels")}
			for range rapid.IntRange(0, 2).Draw(t, "expressions") {
				operator := rapid.SampledFrom([]metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "?"}).Draw(t,
					"operator")
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
					Key: words.Draw(t, "key"), Operator: operator, Values: rapid.SliceOfN(words, 0, 2).Draw(t, "values"),
				})
			}
		}
		has := labels.Set(rapid.MapOfN(valid, valid, 0, 3).Draw(t, "labels of an object"))
		matches := func(selector labels.Selector, err error) bool { return err == nil && selector.Matches(has) }
		if got, want := matches(matcher(s)), matches(metav1.LabelSelectorAsSelector(s)); got != want {
			t.Errorf("%+v matches %v: %t, want %t", s, has, got, want)
		}
	})
}

func TestMatcherIsCheap(t *testing.T) {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "pod-template-hash": "6d5f7c9"}}
	ours := testing.AllocsPerRun(100, func() { _, _ = matcher(s) })
	library := testing.AllocsPerRun(100, func() { _, _ = metav1.LabelSelectorAsSelector(s) })
	if ours > library/2 {
		t.Errorf("%v allocations, those of the library %v", ours, library)
	}
}
