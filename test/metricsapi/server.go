// Package metricsapi is a small aggregated API server for tests: it has metrics.k8s.io, custom.metrics.k8s.io and
// external.metrics.k8s.io, whose values the test says, as functions of time. The API server of a control plane passes
// requests for these groups on to it.
//
//	s, err := metricsapi.Start(ctx, config, metricsapi.Options{})
//	defer s.Close()
//	s.Usage("shop", metricsapi.EachContainer(corev1.ResourceCPU, metricsapi.Constant("150m")))
//	s.Object("shop", "services", "web", metricsapi.Metric{Name: "requests"},
//		metricsapi.Steps(time.Now(), metricsapi.Step{0, "10"}, metricsapi.Step{time.Minute, "90"}))
//	s.External("shop", metricsapi.Metric{Name: "queue", Labels: map[string]string{"topic": "orders"}}, metricsapi.Constant("40"))
package metricsapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/test/aggregated"
)

// The groups that the server has.
const (
	ResourceGroup = "metrics.k8s.io"
	CustomGroup   = "custom.metrics.k8s.io"
	ExternalGroup = "external.metrics.k8s.io"
)

// Options of a server. The zero value will do.
type Options struct {
	CustomVersions []string      // of custom.metrics.k8s.io, the preferred one first (default v1beta2 and v1beta1)
	Window         time.Duration // over which the usage of pods is said to be measured (default 1s)
}

// Server is a running server. Close ends it.
type Server struct {
	options Options
	pods    corelisters.PodLister
	stop    func() error
	script
}

// Start starts a server and registers it with the API server of a configuration, which must have an administrator's rights.
// It returns when the API server passes requests on.
func Start(ctx context.Context, config *rest.Config, o Options) (*Server, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(slim))
	pods := factory.Core().V1().Pods()
	synced := pods.Informer().HasSynced
	factory.Start(following.Done())
	s := newServer(pods.Lister(), o)
	unfollow := func() { cancel(); factory.Shutdown() }
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		unfollow()
		return nil, context.Cause(ctx)
	}
	serving, err := aggregated.Start(ctx, config, "test-metrics", s.versions(), s)
	if err != nil {
		unfollow()
		return nil, err
	}
	s.stop = func() error {
		defer unfollow()
		return serving.Close()
	}
	return s, nil
}

func newServer(pods corelisters.PodLister, o Options) *Server {
	if len(o.CustomVersions) == 0 {
		o.CustomVersions = []string{"v1beta2", "v1beta1"}
	}
	if o.Window == 0 {
		o.Window = time.Second
	}
	return &Server{options: o, pods: pods}
}

// slim leaves of a pod what usage may depend on.
func slim(object any) (any, error) {
	p, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{Status: corev1.PodStatus{Phase: p.Status.Phase, StartTime: p.Status.StartTime}}
	kept.ObjectMeta = metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
		Labels: p.Labels, Annotations: p.Annotations,
		OwnerReferences: p.OwnerReferences, CreationTimestamp: p.CreationTimestamp, DeletionTimestamp: p.DeletionTimestamp}
	for _, c := range p.Spec.Containers {
		kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: c.Name})
	}
	return kept, nil
}

// Pods are those of the control plane, as far as usage may depend on them: without most of their specification.
func (s *Server) Pods() corelisters.PodLister { return s.pods }

// versions are those that the server has, of each group the preferred one first.
func (s *Server) versions() []schema.GroupVersion {
	all := []schema.GroupVersion{{Group: ResourceGroup, Version: "v1beta1"}, {Group: ExternalGroup, Version: "v1beta1"}}
	for _, version := range s.options.CustomVersions {
		all = append(all, schema.GroupVersion{Group: CustomGroup, Version: version})
	}
	return all
}

// Close takes the server's groups from the API server and ends it.
func (s *Server) Close() error { return s.stop() }

// ServeHTTP answers the requests that the API server passes on. Whoever they are from, it has authorized them.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(path) < 3 || path[0] != "apis" {
		http.NotFound(w, r)
		return
	}
	q := query{Request: r, group: path[1], version: path[2], path: path[3:]}
	if len(q.path) == 0 {
		s.discover(w, q)
		return
	}
	if q.path[0] == "namespaces" && len(q.path) > 2 {
		q.namespace, q.path = q.path[1], q.path[2:]
	}
	if code := s.count(q); code != 0 {
		refuse(w, code, fmt.Sprintf("%s does not work", q.group))
		return
	}
	switch q.group {
	case ResourceGroup:
		s.serveResource(w, q)
	case CustomGroup:
		s.serveCustom(w, q)
	case ExternalGroup:
		s.serveExternal(w, q)
	default:
		http.NotFound(w, r)
	}
}
