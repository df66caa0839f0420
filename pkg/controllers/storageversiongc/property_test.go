package storageversiongc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// draw is any snapshot that Observe and Prove may return.
func draw(t *rapid.T) snapshot {
	var entries []string
	s := snapshot{Live: map[string]bool{}}
	for i := range rapid.IntRange(0, 4).Draw(t, "entries") {
		id := fmt.Sprint("server-", i)
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			id = "Server/" + id
		}
		entries = append(entries, fmt.Sprintf("%s=v%d", id, rapid.IntRange(1, 2).Draw(t, "version")))
		if rapid.Bool().Draw(t, "cached") {
			continue
		}
		s.Missing = append(s.Missing, id)
		if mayExist(id) && rapid.Bool().Draw(t, "read") {
			s.Live[id] = rapid.Bool().Draw(t, "there")
		}
	}
	s.StorageVersion = newVersion(strings.Join(entries, " "),
		rapid.SampledFrom([]edit{agreed("v1"), agreed(""), func(*storageVersion) {}}).Draw(t, "condition"))
	return s
}

// SVG-1, SVG-2, SVG-20: nothing is dropped but entries of API servers that a live read has not found, or that can have no Lease, and all
// of these are. A StorageVersion is deleted only if nothing is left of it.
func TestNoValidEntryGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		p := planEntries(epoch, s)
		var left []string
		unread := false
		for _, e := range s.StorageVersion.Status.StorageVersions {
			there, read := s.Live[e.APIServerID]
			cached, able := !slices.Contains(s.Missing, e.APIServerID), mayExist(e.APIServerID)
			unread = unread || !cached && able && !read
			if cached || able && (!read || there) {
				left = append(left, e.APIServerID+"="+e.EncodingVersion)
			}
		}
		switch got := written(t, p); {
		case unread || len(left) == len(s.StorageVersion.Status.StorageVersions):
			if got != "" {
				t.Errorf("%s: %s", p.Why, got)
			}
		case len(left) == 0:
			if got != "deleted" {
				t.Errorf("%s: %s", p.Why, got)
			}
		case !strings.HasPrefix(got, strings.Join(left, " ")+" "):
			t.Errorf("%s: %s, want %s", p.Why, got, left)
		}
	})
}

// SVG-3: the version in common is that of all entries, or none, and the condition says which.
func TestWhatTheyHaveInCommon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := draw(t).StorageVersion
		agree(epoch, v)
		of := map[string]bool{}
		for _, e := range v.Status.StorageVersions {
			of[e.EncodingVersion] = true
		}
		common, equal := v.Status.CommonEncodingVersion, v.Status.Conditions[len(v.Status.Conditions)-1].Status == "True"
		if one := len(of) == 1; one != (common != nil) || one != equal || one && !of[*common] {
			t.Errorf("%s", says(v))
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		plantest.Same(t, planEntries(epoch, s), planEntries(epoch, plantest.Restored(t, s)))
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if rapid.Bool().Draw(t, "anything") {
			plantest.Anything(rapid.Int64().Draw(t, "seed"))(s.StorageVersion)
			s.StorageVersion.ManagedFields, s.StorageVersion.GenerateName = nil, "" // which no cache has
		}
		cached := s
		cached.StorageVersion = plantest.Kept(t, kept, s.StorageVersion)
		plantest.Same(t, planEntries(epoch, s), planEntries(epoch, cached))
		if diff := cmp.Diff(serversOf(s.StorageVersion), serversOf(cached.StorageVersion)); diff != "" {
			t.Error(diff)
		}
	})
}
