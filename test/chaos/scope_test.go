package chaos

import (
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// The proxy knows all resources that belong to no namespace: a list of one that it does not know fails, and the garbage collector waits
// half a minute for it in each run.
func TestResourcesWithoutNamespacesAreKnown(t *testing.T) {
	t.Parallel()
	_, all, err := cluster.Start(t).Client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, version := range all {
		for _, r := range version.APIResources {
			if r.Namespaced || strings.Contains(r.Name, "/") {
				continue
			}
			if found++; !proxy.IsClusterScoped(r.Name) {
				t.Errorf("%s of %s belongs to no namespace", r.Name, version.GroupVersion)
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d such resources found", found)
	}
}

// sharedByRuns are the resources without namespaces that all managers of a control plane see and write, and why none spoils the run of
// another.
var sharedByRuns = map[string]string{
	"subjectaccessreviews": "they are questions, and nobody sees those of others",
	"clustertrustbundles":  "one manager at a time runs the controller that writes them",
}

// Runs on one control plane do not carry out the work of one another: a manager that waits for its write to be killed at it would wait in
// vain.
func TestManagersSeeWhatTheyWrite(t *testing.T) {
	t.Parallel()
	looked := 0
	for account, rights := range manager.Rights(controllers.Registry()) {
		for _, rule := range rights.Own {
			resource, _, _ := strings.Cut(rule.Resource, "/")
			reads := strings.Fields("get list watch")
			writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains(reads, verb) })
			if !writes || !proxy.IsClusterScoped(resource) {
				continue
			}
			looked++
			if reason, is := sharedByRuns[resource]; is == proxy.ShowsOnlyItsOwn(resource) || is && reason == "" {
				t.Errorf("%s may write %s, and runs see those of one another: sharedByRuns says %q", account, resource, reason)
			}
		}
	}
	if looked < 10 {
		t.Errorf("only %d rights to write what has no namespace", looked)
	}
}
