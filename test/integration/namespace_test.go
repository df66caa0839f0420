package integration

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// tenant is a namespace that a test deletes.
type tenant struct {
	*testing.T
	*cluster.Cluster
	name string
}

func newTenant(t *testing.T, c *cluster.Cluster) *tenant {
	t.Helper()
	made, err := c.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &tenant{t, c, made.Name}
}

// configMap makes a ConfigMap with these finalizers.
func (n *tenant) configMap(name string, finalizers ...string) {
	n.Helper()
	_, err := n.Client.CoreV1().ConfigMaps(n.name).Create(n.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
}

// pod makes a pod that no node runs, with these finalizers, and the ServiceAccount that it needs.
func (n *tenant) pod(name string, finalizers ...string) {
	n.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := n.Client.CoreV1().ServiceAccounts(n.name).Create(n.Context(), account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		n.Fatal(err)
	}
	_, err = n.Client.CoreV1().Pods(n.name).Create(n.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
			NodeSelector: map[string]string{"no": "node"}},
	}, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
}

func (n *tenant) delete() {
	n.Helper()
	if err := n.Client.CoreV1().Namespaces().Delete(n.Context(), n.name, metav1.DeleteOptions{}); err != nil {
		n.Fatal(err)
	}
}

func (n *tenant) get() (*corev1.Namespace, error) {
	return n.Client.CoreV1().Namespaces().Get(n.Context(), n.name, metav1.GetOptions{})
}

func (n *tenant) waitGone() {
	n.Helper()
	cluster.Eventually(n.T, patience, "the namespace is gone", func() error {
		ns, err := n.get()
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it exists: %+v, %w", ns.Status.Conditions, err)
	})
}

// waitSays waits until a condition is true with this text in its message.
func (n *tenant) waitSays(t corev1.NamespaceConditionType, text string) {
	n.Helper()
	cluster.Eventually(n.T, patience, fmt.Sprintf("%s: %s", t, text), func() error {
		ns, err := n.get()
		if err != nil {
			return err
		}
		for _, c := range ns.Status.Conditions {
			if c.Type == t && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", ns.Status.Conditions)
	})
}

// release takes the finalizers off an object.
func (n *tenant) release(resource, name string) {
	n.Helper()
	n.Kubectl(n.T, "-n", n.name, "patch", resource, name, "--type=merge", `-p={"metadata":{"finalizers":null}}`)
}

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

func TestNamespaces(t *testing.T) {
	c := share(t).Cluster
	t.Run("NS-28, NS-36 an empty one is released", func(t *testing.T) {
		t.Parallel() // each waits until nothing can come into its namespace any more
		n := newTenant(t, c)
		n.delete()
		n.waitGone()
	})
	t.Run("NS-16, NS-21 objects of all kinds are deleted, custom ones too", func(t *testing.T) {
		t.Parallel() // each waits until nothing can come into its namespace any more
		n := newTenant(t, c)
		n.configMap("a")
		n.pod("web")
		n.Apply(t, n.name, "apiVersion: shop.example.com/v1\nkind: Gadget\nmetadata: {name: one}")
		n.delete()
		n.waitGone()
	})
	t.Run("NS-34, NS-35 objects with finalizers hold it, and are named", func(t *testing.T) {
		t.Parallel() // each waits until nothing can come into its namespace any more
		n := newTenant(t, c)
		n.configMap("held", "example.com/hold")
		n.Apply(t, n.name, "apiVersion: shop.example.com/v1\nkind: Gadget\nmetadata: {name: one, finalizers: [example.com/hold]}")
		n.delete()
		n.waitSays(corev1.NamespaceContentRemaining,
			"Some resources are remaining: configmaps. has 1 resource instances, gadgets.shop.example.com has 1 resource instances")
		n.waitSays(corev1.NamespaceFinalizersRemaining,
			"Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances")
		n.release("configmaps", "held")
		n.waitSays(corev1.NamespaceContentRemaining, "Some resources are remaining: gadgets.shop.example.com has 1 resource instances")
		n.release("gadgets.shop.example.com", "one")
		n.waitGone()
	})
	t.Run("NS-18, NS-47 while a pod exists, nothing else is touched", func(t *testing.T) {
		t.Parallel() // each waits until nothing can come into its namespace any more
		n := newTenant(t, c)
		n.configMap("a")
		n.pod("web", "example.com/hold")
		n.delete()
		n.waitSays(corev1.NamespaceContentRemaining, "pods. has 1 resource instances")
		if live, err := c.Client.CoreV1().ConfigMaps(n.name).Get(t.Context(), "a", metav1.GetOptions{}); err != nil ||
			live.DeletionTimestamp != nil {
			t.Errorf("the ConfigMap was touched: %+v, %v", live, err)
		}
		n.release("pods", "web")
		n.waitGone()
	})
	t.Run("NS-12, NS-36 others may hold an empty one", func(t *testing.T) {
		t.Parallel() // each waits until nothing can come into its namespace any more
		n := newTenant(t, c)
		if _, err := c.Client.CoreV1().Namespaces().Patch(t.Context(), n.name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":["example.com/hold"]}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		n.delete()
		cluster.Eventually(t, patience, "it is released, and says that it is empty", func() error {
			ns, err := n.get()
			if err != nil {
				return err
			}
			if len(ns.Spec.Finalizers) > 0 || len(ns.Status.Conditions) != 5 {
				return fmt.Errorf("%+v %+v", ns.Spec, ns.Status)
			}
			return nil
		})
		n.Kubectl(t, "patch", "namespace", n.name, "--type=merge", `-p={"metadata":{"finalizers":null}}`)
		n.waitGone()
	})
}

// TestAnAggregatedAPIThatIsDown runs alone: while there is one, no namespace of another test could go.
func TestAnAggregatedAPIThatIsDown(t *testing.T) {
	c := cluster.Start(t)
	c.Manager(t, "--controllers=namespace,garbagecollector")
	n, f := newTenant(t, c), newFamily(t, c)
	n.configMap("a")
	c.Apply(t, "default", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.down.example.com}\n"+
		"spec: {group: down.example.com, version: v1, groupPriorityMinimum: 10, versionPriority: 10, insecureSkipTLSVerify: true, "+
		"service: {name: nobody, namespace: default}}")
	up := sync.OnceFunc(func() { c.Kubectl(t, "delete", "apiservice", "v1.down.example.com") })
	defer up()
	cluster.Eventually(t, patience, "discovery fails", func() error {
		_, err := c.Client.Discovery().ServerPreferredResources()
		if failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err); len(failed) != 1 {
			return fmt.Errorf("%d groups fail: %w", len(failed), err)
		}
		return nil
	})
	t.Run("GC-34 an object whose owner is of its kinds stays", func(t *testing.T) {
		f.Apply(t, f.ns,
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, ownerReferences: [{apiVersion: down.example.com/v1, kind: Silent, "+
				"name: nobody, uid: 00000000-0000-0000-0000-000000000005}]}")
		f.make("late", f.make("last"))
		f.delete("last", metav1.DeletePropagationBackground)
		f.waitFor("held")
		cluster.Always(t, 2*time.Second, "it stays", func() error {
			if f.get("held") == nil {
				return errors.New("it is gone")
			}
			return nil
		})
	})
	t.Run("NS-14, NS-31, NS-43 it holds a namespace, in which nothing is left", func(t *testing.T) {
		n.delete()
		n.waitSays(corev1.NamespaceDeletionDiscoveryFailure, "Discovery failed for some groups, 1 failing: ")
		cluster.Eventually(t, patience, "the ConfigMap is gone", func() error {
			if _, err := c.Client.CoreV1().ConfigMaps(n.name).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is not: %w", err)
			}
			return nil
		})
		up()
		n.waitGone()
	})
}
