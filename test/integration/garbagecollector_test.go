package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

const onlyGarbageCollector = "--controllers=garbagecollector"

// family is a namespace with ConfigMaps that own one another.
type family struct {
	*testing.T
	*cluster.Cluster
	ns string
}

func newFamily(t *testing.T, c *cluster.Cluster) *family { return &family{t, c, c.Namespace(t)} }

func (f *family) make(name string, owners ...*corev1.ConfigMap) *corev1.ConfigMap {
	f.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, owner := range owners {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: ptr.To(true)})
	}
	made, err := f.Client.CoreV1().ConfigMaps(f.ns).Create(f.Context(), o, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return made
}

func (f *family) get(name string) *corev1.ConfigMap {
	f.Helper()
	o, err := f.Client.CoreV1().ConfigMaps(f.ns).Get(f.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		f.Fatal(err)
	}
	return o
}

func (f *family) patch(name, patch string) {
	f.Helper()
	if _, err := f.Client.CoreV1().ConfigMaps(f.ns).Patch(f.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		f.Fatal(err)
	}
}

func (f *family) delete(name string, policy metav1.DeletionPropagation) {
	f.Helper()
	if err := f.Client.CoreV1().ConfigMaps(f.ns).Delete(f.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		f.Fatal(err)
	}
}

// waitFor waits until these objects are there, and no others.
func (f *family) waitFor(names ...string) {
	f.Helper()
	cluster.Eventually(f.T, patience, fmt.Sprintf("left are %v", names), func() error {
		list, err := f.Client.CoreV1().ConfigMaps(f.ns).List(f.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var there []string
		for _, o := range list.Items {
			if o.Name != "kube-root-ca.crt" {
				there = append(there, o.Name)
			}
		}
		if !slices.Equal(there, names) {
			return fmt.Errorf("there are %v", there)
		}
		return nil
	})
}

const hold = `{"metadata":{"finalizers":["example.com/hold"]}}`

func TestGarbageCollector(t *testing.T) {
	c := share(t).Cluster
	port := shared.port
	rest := newFamily(t, c)
	rest.make("b", rest.make("a"))
	before := rest.get("b")

	t.Run("GC-61 dependents go in the background, one with another owner stays", func(t *testing.T) {
		f := newFamily(t, c)
		a, b := f.make("a"), f.make("b")
		f.make("child", f.make("only", a))
		f.make("shared", a, b)
		f.delete("a", metav1.DeletePropagationBackground)
		f.waitFor("b", "shared")
		cluster.Eventually(t, patience, "GC-36: the reference to what is gone is removed", func() error {
			if o := f.get("shared"); len(o.OwnerReferences) != 1 || o.OwnerReferences[0].UID != b.UID {
				return fmt.Errorf("owners are %+v", o.OwnerReferences)
			}
			return nil
		})
	})
	t.Run("GC-44, GC-46 an owner in the foreground goes after its dependents", func(t *testing.T) {
		f := newFamily(t, c)
		f.make("child", f.make("dependent", f.make("owner")))
		f.patch("child", hold)
		f.delete("owner", metav1.DeletePropagationForeground)
		cluster.Eventually(t, patience, "all are being deleted", func() error {
			for _, name := range []string{"owner", "dependent", "child"} {
				if o := f.get(name); o == nil || o.DeletionTimestamp == nil {
					return fmt.Errorf("%s: %+v", name, o)
				}
			}
			return nil
		})
		f.patch("child", `{"metadata":{"finalizers":null}}`)
		f.waitFor()
	})
	t.Run("GC-47, GC-48 orphans stay", func(t *testing.T) {
		f := newFamily(t, c)
		owner := f.make("owner")
		f.make("a", owner)
		f.make("b", owner)
		f.delete("owner", metav1.DeletePropagationOrphan)
		f.waitFor("a", "b")
		if a, b := f.get("a"), f.get("b"); len(a.OwnerReferences)+len(b.OwnerReferences) != 0 {
			t.Errorf("owners are %+v and %+v", a.OwnerReferences, b.OwnerReferences)
		}
	})
	t.Run("GC-37, GC-61 a circle in the foreground goes", func(t *testing.T) {
		f := newFamily(t, c)
		a := f.make("a")
		b := f.make("b", a)
		f.patch("a", fmt.Sprintf(
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":%q,"blockOwnerDeletion":true}]}}`,
			b.UID))
		f.delete("a", metav1.DeletePropagationForeground)
		f.waitFor()
	})
	t.Run("GC-30, GC-54 an owner that never existed, or has another uid, is none", func(t *testing.T) {
		f := newFamily(t, c)
		other := f.make("other")
		f.make("a", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "nobody", UID: "00000000-0000-0000-0000-000000000001"}})
		f.make("b", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "00000000-0000-0000-0000-000000000002"}})
		f.make("c", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "wrong-name", UID: other.UID}})
		f.waitFor("other")
	})
	t.Run("GC-52, GC-53 a reference to another namespace is none, and the dependent is told", func(t *testing.T) {
		f, g := newFamily(t, c), newFamily(t, c)
		owner := f.make("owner")
		cluster.Eventually(t, patience, "the collector knows the owner", func() error { return graphHas(t, port, owner.UID) })
		g.make("dependent", owner)
		g.waitFor()
		f.waitFor("owner")
		cluster.Eventually(t, patience, "there is an event", func() error {
			list, err := c.Client.CoreV1().Events(g.ns).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			want := fmt.Sprintf("ownerRef [v1/ConfigMap, namespace: %s, name: owner, uid: %s] does not exist in namespace %q", g.ns,
				owner.UID, g.ns)
			for _, e := range list.Items {
				if e.Reason == "OwnerRefInvalidNamespace" && e.Message == want && e.InvolvedObject.Name == "dependent" &&
					e.Source.Component == "garbage-collector-controller" {
					return nil
				}
			}
			return fmt.Errorf("events are %+v", list.Items)
		})
	})
	t.Run("GC-35 a cluster-scoped object with a namespaced owner stays; GC-34 as does one whose owner is of an unknown kind",
		func(t *testing.T) {
			f := newFamily(t, c)
			f.Apply(t, f.ns, "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nvalue: 1\nmetadata: {name: gc-"+f.ns+
				", ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: nobody, uid: 00000000-0000-0000-0000-000000000003}]}")
			defer c.Kubectl(t, "delete", "priorityclass", "gc-"+f.ns)
			f.Apply(t, f.ns,
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: strange, ownerReferences: [{apiVersion: none.example.com/v1, kind: "+
					"None, name: nobody, uid: 00000000-0000-0000-0000-000000000004}]}")
			f.make("late", f.make("last"))
			f.delete("last", metav1.DeletePropagationBackground)
			f.waitFor("strange")
			cluster.Always(t, 2*time.Second, "they stay", func() error {
				if f.get("strange") == nil {
					return errors.New("the ConfigMap is gone")
				}
				_, err := c.TryKubectl(t, "get", "priorityclass", "gc-"+f.ns)
				return err
			})
		})
	t.Run("GC-61 custom resources are owners and dependents", func(t *testing.T) {
		f := newFamily(t, c)
		f.Apply(t, f.ns, "apiVersion: shop.example.com/v1\nkind: Gadget\nmetadata: {name: owner}")
		uid := strings.TrimSpace(c.Kubectl(t, "-n", f.ns, "get", "gadgets.shop.example.com", "owner", "-o=jsonpath={.metadata.uid}"))
		owners := fmt.Sprintf("ownerReferences: [{apiVersion: shop.example.com/v1, kind: Gadget, name: owner, uid: %s}]", uid)
		f.Apply(t, f.ns, "apiVersion: shop.example.com/v1\nkind: Gadget\nmetadata: {name: dependent, "+owners+"}")
		f.Apply(t, f.ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dependent, "+owners+"}")
		c.Kubectl(t, "-n", f.ns, "delete", "gadgets.shop.example.com", "owner", "--cascade=orphan", "--wait=false")
		cluster.Eventually(t, patience, "the dependents are orphaned", func() error {
			left := c.Kubectl(t, "-n", f.ns, "get", "gadgets.shop.example.com,configmaps", "-o=jsonpath={.items[*].metadata.ownerReferences}")
			if strings.TrimSpace(left) != "" || strings.Contains(c.Kubectl(t, "-n", f.ns, "get", "gadgets.shop.example.com", "-o=name"), "owner") {
				return fmt.Errorf("owners: %s", left)
			}
			return nil
		})
		f.waitFor("dependent")
	})
	t.Run("GC-61 a CronJob takes its Jobs and their pods with it", func(t *testing.T) {
		f := newFamily(t, c)
		job := "suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}"
		f.Apply(t, f.ns,
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {schedule: '0 0 * * *', suspend: true, jobTemplate: "+
				"{spec: {"+job+"}}}")
		owner := func(kind, name string) string {
			uid := strings.TrimSpace(c.Kubectl(t, "-n", f.ns, "get", kind, name, "-o=jsonpath={.metadata.uid}"))
			return fmt.Sprintf(
				"ownerReferences: [{apiVersion: batch/v1, kind: %s, name: %s, uid: %s, controller: true, blockOwnerDeletion: true}]", kind,
				name, uid)
		}
		// Another controller than that of Jobs is responsible for the Job: it would give the pod away.
		f.Apply(t, f.ns,
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: tonight, "+owner("CronJob", "nightly")+
				"}\nspec: {managedBy: example.com/nobody, "+job+"}")
		f.Apply(t, f.ns,
			"apiVersion: v1\nkind: Pod\nmetadata: {name: tonight-1, "+owner("Job", "tonight")+
				"}\nspec: {schedulerName: nobody, containers: [{name: a, image: a}]}")
		c.Kubectl(t, "-n", f.ns, "delete", "cronjob", "nightly")
		cluster.Eventually(t, patience, "all are gone", func() error {
			if left := c.Kubectl(t, "-n", f.ns, "get", "cronjobs,jobs,pods", "-o=name"); strings.TrimSpace(left) != "" {
				return errors.New(left)
			}
			return nil
		})
	})
	t.Run("GC-57 the graph is served", func(t *testing.T) {
		a := rest.get("a")
		if err := graphHas(t, port, a.UID); err != nil {
			t.Error(err)
		}
	})
	if after := rest.get("b"); after.ResourceVersion != before.ResourceVersion {
		t.Error("an object at rest was written")
	}
}

// GC-15: when a manager starts, a custom resource whose conversion webhook is dead does not delay what goes in the background.
func TestGarbageCollectorBesideABrokenResource(t *testing.T) {
	c := cluster.Start(t)
	b := newMetadataBench(t, c)
	b.define(broken, "v1", "v2")
	b.make(schema.GroupVersionResource{Group: broken.Group, Version: "v1", Resource: broken.Resource}, "old")
	b.breakConversion()
	f := newFamily(t, c)
	f.make("child", f.make("owner"))
	c.Manager(t, onlyGarbageCollector)
	f.delete("owner", metav1.DeletePropagationBackground)
	f.waitFor()
}

// thing makes a custom object without a namespace, and a ConfigMap that it owns.
func (f *family) thing(b *metadataBench, name string) (uid types.UID) {
	f.Helper()
	b.make(healthy, name)
	made, err := b.dynamic.Resource(healthy).Get(f.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-" + name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: made.GetAPIVersion(), Kind: made.GetKind(), Name: name, UID: made.GetUID()}}}}
	if _, err := f.Client.CoreV1().ConfigMaps(f.ns).Create(f.Context(), o, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	return made.GetUID()
}

// graphHas asks the collector for its graph, and whether the object is in it (GC-57).
func graphHas(t *testing.T, port int, uid types.UID) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	path := fmt.Sprintf("https://127.0.0.1:%d/debug/controllers/garbage-collector-controller/graph?uid=%s", port, uid)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // its certificate is its own
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if kind := response.Header.Get("Content-Type"); kind != "text/vnd.graphviz" ||
		!strings.HasPrefix(string(text), "strict digraph full {") ||
		!strings.Contains(string(text), fmt.Sprintf(`uid=%s\nnamespace=`, uid)) {
		return fmt.Errorf("%s %s: %s", response.Status, kind, text)
	}
	return nil
}
