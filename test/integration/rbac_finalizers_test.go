package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// TestWithoutTheRightOnFinalizers: the two rights that no request shows are needed all the same, where the admission plugin
// OwnerReferencesPermissionEnforcement is on (RB-1c, RB-2c).
func TestWithoutTheRightOnFinalizers(t *testing.T) {
	c := cluster.Start(t)
	if c.CertKubeconfig == "" {
		t.Skip("another manager than ours has its own roles")
	}
	b := &bench{t, c, c.Namespace(t)}
	c.Manager(t, onlyWorkloads)
	b.create(deployment("web", 1))
	b.waitComplete("web")
	for _, row := range []struct{ account, resource, about string }{
		{"deployment-controller", "deployments/finalizers", "a"},
		{"replicaset-controller", "replicasets/finalizers", "b"},
	} {
		without := b.without(cluster.InstalledAccount+":"+row.account, row.resource)
		b.create(deployment(row.about, 1))
		b.wait("the refusal is told", func() error {
			all := b.Kubectl(t, "-n", b.ns, "get", "events", "--output=jsonpath={.items[*].message}")
			if !strings.Contains(all, "cannot set blockOwnerDeletion") {
				return fmt.Errorf("events: %s", all)
			}
			return nil
		})
		without()
		b.waitComplete(row.about)
		b.Kubectl(t, "-n", b.ns, "delete", "events", "--all")
	}
}

// without takes the rules about a resource from a role, and returns what gives them back.
func (b *bench) without(role, resource string) (restore func()) {
	b.Helper()
	roles := b.Client.RbacV1().ClusterRoles()
	before, err := roles.Get(b.Context(), role, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	after := before.DeepCopy()
	after.Rules = slices.DeleteFunc(after.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) })
	if len(after.Rules) == len(before.Rules) {
		b.Fatalf("%s has no rule about %s", role, resource)
	}
	if after, err = roles.Update(b.Context(), after, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	given := false
	restore = func() {
		if given {
			return
		}
		given = true
		before.ResourceVersion = after.ResourceVersion
		if _, err := roles.Update(context.Background(), before, metav1.UpdateOptions{}); err != nil {
			b.Error(err)
		}
	}
	b.Cleanup(restore)
	return restore
}
