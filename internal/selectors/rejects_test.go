package selectors

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

// What a selector matches is not rejected, and all else is.
func TestRejects(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		s := &metav1.LabelSelector{MatchLabels: rapid.MapOfN(word, word, 0, 2).Draw(t, "labels")}
		for i := range rapid.IntRange(0, 3).Draw(t, "expressions") {
			e := metav1.LabelSelectorRequirement{Key: word.Draw(t, fmt.Sprint("key", i)),
				Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{
					metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
					metav1.LabelSelectorOpDoesNotExist}).Draw(t, "operator")}
			if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
				e.Values = rapid.SliceOfN(word, 1, 2).Draw(t, "values")
			}
			s.MatchExpressions = append(s.MatchExpressions, e)
		}
		l := rapid.MapOfN(word, word, 0, 3).Draw(t, "object")
		parsed, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := Rejects(s, l); got == parsed.Matches(labels.Set(l)) {
			t.Fatalf("%s rejects %v: %v", metav1.FormatLabelSelector(s), l, got)
		}
	})
	if !Rejects(nil, nil) ||
		!Rejects(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Perhaps"}}}, nil) {
		t.Error("not rejected")
	}
}
