package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// lease is one that is held or not.
// contextFor is what a controller is built from that works on a server.
func contextFor(t *testing.T, cl client.Client) manager.Context {
	t.Helper()
	mapper, err := client.NewMapper(&rest.Config{}) // it asks nobody about built-in kinds
	if err != nil {
		t.Fatal(err)
	}
	return manager.Context{
		Informers: informers.NewFactory(nil, 0),
		Shared:    reconcile.Shared{Tracker: freshness.NewTracker(), Mapper: mapper},
		Access: reconcile.Access{Client: cl, Method: func(resource schema.GroupResource, subresource string) client.Method {
			return client.MethodFor(Rights(), resource, subresource)
		}},
	}
}

// cluster is a server with the endpoint controller at work on it.
type cluster struct {
	*clienttest.Server
	t  *testing.T
	mu sync.Mutex
	// noted has the Endpoints of web as each write has left them: "30m0s: a b" if a change 30 minutes ago has triggered it.
	noted []string
}

// inCluster runs a test in virtual time, with a cluster of these objects at which the controller has nothing left to do.
func inCluster(t *testing.T, test func(c *cluster), objects ...plan.Object) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{Server: clienttest.NewServer(), t: t}
		c.put(objects...)
		c.AfterWrite(c.note)
		from := contextFor(t, c)
		for _, example := range []plan.Object{&corev1.Service{}, &corev1.Endpoints{}, &corev1.Pod{}} {
			informer, err := c.NewInformer(t.Context(), example)
			if err != nil {
				t.Fatal(err)
			}
			from.Informers.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
		}
		runner, err := (&Options{Workers: 1}).init(from)
		if err != nil {
			t.Fatal(err)
		}
		clienttest.Run(t, runner.Run, func() { test(c) })
	})
}

func (c *cluster) put(objects ...plan.Object) {
	for _, o := range objects {
		if _, err := c.Put(o); err != nil {
			c.t.Error(err)
		}
	}
}

// endpoints returns the Endpoints of web.
func (c *cluster) endpoints() *corev1.Endpoints {
	mapping := client.MappingFor[*corev1.Endpoints]()
	e := &corev1.Endpoints{}
	if err := c.Get(context.Background(), mapping, webKey, e); err != nil {
		c.t.Error(err)
	}
	return e
}

func (c *cluster) note(clienttest.Write) error {
	e := c.endpoints()
	trigger := "none"
	if text := e.Annotations[triggerTime]; text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			c.t.Error(err)
		}
		trigger = now.Sub(at).String()
	}
	var pods []string
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			pods = append(pods, a.TargetRef.Name)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted = append(c.noted, fmt.Sprintf("%s: %s", trigger, strings.Join(pods, " ")))
	return nil
}
