package suite

import (
	"fmt"
	"strings"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

type storageVersion = apiserverinternalv1alpha1.StorageVersion

// serverIdentity is the label of the Leases of API servers (SVG-1).
const serverIdentity = "apiserver.kubernetes.io/identity"

func storageVersionGCEntry() Entry {
	return Entry{
		Controller: "storageversion-garbage-collector-controller",
		Operations: map[string]Operation{
			"apiserver": serverLease, // NAME: the Lease of an API server; do=end, strip
			"storedas":  storedAs,    // NAME by=SERVER=VERSION,...: a StorageVersion, as these API servers report it
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			one, two := fmt.Sprintf("server-%s-0", app), fmt.Sprintf("server-%s-1", app)
			g.Add(at, "apiserver %s", one)
			g.Add(at, "apiserver %s", two)
			g.Add(at+g.Early(), "storedas things.%s by=%s=v1,%s=%s", app, one, two, workload.Pick(g, "v1", "v2"))
			g.Add(at+g.Early(), "storedas others.%s by=%s=v1,nobody=v2", app, workload.Pick(g, one, "somebody"))
			g.Add(soon, "apiserver %s do=%s", one, workload.Pick(g, "end", "end", "strip"))
			if g.IntN(3) == 0 {
				g.Add(soon+g.Early(), "apiserver %s do=end", two)
			}
		}}},
		Settled: storageVersionsSettled,
		Scenarios: []Scenario{{Name: "API servers end", Play: func(u *User) {
			u.storedByTwo(3)
			u.endServer("one")
			u.awaitStorageVersions(3, 1)
			u.endServer("two")
			u.awaitStorageVersionsGone(3)
		}}},
		Malformed: map[string]string{
			"storageversions/odd": `{"apiVersion":"internal.apiserver.k8s.io/v1alpha1","kind":"StorageVersion","metadata":${META},"spec":{},
				"status":{"storageVersions":[{"apiServerID":"../x"},{"apiServerID":""},{"apiServerID":""}],"conditions":[{"type":""},{"type":""}]}}`,
		},
		Mutants: storageVersionMutants,
		Budgets: []Budget{{
			// each loses an entry, and then goes with the other one
			Name: "two API servers with 20 StorageVersions end", Floor: floor.Writes{Status: 20, Other: 20},
			Prepare: func(u *User) { u.storedByTwo(20) },
			Do: func(u *User) {
				u.endServer("one")
				u.awaitStorageVersions(20, 1)
				u.endServer("two")
				u.awaitStorageVersionsGone(20)
			},
		}},
	}
}

// newServerLease returns the Lease of an API server that is there for long.
func (u *User) newServerLease(name string) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: u.unique(name), Labels: map[string]string{serverIdentity: "kube-apiserver"}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(u.unique(name)), LeaseDurationSeconds: ptr.To[int32](24 * 60 * 60),
			AcquireTime: &now, RenewTime: &now},
	}
}

// serverLease has an API server come, end, or give its Lease to somebody else.
func serverLease(u *User, l script.Line) error {
	system, name := u.in(metav1.NamespaceSystem), u.unique(l.Arg(0))
	switch do, _ := l.Get("do"); do {
	case "end":
		return remove[*coordinationv1.Lease](system, name)
	case "strip":
		return edit(system, name, func(l *coordinationv1.Lease) { l.Labels = nil })
	}
	return create(system, u.newServerLease(l.Arg(0)))
}

// storedAs has API servers report in which version they store the objects of a resource.
func storedAs(u *User, l script.Line) error {
	by, _ := l.Get("by")
	return u.report(l.Arg(0), strings.Split(by, ",")...)
}

// report has API servers report in which version they store the objects of a resource, each as "SERVER=VERSION".
func (u *User) report(name string, entries ...string) error {
	v := &storageVersion{ObjectMeta: metav1.ObjectMeta{Name: u.unique(name)}}
	u.mark(v)
	if err := ignoreExists(create(u, v)); err != nil {
		return err
	}
	return edit(u, v.Name, func(v *storageVersion) {
		v.Status = apiserverinternalv1alpha1.StorageVersionStatus{}
		for _, entry := range entries {
			server, version, _ := strings.Cut(entry, "=")
			v.Status.StorageVersions = append(v.Status.StorageVersions, apiserverinternalv1alpha1.ServerStorageVersion{
				APIServerID: u.unique(server), EncodingVersion: version, DecodableVersions: []string{version}})
		}
		c := apiserverinternalv1alpha1.StorageVersionCondition{Type: apiserverinternalv1alpha1.AllEncodingVersionsEqual,
			Status: apiserverinternalv1alpha1.ConditionFalse, Reason: "CommonEncodingVersionUnset", Message: "Common encoding version unset",
			LastTransitionTime: metav1.Now()}
		if v.Status.CommonEncodingVersion = commonVersion(v); v.Status.CommonEncodingVersion != nil {
			c.Status, c.Reason, c.Message = apiserverinternalv1alpha1.ConditionTrue, "CommonEncodingVersionSet", "Common encoding version set"
		}
		v.Status.Conditions = []apiserverinternalv1alpha1.StorageVersionCondition{c}
	}, "status")
}

// commonVersion is the version in which all API servers store the objects; nil if there is none.
func commonVersion(v *storageVersion) *string {
	var versions []string
	for _, e := range v.Status.StorageVersions {
		versions = append(versions, e.EncodingVersion)
	}
	if len(versions) == 0 || strings.Count(strings.Join(versions, ",")+",", versions[0]+",") != len(versions) {
		return nil
	}
	return &versions[0]
}

// storedByTwo has two API servers that store the objects of resources in different versions.
func (u *User) storedByTwo(n int) {
	u.Helper()
	system := u.in(metav1.NamespaceSystem)
	for _, name := range []string{"one", "two"} {
		u.Try("create the Lease of an API server", func() error { return ignoreExists(create(system, u.newServerLease(name))) })
	}
	u.Each(n, func(i int) error {
		u.Try("report a version", func() error { return u.report(fmt.Sprint("things-", i, ".example.com"), "one=v1", "two=v2") })
		return nil
	})
	u.awaitStorageVersions(n, 2)
}

func (u *User) endServer(name string) {
	u.Helper()
	Remove[*coordinationv1.Lease](u.in(metav1.NamespaceSystem), u.unique(name))
}

// awaitStorageVersions waits until each has so many entries.
func (u *User) awaitStorageVersions(n, entries int) {
	u.Helper()
	for i := range n {
		Await(u, u.unique(fmt.Sprint("things-", i, ".example.com")), func(v *storageVersion) error {
			return unless(len(v.Status.StorageVersions) == entries && (entries > 1) == (v.Status.CommonEncodingVersion == nil), v.Status)
		})
	}
}

func (u *User) awaitStorageVersionsGone(n int) {
	u.Helper()
	for i := range n {
		AwaitGone[*storageVersion](u, u.unique(fmt.Sprint("things-", i, ".example.com")))
	}
}

// storageVersionsSettled says which entries are left of API servers that are gone (SVG-1, SVG-2), and where it is not said what the others
// have in common (SVG-3).
func storageVersionsSettled(s *View) (wrong []string) {
	for _, v := range subjects[*storageVersion](s) {
		if v.DeletionTimestamp != nil {
			continue
		}
		for _, e := range v.Status.StorageVersions {
			if l := one[*coordinationv1.Lease](s, metav1.NamespaceSystem, e.APIServerID); l == nil || l.Labels[serverIdentity] != "kube-apiserver" {
				wrong = append(wrong, fmt.Sprintf("%s has an entry of %s, which is gone", v.Name, e.APIServerID))
			}
		}
		common := ptr.Deref(commonVersion(v), "none")
		for _, c := range v.Status.Conditions {
			if got := ptr.Deref(v.Status.CommonEncodingVersion, "none"); got != common ||
				(c.Status == apiserverinternalv1alpha1.ConditionTrue) != (common != "none") {
				wrong = append(wrong, fmt.Sprintf("%s is stored as %s by all API servers, and says %s, %s", v.Name, common, got, c.Status))
			}
		}
	}
	return wrong
}

const (
	storageVersionFolder = "pkg/controllers/storageversiongc/"
	storedByTwo          = withoutElection + `
			at 5s   apiserver a
			at 5s   apiserver b`
	reportedByTwo = storedByTwo + "\n\t\t\tat 10s  storedas things by=a=v1,b=v2"
)

var storageVersionMutants = []Mutant{
	{
		Name: "an entry goes on the word of a cache that lags",
		Edits: []Edit{{storageVersionFolder + "plan.go", "there, read = s.Live[id]", "there, read = s.Live[id], true"},
			{storageVersionFolder + "plan.go", "append(p.Proof, leaseOf(id))", "append(p.Proof, leaseOf(id))[:0]"}},
		Script: withoutElection + `
			at 3s   fault m0 freeze leases for=90s
			at 5s   apiserver a
			at 40s  storedas things by=a=v1`,
		Oracle: "S39",
	},
	{
		Name: "all entries go with one",
		Edits: []Edit{{storageVersionFolder + "plan.go", "return slices.Contains(gone, e.APIServerID)",
			`return slices.Contains(gone, e.APIServerID) || e.APIServerID != ""`}},
		Script: reportedByTwo + "\n\t\t\tat 40s  apiserver a do=end",
		Oracle: "S39",
	},
	{
		Name:   "the end of an API server is not noticed",
		Edits:  []Edit{{storageVersionFolder + "observe.go", "after != nil && ofServer(after)", "after == nil || ofServer(after)"}},
		Script: reportedByTwo + "\n\t\t\tat 40s  apiserver a do=end",
		Oracle: SettledOracle,
	},
	{
		Name:   "any Lease is that of an API server",
		Edits:  []Edit{{storageVersionFolder + "plan.go", "return lease.GetLabels()[identityLabel] == identity", `return lease.GetName() != ""`}},
		Script: reportedByTwo + "\n\t\t\tat 40s  apiserver a do=strip",
		Oracle: SettledOracle,
	},
	{
		Name:   "what the others have in common is not said",
		Edits:  []Edit{{storageVersionFolder + "plan.go", "\tagree(now, after)\n", "\tagree(now, v.DeepCopy())\n"}},
		Script: reportedByTwo + "\n\t\t\tat 40s  apiserver a do=end",
		Oracle: SettledOracle,
	},
}
