package storageversiongc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// Whatever the objects are, planning does not panic, nor change them.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		s, lease := draw(t), &coordinationv1.Lease{}
		fill(s.StorageVersion)
		fill(lease)
		s.Missing, s.Live = serversOf(s.StorageVersion), map[string]bool{}
		for _, id := range s.Missing {
			s.Live[id] = ofServer(lease)
		}
		before := s.StorageVersion.DeepCopy()
		p := planEntries(epoch, s)
		if diff := cmp.Diff(before, s.StorageVersion); diff != "" || p.Why == "" {
			t.Errorf("%q, changed: %s", p.Why, diff)
		}
	})
}

// Two entries of one API server, which no server accepts, go together.
func TestTwoEntriesOfOneServer(t *testing.T) {
	p := planEntries(epoch, seen(newVersion("a=v1 a=v2 b=v1"), "a a", "-a"))
	if got := written(t, p); got != "b=v1 common v1 AllEncodingVersionsEqual True CommonEncodingVersionSet" {
		t.Errorf("%s: %s", p.Why, got)
	}
}
