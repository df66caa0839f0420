package selinuxwarning

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
)

// allocated returns how many bytes are allocated meanwhile, whether or not they are kept.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// However long labels are and however often a pod mounts a volume, not much is worked out, and little of it is kept.
func TestCostsOfLabels(t *testing.T) { // ST-61
	p := newPod("a", claiming("disk"), labelled(strings.Repeat("s", 100_000)))
	for range 2000 {
		mounting(0, "data")(p)
	}
	k := cachesWith(t, append(storage(), p, newPod("b", claiming("disk")))...)
	if n := allocated(func() {
		if uses := k.usesOf(disk); len(uses) != 2 || len(uses[0].Label) > 256 {
			t.Errorf("%d uses, a label of %d bytes", len(uses), len(uses[0].Label))
		}
	}); n > 2<<20 {
		t.Errorf("%d bytes are allocated", n)
	}
}

// Labels that are too long are told by their beginnings, and are different as before.
func TestLongLabels(t *testing.T) { // ST-61, ST-63
	long := strings.Repeat("ä", 300)
	of := func(level string) string { return labelOf(options("u", "r", "t", level)) }
	if one, other := of(long+"1"), of(long+"2"); one == other || one != of(long+"1") || len(one) > 256 || !utf8.ValidString(one) ||
		!strings.HasPrefix(one, "u:r:t:äää") || !differ(propertyLabel, one, other) {
		t.Errorf("%q, %q", one, other)
	}
	if short := of(strings.Repeat("s", 250)); short != "u:r:t:"+strings.Repeat("s", 250) {
		t.Errorf("a label of 256 bytes is %q", short)
	}
	if odd := of("s\xff0"); odd != "u:r:t:s\uFFFD0" {
		t.Errorf("%q", odd)
	}
}

// Pods of which one half is in conflict with nobody, and each of the other half with all others of it.
func TestCostsOfConflicts(t *testing.T) { // ST-63
	var uses []use
	for i := range 5000 {
		uses = append(uses, use{Pod: newPod(fmt.Sprint("a", i)), Label: labelOf(options("", "", "", "s0"))},
			use{Pod: newPod(fmt.Sprint("b", i)), Label: labelOf(options("", fmt.Sprint("r", i), "", "s0"))})
	}
	took := costs.CPU(func() {
		if n := len(conflictsOf(snapshot{Uses: uses, Mountable: true})); n != 5000*mostConflicts {
			t.Errorf("%d conflicts", n)
		}
	})
	if costs.Exceeds(took, time.Second) {
		t.Errorf("took %v", took)
	}
}

// manyVolumes is a pod with so many volumes that others may have, too, and each is a key.
func manyVolumes(n int, source func(i int) corev1.VolumeSource) *corev1.Pod {
	p := newPod("many")
	for i := range n {
		with(fmt.Sprint("v", i), source(i))(p)
	}
	return p
}

func fibre(i int) corev1.VolumeSource {
	return corev1.VolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{fmt.Sprint("w", i)}}}
}

func block(i int) corev1.VolumeSource {
	return corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprint("vol-", i)}}
}

// A pod with very many volumes costs about as much for each of them as one with few, or is not looked at.
func TestCostsOfVolumes(t *testing.T) { // ST-60
	for name, source := range map[string]func(int) corev1.VolumeSource{"fibre": fibre, "block": block} {
		for _, n := range []int{mostVolumes, mostVolumes + 1, 4000} {
			p := manyVolumes(n, source)
			k := cachesWith(t, p)
			keys, uses := 0, 0
			took := costs.CPU(func() {
				all := k.enqueuedByPod(nil, p)
				for _, key := range all {
					o, err := k.observe(t.Context(), request{Key: key})
					if err != nil {
						t.Fatal(err)
					}
					uses += len(o.Snapshot.Uses)
				}
				keys = len(all)
			})
			if want := map[bool]int{true: n}[n <= mostVolumes]; keys != want || uses != want || costs.Exceeds(took, time.Second) {
				t.Errorf("%s, %d volumes: %d keys, %d uses, in %s", name, n, keys, uses, took)
			}
		}
	}
}

// Claims of a pod that is not looked at do not count either.
func TestPodsThatAreNotLookedAt(t *testing.T) { // ST-60
	p := manyVolumes(mostVolumes, fibre)
	claiming("disk")(p)
	k := cachesWith(t, append(storage(), p)...)
	if uses, keys := k.usesOf(disk), k.enqueuedByPod(p, nil); len(uses)+len(keys) > 0 {
		t.Errorf("%d uses, %d keys", len(uses), len(keys))
	}
}
