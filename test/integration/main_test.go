// Package integration runs the real binary, as a process, on a real control plane.
package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // unless it is given: they mostly wait
	os.Exit(cluster.Main(m, cluster.InstalledRoles))
}

const (
	onlyWorkloads = "--controllers=deployment,replicaset"
	patience      = 60 * time.Second
)

// bench is a namespace with a manager that works on it.
type bench struct {
	*testing.T
	*cluster.Cluster
	ns string
}

// alone has the test run alone. It starts its managers itself.
func alone(t *testing.T) *bench {
	t.Helper()
	c := cluster.Start(t)
	return &bench{t, c, c.Namespace(t)}
}

// user does what users and nodes do in the namespace.
func (b *bench) user() *suite.User {
	wait := func(what string, timeout time.Duration, check func() error) {
		b.Helper()
		cluster.Eventually(b.T, timeout, what, check)
	}
	return &suite.User{TB: b.T, Client: b.Client, Namespace: b.ns, Backdate: b.Backdate, Wait: wait}
}

type edit func(*appsv1.Deployment)

func strategy(surge, unavailable int) edit {
	return func(d *appsv1.Deployment) {
		s, u := intstr.FromInt(surge), intstr.FromInt(unavailable)
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
		}
	}
}

func annotated(key, value string) edit {
	return func(d *appsv1.Deployment) {
		if d.Spec.Template.Annotations == nil {
			d.Spec.Template.Annotations = map[string]string{}
		}
		d.Spec.Template.Annotations[key] = value
	}
}

func deployment(name string, replicas int32, edits ...edit) *appsv1.Deployment {
	d := suite.Deployment(name, replicas)
	for _, e := range edits {
		e(d)
	}
	return d
}

func (b *bench) create(d *appsv1.Deployment) *appsv1.Deployment {
	b.Helper()
	made, err := b.Client.AppsV1().Deployments(b.ns).Create(b.Context(), d, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return made
}

// patch merges a JSON document into a Deployment.
func (b *bench) patch(name, document string) {
	b.Helper()
	_, err := b.Client.AppsV1().Deployments(b.ns).Patch(b.Context(), name, types.StrategicMergePatchType, []byte(document),
		metav1.PatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) setImage(name, image string) {
	b.Helper()
	b.patch(name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, image))
}

func (b *bench) get(name string) *appsv1.Deployment {
	b.Helper()
	d, err := b.Client.AppsV1().Deployments(b.ns).Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// sets are the ReplicaSets of the namespace, oldest first.
func (b *bench) sets() []appsv1.ReplicaSet {
	b.Helper()
	list, err := b.Client.AppsV1().ReplicaSets(b.ns).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	slices.SortFunc(list.Items, func(x, y appsv1.ReplicaSet) int {
		return strings.Compare(fmt.Sprintf("%012s", x.Annotations["deployment.kubernetes.io/revision"]),
			fmt.Sprintf("%012s", y.Annotations["deployment.kubernetes.io/revision"]))
	})
	return list.Items
}

// pods are the pods of the namespace that are neither finished nor being deleted.
func (b *bench) pods() (active []corev1.Pod) {
	b.Helper()
	list, err := b.Client.CoreV1().Pods(b.ns).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			active = append(active, p)
		}
	}
	return active
}

func condition(d *appsv1.Deployment, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == t {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

func (b *bench) waitComplete(names ...string) {
	b.Helper()
	for _, name := range names {
		b.wait(name+" is rolled out", func() error { return suite.Complete(b.get(name)) })
	}
}

func (b *bench) wait(what string, check func() error) {
	b.Helper()
	cluster.Eventually(b.T, patience, what, check)
}

func (b *bench) waitCondition(name string, t appsv1.DeploymentConditionType, status corev1.ConditionStatus,
	reason string) *appsv1.DeploymentCondition {
	b.Helper()
	var found *appsv1.DeploymentCondition
	b.wait(fmt.Sprintf("%s has %s=%s, %s", name, t, status, reason), func() error {
		d := b.get(name)
		found = condition(d, t)
		if found == nil || found.Status != status || found.Reason != reason {
			return fmt.Errorf("conditions are %+v", d.Status.Conditions)
		}
		return nil
	})
	return found
}

// events returns "Reason: message" of the events about objects of a name, oldest first.
func events(ctx context.Context, t *testing.T, client kubernetes.Interface, ns, name string) (all []string) {
	t.Helper()
	list, err := client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range list.Items {
		all = append(all, e.Reason+": "+e.Message)
	}
	return all
}
