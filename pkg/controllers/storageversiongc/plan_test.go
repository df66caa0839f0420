package storageversiongc

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type (
	storageVersion = apiserverinternalv1alpha1.StorageVersion
	edit           = func(*storageVersion)
)

// newVersion is a StorageVersion with entries such as "a=v1": the API server a stores v1.
func newVersion(entries string, edits ...edit) *storageVersion {
	v := &storageVersion{ObjectMeta: metav1.ObjectMeta{Name: "apps.deployments", UID: "u", ResourceVersion: "7", Generation: 1}}
	for _, entry := range strings.Fields(entries) {
		id, version, _ := strings.Cut(entry, "=")
		v.Status.StorageVersions = append(v.Status.StorageVersions, apiserverinternalv1alpha1.ServerStorageVersion{
			APIServerID: id, EncodingVersion: version, DecodableVersions: []string{version}, ServedVersions: []string{version}})
	}
	for _, edit := range edits {
		edit(v)
	}
	return v
}

// agreed has the condition that all store one version, since an hour ago; with none, that they do not.
func agreed(version string) edit {
	return func(v *storageVersion) {
		c := apiserverinternalv1alpha1.StorageVersionCondition{Type: "AllEncodingVersionsEqual", Status: "False",
			Reason: "CommonEncodingVersionUnset", Message: "x", LastTransitionTime: metav1.NewTime(epoch.Add(-time.Hour))}
		if version != "" {
			v.Status.CommonEncodingVersion, c.Status, c.Reason = &version, "True", "CommonEncodingVersionSet"
		}
		v.Status.Conditions = append(v.Status.Conditions, c)
	}
}

// says is what the status of a StorageVersion says: the entries, the version that they have in common, and the condition.
func says(v *storageVersion) string {
	var words []string
	for _, e := range v.Status.StorageVersions {
		words = append(words, e.APIServerID+"="+e.EncodingVersion)
	}
	if common := v.Status.CommonEncodingVersion; common != nil {
		words = append(words, "common "+*common)
	}
	for _, c := range v.Status.Conditions {
		words = append(words, string(c.Type), string(c.Status), c.Reason)
	}
	return strings.Join(words, " ")
}

// seen is a snapshot of a StorageVersion in which the Leases of some API servers are missing, and were read live: "a" is there, "-a" is
// not, and those that are not named were not read.
func seen(v *storageVersion, missing, live string) snapshot {
	s := snapshot{StorageVersion: v, Missing: strings.Fields(missing), Live: map[string]bool{}}
	for _, id := range strings.Fields(live) {
		name, gone := strings.CutPrefix(id, "-")
		s.Live[name] = !gone
	}
	return s
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	const equal, unequal = " AllEncodingVersionsEqual True CommonEncodingVersionSet", "AllEncodingVersionsEqual False CommonEncodingVersionUnset"
	for _, c := range []struct {
		name string
		snapshot
		proof string // the Leases that are read live
		want  string // the status; "deleted" for a deletion; nothing for no write
	}{
		{"all API servers have Leases", seen(newVersion("a=v1 b=v1"), "", ""), "", ""},
		{"an API server has just created it", seen(newVersion(""), "", ""), "", ""},
		{"SVG-2 SVG-20 the cache lacks a Lease: it is read", seen(newVersion("a=v1 b=v1"), "a", ""), "a", ""},
		{"SVG-2 the Lease is there", seen(newVersion("a=v1 b=v1"), "a", "a"), "a", ""},
		{"SVG-1 SVG-2 the Lease is gone", seen(newVersion("a=v1 b=v1"), "a", "-a"), "a", "b=v1 common v1" + equal},
		{"SVG-3 the others do not agree", seen(newVersion("a=v1 b=v1 c=v2"), "a", "-a"), "a", "b=v1 c=v2 " + unequal},
		{"SVG-3 the others agree now", seen(newVersion("a=v1 b=v2 c=v2", agreed("")), "a", "-a"), "a", "b=v2 c=v2 common v2" + equal},
		{"SVG-3 they still do", seen(newVersion("a=v1 b=v1", agreed("v1")), "a", "-a"), "a", "b=v1 common v1" + equal},
		{"SVG-3 nothing is left", seen(newVersion("a=v1 b=v1"), "a b", "-a -b"), "a b", "deleted"},
		{"one is gone, and one was not read yet", seen(newVersion("a=v1 b=v1"), "a b", "-a"), "a b", ""},
		{"SVG-20 one is gone, and one is there that the cache lacks", seen(newVersion("a=v1 b=v1"), "a b", "-a b"), "a b",
			"b=v1 common v1" + equal},
		{"no Lease can have such a name", seen(newVersion("a/b=v1 ../c=v1 b=v1"), "a/b ../c", ""), "", "b=v1 common v1" + equal},
		{"it is gone", snapshot{}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planEntries(epoch, c.snapshot)
			var asked []string
			for _, ref := range p.Proof {
				if ref.Namespace != "kube-system" || ref.Kind.Kind != "Lease" {
					t.Errorf("%+v", ref)
				}
				asked = append(asked, ref.Name)
			}
			if p.Why == "" || strings.Join(asked, " ") != c.proof {
				t.Errorf("%q, after %v", p.Why, asked)
			}
			// The end of a Lease that the cache lacks may cause no event.
			if unseen := slices.Contains(slices.Collect(maps.Values(c.Live)), true); (p.Requeue == lookAgain) != unseen {
				t.Errorf("%q, again in %v", p.Why, p.Requeue)
			}
			if got := written(t, p); got != c.want {
				t.Errorf("%s: %s", p.Why, got)
			}
		})
	}
}

// written is what a plan writes: the status, or "deleted". The version is a precondition of both.
func written(t interface{ Errorf(string, ...any) }, p plan.Plan) string {
	if p.Empty() {
		return ""
	}
	switch step := p.Steps[0].(type) {
	case plan.Delete:
		if !step.CheckVersion || len(step.Objects) != 1 || len(p.Steps) != 1 {
			t.Errorf("%+v", p.Steps)
		}
		return "deleted"
	case plan.Change:
		if !step.CheckVersion || step.Subresource != "status" || len(p.Steps) != 1 {
			t.Errorf("%+v", p.Steps)
		}
		return says(step.New.(*storageVersion))
	}
	t.Errorf("%+v", p.Steps)
	return ""
}

// SVG-3: the time of the condition is that of its last change, or of the version that all have in common.
func TestTimeOfTheCondition(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  *storageVersion
		changes bool
	}{
		{"none before", newVersion("b=v1"), true},
		{"the same", newVersion("b=v1", agreed("v1")), false},
		{"another version", newVersion("b=v2", agreed("v1")), true},
		{"they agree now", newVersion("b=v1", agreed("")), true},
		{"they do not agree any more", newVersion("b=v1 c=v2", agreed("v1")), true},
	} {
		agree(epoch, c.before)
		got := c.before.Status.Conditions
		if len(got) != 1 || got[0].LastTransitionTime.Time.Equal(epoch) != c.changes || got[0].ObservedGeneration != 1 ||
			!strings.HasPrefix(got[0].Message, "Common encoding version ") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// Other conditions stay as they are.
func TestOtherConditionsStay(t *testing.T) {
	v := newVersion("b=v1", agreed("v1"))
	more := apiserverinternalv1alpha1.StorageVersionCondition{Type: "More", Status: "True", Reason: "x"}
	v.Status.Conditions = slices.Insert(v.Status.Conditions, 0, more)
	agree(epoch, v)
	if diff := cmp.Diff(more, v.Status.Conditions[0]); diff != "" || len(v.Status.Conditions) != 2 {
		t.Errorf("%+v: %s", v.Status.Conditions, diff)
	}
}
