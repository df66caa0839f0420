package cluster

import (
	"context"
	"path/filepath"
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

// Namespace makes a namespace for the test. What the test leaves there of Deployments, ReplicaSets, Services and Pods is
// deleted at its end; the namespace stays, because not every manager has the controller that finishes its deletion. It has the
// ServiceAccount "default", without which no pod can be created.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	name := c.BareNamespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.Client.CoreV1().ServiceAccounts(name).Create(t.Context(), account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
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
	t.Cleanup(func() { c.empty(t, namespace.Name) })
	return namespace.Name
}

// empty deletes a namespace's objects, owners first, so that a manager which still runs does not make new ones.
func (c *Cluster) empty(t testing.TB, namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // t's own context is over
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	all := metav1.ListOptions{}
	services, err := c.Client.CoreV1().Services(namespace).List(ctx, all)
	if err != nil {
		t.Errorf("clean up namespace %s: %v", namespace, err)
		return
	}
	for _, service := range services.Items {
		err := c.Client.CoreV1().Services(namespace).Delete(ctx, service.Name, now)
		if err != nil {
			t.Errorf("clean up namespace %s: %v", namespace, err)
		}
	}
	owned := metav1.DeletePropagationBackground // by default the server keeps their pods, and adds a finalizer that nobody removes here
	if err := c.Client.CoreV1().ReplicationControllers(namespace).DeleteCollection(ctx, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), PropagationPolicy: &owned,
	}, all); err != nil {
		t.Errorf("clean up namespace %s: %v", namespace, err)
	}
	for _, deleteAll := range []func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
		c.Client.AutoscalingV2().HorizontalPodAutoscalers(namespace).DeleteCollection,
		c.Client.CoreV1().ResourceQuotas(namespace).DeleteCollection,
		c.Client.AppsV1().Deployments(namespace).DeleteCollection,
		c.Client.AppsV1().ReplicaSets(namespace).DeleteCollection,
		c.Client.CoreV1().Pods(namespace).DeleteCollection,
	} {
		if err := deleteAll(ctx, now, all); err != nil {
			t.Errorf("clean up namespace %s: %v", namespace, err)
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
