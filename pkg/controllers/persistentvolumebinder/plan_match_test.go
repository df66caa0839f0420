package persistentvolumebinder

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// index is the index of free volumes over some.
func index(all ...*corev1.PersistentVolume) func(string) []*corev1.PersistentVolume {
	by := map[string][]*corev1.PersistentVolume{}
	for _, v := range all {
		for _, place := range bucketsOf(v) {
			by[place] = append(by[place], v)
		}
	}
	return func(place string) []*corev1.PersistentVolume { return by[place] }
}

func called(all []*corev1.PersistentVolume) string {
	var names []string
	for _, v := range all {
		names = append(names, v.Name)
	}
	return strings.Join(names, " ")
}

func TestWhichVolumeIsFound(t *testing.T) {
	for _, row := range []struct {
		name, claim string
		volumes     string // NAME:words, with commas for blanks
		want        string // the first
	}{
		{"PV-31: the smallest that is large enough", "3Gi", "a:10Gi b:5Gi c:2Gi d:20Gi", "b"},
		{"PV-29: as large as asked for", "3Gi", "a:3Gi b:4Gi", "a"},
		{"PV-29: none is large enough", "30Gi", "a:3Gi b:4Gi", ""},
		{"PV-28: the smallest set of access modes comes first, whatever the size", "", "a:2Gi,rwx b:50Gi", "b"},
		{"PV-28: all modes that are asked for", "rox", "a: b:rwx c:rwx,rox d:rox,9Gi", "d"},
		{"PV-28: a mode that no volume has", "rwx", "a: b:rox", ""},
		{"PV-29: the volume mode", "block", "a: b:block", "b"},
		{"PV-29: no volume mode is Filesystem", "nomode", "a:block b:nomode", "b"},
		{"PV-29: the class of attributes", "attributes=gold", "a: b:attributes=silver c:attributes=gold", "c"},
		{"PV-29: no class of attributes is an empty one", "attributes=", "a:attributes=gold b:", "b"},
		{"PV-29: one that is being deleted", "", "a:deleting b:9Gi", "b"},
		{"PV-31: the class", "class=slow", "a: b:class=slow", "b"},
		{"PV-31: no class is an empty one", "noclass", "a: b:class=", "b"},
		{"PV-13: classes by annotation", "oldclass=slow", "a:class=slow,oldclass=fast b:oldclass=slow", "b"},
		{"PV-31: the labels", "selects=red", "a: b:color=blue c:color=red,9Gi", "c"},
		{"PV-31: only Available ones", "", "a:phase=Released b:phase=Failed c:phase=Bound d:phase=Pending e:9Gi", "e"},
		{"PV-51: Released ones are not used again", "", "a:phase=Released,other=gone", ""},
		{"PV-29: one that is for another claim", "", "a:for=rival b:of=rival c:9Gi", "c"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var all []*corev1.PersistentVolume
			for word := range strings.FieldsSeq(row.volumes) {
				name, words, _ := strings.Cut(word, ":")
				all = append(all, volume(name, strings.ReplaceAll(words, ",", " ")))
			}
			c := claim("c", row.claim)
			class, _ := classOf(c)
			fit := found(c, class, index(all...))
			first := ""
			if v := bestMatch(c, class, fit); v != nil {
				first = v.Name
			}
			if first != row.want {
				t.Errorf("found %q, the first is %q, want %q", called(fit), first, row.want)
			}
			if v := bestMatch(c, class, all); row.want != "" && v.Name != row.want {
				t.Errorf("of all, the best is %s", v.Name)
			}
			if len(fit) > 0 && !slices.Contains(fit, bestMatch(c, class, all)) {
				t.Errorf("the index does not have the best one: %q", called(fit))
			}
		})
	}
}

func TestPV30ReservedVolumes(t *testing.T) {
	c := claim("c", "")
	for _, row := range []struct{ name, volumes, want string }{
		{"PV-73: whatever the others are", "a: b:for=c,50Gi,rwx", "b"},
		{"PV-30: class, selector and phase do not count", "a: b:for=c,class=x,phase=Released", "b"},
		{"PV-22: its uid comes before its name", "a:for=c b:of=c,50Gi", "b"},
		{"PV-22: for another one of that name", "a:9Gi b:other=c", "a"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var all []*corev1.PersistentVolume
			for word := range strings.FieldsSeq(row.volumes) {
				name, words, _ := strings.Cut(word, ":")
				all = append(all, volume(name, strings.ReplaceAll(words, ",", " ")))
			}
			if v := bestMatch(c, "fast", all); v == nil || v.Name != row.want {
				t.Errorf("%v", v)
			}
		})
	}
}

// Claims that are planned at the same time spread over volumes that are equal.
func TestPV31TiesAreSpread(t *testing.T) {
	var all []*corev1.PersistentVolume
	for i := range 20 {
		all = append(all, volume(fmt.Sprint("v-", i), ""))
	}
	chosen := map[string]bool{}
	for i := range 20 {
		c := claim(fmt.Sprint("c-", i), "")
		v := bestMatch(c, "fast", found(c, "fast", index(all...)))
		if again := bestMatch(c, "fast", all); again != v {
			t.Errorf("%s and %s", v.Name, again.Name)
		}
		chosen[v.Name] = true
	}
	if len(chosen) < 8 {
		t.Errorf("20 claims want %d of 20 volumes", len(chosen))
	}
}

func TestPV92NearestVolumes(t *testing.T) {
	lacks := func(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) []string {
		w := demandOf(c, "fast")
		return w.reasons(v)
	}
	c := claim("c", "5Gi block selects=red attributes=gold rwx")
	far, near := volume("far", "phase=Released other=gone class=x deleting"), volume("near", "block attributes=gold rwx color=red 4Gi")
	if got := nearest(c, "fast", pvs(far, volume("b", ""), volume("a", ""), near)); called(got) != "near a b" {
		t.Errorf("%s", called(got))
	}
	want := `has 2Gi of 5Gi, lacks the access mode ReadWriteMany, has the volume mode Filesystem, has the volume attributes class "" and not "gold", is being deleted, ` +
		`is Released, and free again when its claimRef is removed, has the class "x" and not "fast", lacks labels that are selected`
	if got := strings.Join(lacks(c, far), ", "); got != want {
		t.Errorf("%s", got)
	}
	if got := strings.Join(lacks(claim("c", ""), volume("v", "of=rival phase=Bound")), ", "); got != "is for the claim shop/rival" {
		t.Errorf("%s", got)
	}
	if got := strings.Join(lacks(claim("c", ""), volume("v", "phase=")), ", "); got != "is Pending" {
		t.Errorf("%s", got)
	}
}

// A capacity that no 64 bits can hold is the largest size.
func TestHugeVolumes(t *testing.T) {
	huge := volume("huge", "")
	huge.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("10E")
	for _, asks := range []string{"1Gi", "9E", "10E"} {
		c := claim("c", asks)
		if got := found(c, "fast", index(huge)); called(got) != "huge" {
			t.Errorf("%s: %q", asks, called(got))
		}
	}
	if got := found(claim("c", "11E"), "fast", index(huge)); len(got) != 0 {
		t.Errorf("%q", called(got))
	}
}
