package plantest

import (
	"math/rand"
	"reflect"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/client-go/kubernetes/scheme"
)

// Anything returns a function that fills objects with whatever their types allow, chosen by the seed: numbers below
// zero, words that mean nothing, nil where every server would have a default.
func Anything(seed int64) func(object any) {
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs)
	return fuzzer.FuzzerFor(funcs, rand.NewSource(seed), scheme.Codecs).NilChance(0.3).NumElements(0, 3).Fill
}

// OneOf leaves one of the fields of a union, which is a struct of pointers of which the API server accepts one: a
// number says which.
func OneOf(union any, number int) {
	fields := reflect.ValueOf(union).Elem()
	for i := range fields.NumField() {
		if i != number%fields.NumField() {
			fields.Field(i).SetZero()
		}
	}
}
