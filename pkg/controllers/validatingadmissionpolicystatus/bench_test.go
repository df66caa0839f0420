package validatingadmissionpolicystatus

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BenchmarkPlan checks a policy with so many expressions.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newPolicy()
			for range n {
				says("object.spec.replicas > 1")(p)
			}
			s := look(b, p)
			for b.Loop() {
				if d, _ := planCheck(epoch, s); !d.Checked || d.Warnings != nil {
					b.Fatalf("%+v", d)
				}
			}
		})
	}
}

// BenchmarkLargeType checks one expression for a type with some thousand fields, as a PodTemplate has.
func BenchmarkLargeType(b *testing.B) {
	all := map[string]definition{}
	for i := range 100 {
		d := definition{fields: fields{Type: "object", Properties: map[string]fields{}}}
		for j := range 40 {
			d.Properties[fmt.Sprint("field", j)] = fields{Type: "string"}
		}
		if i > 0 {
			all["root"].Properties[fmt.Sprint("part", i)] = fields{Ref: fmt.Sprint(refPrefix, "part", i)}
			all[fmt.Sprint("part", i)] = d
			continue
		}
		all["root"] = d
	}
	t := objectType{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Large"}, Root: "root", Definitions: all}
	p := newPolicy(says("object.part9.field9 == 'a'"))
	for b.Loop() {
		if warnings, unusable := check(p, []objectType{t}, nil); len(warnings)+len(unusable) > 0 {
			b.Fatal(warnings, unusable)
		}
	}
}
