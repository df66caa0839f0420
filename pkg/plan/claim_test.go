package plan

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

var (
	replicaSet = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	web        = labels.SelectorFromSet(labels.Set{"app": "web"})
	deleted    = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
)

func owner(edits ...func(*metav1.ObjectMeta)) *appsv1.ReplicaSet {
	o := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "owner"}}
	for _, edit := range edits {
		edit(&o.ObjectMeta)
	}
	return o
}

func candidate(name, app string, refs ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}, OwnerReferences: refs,
	}}
}

func ours() metav1.OwnerReference { return *metav1.NewControllerRef(owner(), replicaSet) }

func others() metav1.OwnerReference {
	return *metav1.NewControllerRef(&metav1.ObjectMeta{Name: "other", UID: "other"}, replicaSet)
}

// plain is a reference that does not control.
func plain(uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: uid}
}

func dying[T any](edit *T) {
	reflect.ValueOf(edit).Elem().FieldByName("DeletionTimestamp").Set(reflect.ValueOf(&deleted))
}

func TestClaim(t *testing.T) {
	away := func(p *corev1.Pod) *corev1.Pod { p.Namespace = "bank"; return p }
	gone := func(p *corev1.Pod) *corev1.Pod { dying(&p.ObjectMeta); return p }
	for _, c := range []struct {
		name      string
		owner     *appsv1.ReplicaSet
		candidate *corev1.Pod
		mine      bool
		refs      []metav1.OwnerReference // after the change; nil for none
	}{
		{"RS-20 controlled by another, matching: not touched", owner(), candidate("a", "web", others()), false, nil},
		{"RS-20 controlled by another, not matching: not touched", owner(), candidate("a", "x", others()), false, nil},
		{"RS-20 ours, matching: ours", owner(), candidate("a", "web", ours()), true, nil},
		{"RS-20 ours, matching, owner being deleted: still ours", owner(dying), candidate("a", "web", ours()), true, nil},
		{"RS-20 ours, matching, being deleted: still ours", owner(), gone(candidate("a", "web", ours())), true, nil},
		{"RS-21 ours, not matching: released", owner(), candidate("a", "x", ours()), false, []metav1.OwnerReference{}},
		{"RS-21 other references stay", owner(), candidate("a", "x", plain("c"), ours()), false, []metav1.OwnerReference{plain("c")}},
		{"RS-21 ours, not matching, owner being deleted: left to the garbage collector", owner(dying), candidate("a", "x", ours()), false,
			nil},
		{"RS-22 orphan, matching: adopted and ours", owner(), candidate("a", "web"), true, []metav1.OwnerReference{ours()}},
		{"RS-22 other references stay", owner(), candidate("a", "web", plain("c")), true, []metav1.OwnerReference{plain("c"), ours()}},
		{"RS-22 a reference to us that does not control becomes one that does",
			owner(), candidate("a", "web", plain("owner"), plain("c")), true, []metav1.OwnerReference{plain("c"), ours()}},
		{"RS-22 orphan, not matching: not touched", owner(), candidate("a", "x"), false, nil},
		{"RS-22 orphan, owner being deleted: not touched", owner(dying), candidate("a", "web"), false, nil},
		{"RS-22 orphan, being deleted: not touched", owner(), gone(candidate("a", "web")), false, nil},
		{"RS-22 orphan in another namespace: not touched", owner(), away(candidate("a", "web")), false, nil},
		{"RS-20 in another namespace, naming us its owner: neither ours", owner(), away(candidate("a", "web", ours())), false, nil},
		{"RS-21 nor released", owner(), away(candidate("a", "x", ours())), false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			mine, steps := Claim(c.owner, replicaSet, web, []*corev1.Pod{c.candidate})
			if got := len(mine) == 1; got != c.mine {
				t.Errorf("mine: %t", got)
			}
			if c.refs == nil {
				if len(steps) != 0 {
					t.Errorf("steps: %v", steps)
				}
				return
			}
			change := steps[0].(Each).Sequences[0][0].(Change)
			if got := append([]metav1.OwnerReference{}, change.New.GetOwnerReferences()...); !cmp.Equal(c.refs, got) {
				t.Errorf("references (-want +got):\n%s", cmp.Diff(c.refs, got))
			}
			if change.Old != Object(c.candidate) || change.Adopt != c.mine || change.Subresource != "" || change.Events != (Events{}) ||
				change.Why == "" {
				t.Errorf("change %+v", change)
			}
			if c.mine && Object(mine[0]) != change.New {
				t.Error("RS-23: it counts as it was and not as it will be")
			}
		})
	}
}

// All claims are tried, whatever becomes of each: they are one step of sequences of one (RS-13).
func TestClaimsDoNotStopOneAnother(t *testing.T) {
	mine, steps := Claim(owner(), replicaSet, web,
		[]*corev1.Pod{candidate("a", "web"), candidate("b", "x", ours()), candidate("c", "web", ours()), candidate("d", "web")})
	if len(mine) != 3 || len(steps) != 1 || len(steps[0].(Each).Sequences) != 3 {
		t.Errorf("mine %d, steps %v", len(mine), steps)
	}
}

// Whatever the candidates are: Claim changes none of them, touches none of another controller, and has nothing more to
// claim once its changes are made. The order of the candidates makes no difference but in order.
func TestClaimProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		who := owner()
		if rapid.Bool().Draw(t, "owner dying") {
			dying(&who.ObjectMeta)
		}
		candidates := rapid.SliceOfNDistinct(candidateGen(), 0, 8, (*corev1.Pod).GetName).Draw(t, "candidates")
		before := make([]*corev1.Pod, len(candidates))
		for i, c := range candidates {
			before[i] = c.DeepCopy()
		}
		mine, steps := Claim(who, replicaSet, web, candidates)
		if !reflect.DeepEqual(before, candidates) {
			t.Fatal("LeavesInputAlone")
		}
		for _, m := range mine {
			if !metav1.IsControlledBy(m, who) || !web.Matches(labels.Set(m.Labels)) {
				t.Fatalf("%s is not ours", m.Name)
			}
		}
		after := made(t, candidates, steps)
		for i, c := range candidates {
			if ref := metav1.GetControllerOf(c); ref != nil && ref.UID != who.UID && after[i] != c {
				t.Fatalf("TouchesOnlyItsOwn: %s", c.Name)
			}
		}
		again, more := Claim(who, replicaSet, web, after)
		if len(more) != 0 || !slices.EqualFunc(mine, again, func(a, b *corev1.Pod) bool { return reflect.DeepEqual(a, b) }) {
			t.Fatalf("RepeatedPlanIsEmpty: %v", more)
		}
		shuffled, _ := Claim(who, replicaSet, web, rapid.Permutation(candidates).Draw(t, "shuffled"))
		if !cmp.Equal(namesOf(mine), namesOf(shuffled)) {
			t.Fatalf("IgnoresCacheOrder: %v, %v", namesOf(mine), namesOf(shuffled))
		}
	})
}

func candidateGen() *rapid.Generator[*corev1.Pod] {
	return rapid.Custom(func(t *rapid.T) *corev1.Pod {
		p := candidate(rapid.StringMatching("[a-z]{2}").Draw(t, "name"), rapid.SampledFrom([]string{"web", "x"}).Draw(t, "app"))
		refs := []metav1.OwnerReference{plain("c"), plain("owner")}
		p.OwnerReferences = append(p.OwnerReferences, refs[:rapid.IntRange(0, 2).Draw(t, "plain refs")]...)
		switch rapid.SampledFrom([]string{"orphan", "ours", "others"}).Draw(t, "controller") {
		case "ours":
			p.OwnerReferences = []metav1.OwnerReference{plain("c"), ours()}
		case "others":
			p.OwnerReferences = append(p.OwnerReferences, others())
		}
		if rapid.IntRange(0, 3).Draw(t, "dying") == 0 {
			dying(&p.ObjectMeta)
		}
		return p
	})
}

// made returns the candidates as the steps leave them.
func made(t *rapid.T, candidates []*corev1.Pod, steps []Step) []*corev1.Pod {
	after := slices.Clone(candidates)
	for _, step := range steps {
		for _, sequence := range step.(Each).Sequences {
			change := sequence[0].(Change)
			i := slices.Index(after, change.Old.(*corev1.Pod))
			if i < 0 || len(sequence) != 1 {
				t.Fatalf("%s is changed twice, or was no candidate", change.Old.GetName())
			}
			after[i] = change.New.(*corev1.Pod)
		}
	}
	return after
}

func namesOf(pods []*corev1.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}
