package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/flowcontrol"
)

// Clients are the clients of one identity. All share one HTTP client and one rate limiter; each is made when it is
// first asked for. They are safe for concurrent use.
//
// Only requests of [Clients.Reader] and [Clients.Client] are bounded in time. Whoever calls one of the others passes a
// context that ends.
type Clients struct {
	config  *rest.Config
	http    *http.Client
	mapper  *Mapper
	options Options

	kubernetes func() (kubernetes.Interface, error)
	metadata   func() (metadata.Interface, error)
	dynamic    func() (dynamic.Interface, error)
	scales     func() (scale.ScalesGetter, error)

	mu          sync.Mutex
	restClients map[endpoint]rest.Interface
}

// endpoint is what has a REST client of its own.
type endpoint struct {
	schema.GroupVersion
	builtIn bool
}

// Options are what the clients of all identities have in common. The zero value will do.
type Options struct {
	// OnRequestDone, if set, is called when a request of a [Reader] or a [Client] has ended, well or not, with the
	// context that it was given. It shows that a worker gets on.
	OnRequestDone func(ctx context.Context)
	// GetByList reads single objects by lists that select their names. Who may list everything need then not have the
	// right to get everything, which includes the proxy of nodes, through which commands run in pods.
	GetByList bool
}

// NewClients returns the clients of the identity that the configuration has. It makes no request.
func NewClients(config *rest.Config, mapper *Mapper, o Options) (*Clients, error) {
	own := *config
	if own.RateLimiter == nil && own.QPS >= 0 {
		// Otherwise each of the clients would make a bucket of its own.
		own.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cmp.Or(own.QPS, rest.DefaultQPS),
			cmp.Or(own.Burst, rest.DefaultBurst))
	}
	client, err := rest.HTTPClientFor(&own)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	c := &Clients{config: &own, http: client, mapper: mapper, options: o, restClients: map[endpoint]rest.Interface{}}
	c.kubernetes = sync.OnceValues(func() (kubernetes.Interface,
		error) {
		return kubernetes.NewForConfigAndClient(c.config, c.http)
	})
	c.metadata = sync.OnceValues(func() (metadata.Interface,
		error) {
		return metadata.NewForConfigAndClient(c.config, c.http)
	})
	c.dynamic = sync.OnceValues(func() (dynamic.Interface,
		error) {
		return dynamic.NewForConfigAndClient(c.config, c.http)
	})
	c.scales = sync.OnceValues(c.newScales)
	if _, err := c.pathClient(); err != nil { // what is wrong with the configuration shows now
		return nil, err
	}
	return c, nil
}

// Faster returns clients of the same identity whose limit of requests is so many times higher, if there is one. They
// have a bucket of their own (REG-70).
func (c *Clients) Faster(qpsFactor float32, burstFactor int) (*Clients, error) {
	config, _ := c.Config()
	if config.QPS > 0 {
		config.QPS, config.Burst, config.RateLimiter = config.QPS*qpsFactor, config.Burst*burstFactor, nil
	}
	return NewClients(config, c.mapper, c.options)
}

// Client returns a client for any kind of object.
func (c *Clients) Client() Client { return writer{reader{c}} }

// Reader returns a client for any kind of object that cannot write.
func (c *Clients) Reader() Reader { return reader{c} }

// Kubernetes returns the typed client for built-in kinds.
func (c *Clients) Kubernetes() (kubernetes.Interface, error) { return c.kubernetes() }

// Metadata returns the client for the metadata of any kind, for informers and collections.
func (c *Clients) Metadata() (metadata.Interface, error) { return c.metadata() }

// Dynamic returns the client for unstructured objects.
func (c *Clients) Dynamic() (dynamic.Interface, error) { return c.dynamic() }

// Scales returns the client for scale subresources, whichever version of Scale they have. It finds the resource of a
// kind through the shared mapper.
func (c *Clients) Scales() (scale.ScalesGetter, error) { return c.scales() }

// Mapper returns the mapper, which all identities share.
func (c *Clients) Mapper() *Mapper { return c.mapper }

// Discovery returns what the server has, which all identities share. [Mapper.Refresh] brings it up to date.
func (c *Clients) Discovery() discovery.CachedDiscoveryInterface { return c.mapper.Discovery() }

// Config returns the configuration and the HTTP client, for clients of other APIs (k8s.io/metrics). The caller may
// change the configuration.
func (c *Clients) Config() (*rest.Config, *http.Client) {
	own := *c.config
	return &own, c.http
}

// newScales returns a client of the scales of any resource, as discovery describes them.
func (c *Clients) newScales() (scale.ScalesGetter, error) {
	client, err := c.pathClient()
	if err != nil {
		return nil, err
	}
	kinds := scale.NewDiscoveryScaleKindResolver(c.mapper.Discovery())
	return scale.New(client, c.mapper, dynamic.LegacyAPIPathResolverFunc, kinds), nil
}

// pathClient returns the REST client for absolute paths. It takes and sends JSON.
func (c *Clients) pathClient() (rest.Interface, error) { return c.rest(Mapping{}) }

// rest returns the REST client for objects of a kind.
func (c *Clients) rest(m Mapping) (rest.Interface, error) {
	at := endpoint{m.GroupVersion(), m.BuiltIn}
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.restClients[at]; client != nil {
		return client, nil
	}
	own := *c.config
	own.GroupVersion, own.NegotiatedSerializer, own.APIPath = &at.GroupVersion, scheme.Codecs.WithoutConversion(),
		"/apis"
	if at.Group == "" {
		own.APIPath = "/api"
	}
	if !m.BuiltIn {
		own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	}
	client, err := rest.RESTClientForConfigAndClient(&own, c.http)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", at.GroupVersion, err)
	}
	c.restClients[at] = client
	return client, nil
}

// contentType is how objects of a kind travel.
func (c *Clients) contentType(m Mapping) string {
	if m.BuiltIn && c.config.ContentType != "" {
		return c.config.ContentType
	}
	return runtime.ContentTypeJSON
}
