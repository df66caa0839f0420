package simulation

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// client returns a clientset of somebody, one for each name.
func (w *world) client(who string) kubernetes.Interface {
	w.clientsMu.Lock()
	defer w.clientsMu.Unlock()
	if c := w.clients[who]; c != nil {
		return c
	}
	link := apiserver.Network(nil)
	if w.way != nil {
		link = w.way(newLink(w.script.Seed, w.latency()))
	}
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://simulation", QPS: -1, Transport: &apiserver.Client{Server: w.server, Name: who, Network: link},
		ContentConfig:  rest.ContentConfig{ContentType: kuberuntime.ContentTypeProtobuf},
		WarningHandler: rest.NoWarnings{}, WrapTransport: func(t http.RoundTripper) http.RoundTripper { return impatient{t} },
	})
	if err != nil {
		panic(err) // cannot be: the configuration is always the same
	}
	w.clients[who] = c
	return c
}

// impatient users do not repeat what the server refuses for now, as client-go does when the answer says after what time: they are one
// goroutine with the rest of the cluster, which would wait with them.
type impatient struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := i.RoundTripper.RoundTrip(req)
	if err == nil {
		res.Header.Del("Retry-After")
	}
	return res, err
}

// to is the way of a link to the server.
func (w *world) to(link apiserver.Network) apiserver.Network {
	if w.way == nil {
		return link
	}
	return w.way(link)
}

// newUsers returns those who do what scripts say.
func (w *world) newUsers() *suite.User {
	return &suite.User{
		Client: w.client(suite.By), As: w.client, Namespace: metav1.NamespaceDefault, Alone: true,
		Machines: newMachines(w.server, w.cluster, func(do func()) { do() }), Backdate: w.backdate,
	}
}

// backdate is what [suite.User] has.
func (w *world) backdate(resource schema.GroupVersionResource, namespace, name string, ago time.Duration) error {
	return w.server.Backdate(suite.By, resource.Resource, namespace, name, ago)
}

// machines are those of a world.
type machines struct {
	server  *apiserver.Server
	cluster *actors.Cluster
	do      func(func()) // lets the goroutine of the cluster do something
	quota   atomic.Int64 // how many pods there may be; negative for no limit
}

func newMachines(s *apiserver.Server, c *actors.Cluster, do func(func())) *machines {
	m := &machines{server: s, cluster: c, do: do}
	m.quota.Store(-1)
	s.Admit = m.admit
	return m
}

// StopNode implements suite.Machines.
func (m *machines) StopNode(name string) error {
	m.do(func() { m.cluster.StopNode(name) })
	return nil
}

// StartNode implements suite.Machines.
func (m *machines) StartNode(name string) (err error) {
	m.do(func() { err = m.cluster.AddNode(name) })
	return err
}

// RemoveNode implements suite.Machines.
func (m *machines) RemoveNode(name string) error {
	m.do(func() { m.cluster.RemoveNode(name) })
	return nil
}

// LimitPods implements suite.Machines.
func (m *machines) LimitPods(n int) error {
	m.quota.Store(int64(n))
	return nil
}

// SetLoad implements suite.Machines.
func (m *machines) SetLoad(app string, milli int64) error {
	m.server.SetLoad(app, milli)
	return nil
}

// SetAttacher implements suite.Machines.
func (m *machines) SetAttacher(mode string) error {
	m.do(func() { m.cluster.SetAttacher(mode) })
	return nil
}

// Authorize implements suite.Machines.
func (m *machines) Authorize(allowed func() bool) error {
	m.server.Authorize(func(authorizationv1.SubjectAccessReviewSpec) bool { return allowed() })
	return nil
}

// gadgets is a custom resource whose objects scripts migrate.
var gadgets = apiserver.Custom{
	GroupVersionKind: schema.GroupVersionKind{Group: "migrated.example.com", Version: "v1", Kind: "Gadget"}, Resource: "gadgets",
}

// composites are CompositePodGroups, of which client-go has no type yet in the version that they are served in since 1.38.
var composites = apiserver.Custom{
	GroupVersionKind: schedulingv1beta1.SchemeGroupVersion.WithKind("CompositePodGroup"), Resource: "compositepodgroups", Status: true,
}

// mirrors is a resource of an aggregated API server.
var mirrors = apiserver.Custom{
	GroupVersionKind: schema.GroupVersionKind{Group: "mirror.example.com", Version: "v1", Kind: "Mirror"}, Resource: "mirrors",
	Mirrors: true,
}

// Mirror implements suite.Machines.
func (m *machines) Mirror(o metav1.Object, exists bool) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mirrors.GroupVersionKind)
	object.SetNamespace(o.GetNamespace())
	object.SetName(o.GetName())
	object.SetUID(o.GetUID())
	write := apiserver.Write{By: "extension-server", Verb: apiserver.Create, Resource: mirrors.Resource + "." + mirrors.Group,
		Object: object}
	if !exists {
		write.Verb, write.Namespace, write.Name, write.Object = apiserver.Delete, o.GetNamespace(), o.GetName(), nil
	}
	_, err := m.server.Do(write)
	return err
}

// admit refuses pods that are too many: those that have not finished count.
func (m *machines) admit(a apiserver.Admission) error {
	quota := int(m.quota.Load())
	if _, ok := a.After.(*corev1.Pod); !ok || a.Before != nil || quota < 0 {
		return nil
	}
	used := m.server.CountLocked("pods", func(o apiserver.Object) bool {
		p := o.(*corev1.Pod)
		return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	})
	if used < quota {
		return nil
	}
	return apierrors.NewForbidden(corev1.Resource("pods"), a.After.GetName(),
		fmt.Errorf("exceeded quota: q, requested: pods=1, used: pods=%d, limited: pods=%d", used, quota))
}
