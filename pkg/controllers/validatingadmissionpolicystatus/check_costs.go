package validatingadmissionpolicystatus

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/cel/environment"
)

// What the compiler does for a policy is bounded, as it may take very long for an expression that is made for that: its
// time grows with the square of the length, with the cube of how deep lists are nested, and twofold with each map whose
// key is of a type that is not simple.
const (
	mostWork      = 1_000_000_000 // for a policy, about half a minute in the worst case; see workOf
	mostMaps      = 10            // in a policy, whose keys are no constants
	deepest       = 250           // an expression cannot be nested deeper
	mostTypeParts = 64            // of the type of a variable: one that is nested more is dynamic
)

// affordable returns for how many of its types a policy is checked, and if that is none although it has some, why.
func affordable(p *admissionv1.ValidatingAdmissionPolicy, types int) (most int, why string) {
	if types == 0 {
		return 0, ""
	}
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.StoredExpressions)
	if err != nil {
		return 0, err.Error()
	}
	work, maps := 0, 0
	add := func(text string) {
		if maps > mostMaps || work > mostWork {
			return
		}
		more, found := workOf(env, text)
		work, maps = work+more, maps+found
	}
	for _, v := range p.Spec.Variables {
		add(v.Expression)
	}
	for _, e := range expressionsOf(p) {
		add(e.text)
	}
	switch {
	case maps > mostMaps:
		why = fmt.Sprintf("it has %d maps whose keys are no constants, for which the compiler may take very long", maps)
		return 0, why
	case work > mostWork:
		return 0, "its expressions are too long"
	}
	return min(types, mostWork/max(work, 1)), ""
}

// mayCollect reports whether an expression may have lists or maps: literals, or macros that make them.
func mayCollect(text string) bool {
	return strings.ContainsAny(text, "[{") || strings.Contains(text, "map") || strings.Contains(text, "filter") ||
		strings.Contains(text, "transform") || strings.Contains(text, "sortBy")
}

// workOf estimates what it costs to check an expression, and counts its maps whose keys are no constants.
func workOf(env *cel.Env, text string) (work, maps int) {
	n := len(text) + 16 // even an empty one costs something
	if n*n > mostWork {
		return n * n, 0
	}
	if !mayCollect(text) { // most do not, and to parse them twice costs as much as to check them
		return n * (n + 100), 0
	}
	lists := 0
	if parsed, issues := env.Parse(text); issues == nil {
		celast.PostOrderVisit(parsed.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
			switch e.Kind() {
			case celast.ListKind:
				lists++
			case celast.MapKind:
				if lists++; hasComputedKey(e.AsMap()) {
					maps++
				}
			}
		}))
	}
	deep := min(lists, deepest)
	return n*(n+100<<min(maps, mostMaps)) + 2*deep*deep*deep, maps
}

// hasComputedKey reports whether a key of a map is no constant.
func hasComputedKey(m celast.MapExpr) bool {
	for _, entry := range m.Entries() {
		if entry.AsMapEntry().Key().Kind() != celast.LiteralKind {
			return true
		}
	}
	return false
}

// simple returns a type, or that of anything if it is nested too much: variables may be made of one another.
func simple(t *cel.Type) *cel.Type {
	left := mostTypeParts
	var count func(*cel.Type)
	count = func(t *cel.Type) {
		if left--; left < 0 {
			return
		}
		for _, part := range t.Parameters() {
			count(part)
		}
	}
	if count(t); left < 0 {
		return cel.DynType
	}
	return t
}

// What the status says is bounded, too: the API server takes none that is larger than an object may be.
const (
	longestText  = 4 << 10   // of an expression and a type
	longestTexts = 256 << 10 // of all of them
	mostWarnings = 2000
	andMore      = "… and more"
)

// sayings are what the compiler says of expressions, by their places.
type sayings struct {
	left int // how long it may be yet
	of   map[int][]string
}

// add adds what it says for a type.
func (s *sayings) add(place int, about, text string) {
	if s.left <= 0 {
		if all := s.of[place]; len(all) == 0 || all[len(all)-1] != andMore+"\n" {
			s.of[place] = append(all, andMore+"\n")
		}
		return
	}
	text = about + ": " + clipped(text, min(longestText, s.left)) + "\n"
	s.left -= len(text)
	s.of[place] = append(s.of[place], text)
}

// clipped returns the beginning of a text that is too long.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return strings.Clone(text[:most]) + andMore
}
