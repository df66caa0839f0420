package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster/countproxy"
)

// Annotations of a pod, or of a pod template, that tell kwok how to play the pod; without them it gets ready at once and
// disappears as soon as it is deleted. Setting or removing one on a live pod takes effect at once.
const (
	Pending         = "localcluster.standalone-kcm.io/pending"          // "true": stays Pending
	NeverReady      = "localcluster.standalone-kcm.io/never-ready"      // "true": Running but not ready
	ReadyAfter      = "localcluster.standalone-kcm.io/ready-after"      // such as "5s": Running at once, ready after this time
	Fail            = "localcluster.standalone-kcm.io/fail"             // "true": ends with phase Failed
	TerminateAfter  = "localcluster.standalone-kcm.io/terminate-after"  // such as "5s": stays terminating this long
	NeverTerminates = "localcluster.standalone-kcm.io/never-terminates" // "true": stays terminating
)

// pollInterval is how often a condition is looked at.
const pollInterval = 50 * time.Millisecond

// Eventually waits until check returns nil. The test ends if that takes longer than timeout; check's error then says what
// was missing.
func Eventually(t testing.TB, timeout time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain until %s: %v", timeout, what, err)
		}
		time.Sleep(pollInterval)
	}
}

// Always checks for as long as given that check returns nil. The test ends when it doesn't.
func Always(t testing.TB, duration time.Duration, what string, check func() error) {
	t.Helper()
	start := time.Now()
	for time.Since(start) < duration {
		if err := check(); err != nil {
			t.Fatalf("after %v it is no longer so that %s: %v", time.Since(start).Round(time.Millisecond), what, err)
		}
		time.Sleep(pollInterval)
	}
}

// Before reports whether the API server is of a release of Kubernetes before 1.minor. The tests run on older ones, too, each night.
func (c *Cluster) Before(t testing.TB, minor int) bool {
	t.Helper()
	v, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	served, err := strconv.Atoi(v.Minor)
	if err != nil {
		t.Fatal(err)
	}
	return served < minor
}

// Namespace makes a namespace for the test, which is deleted at its end. The objects in it go when a manager runs that empties
// namespaces. It has the ServiceAccount "default", without which no pod can be created.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	name := c.BareNamespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.Client.CoreV1().ServiceAccounts(name).Create(t.Context(), account, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return name
}

// BareNamespace is [Cluster.Namespace] without the ServiceAccount, which is left to a manager.
func (c *Cluster) BareNamespace(t testing.TB) string {
	t.Helper()
	namespace, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.deleteNamespace(namespace.Name); err != nil {
			t.Errorf("clean up namespace %s: %v", namespace.Name, err)
		}
	})
	return namespace.Name
}

// deleteNamespace deletes a namespace, and the pods on nodes at once: there may be no kubelet that ends them. In a namespace that is
// being deleted nobody can make new ones.
func (c *Cluster) deleteNamespace(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's own context is over
	defer cancel()
	err := c.Client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the test has deleted it
	}
	if err != nil {
		return err
	}
	onNodes := metav1.ListOptions{FieldSelector: "spec.nodeName!="}
	return c.Client.CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, onNodes)
}

// waitForNamespaces waits until no namespaces are left but those that every cluster has: the manager that runs empties the others.
func (c *Cluster) waitForNamespaces() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		list, err := c.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var left []string
		for _, n := range list.Items {
			if n.Name != metav1.NamespaceDefault && !strings.HasPrefix(n.Name, "kube-") {
				left = append(left, fmt.Sprintf("%s, deleted at %v: %+v", n.Name, n.DeletionTimestamp, n.Status.Conditions))
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("there are namespaces that tests did not delete, or the manager has not emptied:\n%s",
				strings.Join(left, "\n"))
		case <-time.After(pollInterval):
		}
	}
}

// CountingProxy starts a proxy that counts what its client asks of the API server, with the credentials of a kubeconfig
// (AdminKubeconfig or ManagerKubeconfig). It returns the proxy and a kubeconfig for the client.
func (c *Cluster) CountingProxy(t testing.TB, kubeconfig string) (*countproxy.Proxy, string) {
	t.Helper()
	proxy, err := countproxy.Start(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Errorf("close the counting proxy: %v", err)
		}
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := proxy.WriteKubeconfig(file); err != nil {
		t.Fatal(err)
	}
	return proxy, file
}
