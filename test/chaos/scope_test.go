package chaos

import (
	"strings"
	"testing"

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
