package identity

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/standalone-kcm/controller-manager/internal/clock"
)

// The names of the clients that are no controller's: the last part of their user agents (CI-2). All three have the
// identity of the given configuration, the root identity.
const (
	Root           = "kube-controller-manager" // service accounts, tokens, leader events
	Informers      = "shared-informers"        // all lists and watches (CI-10), the wait for the server's health
	LeaderElection = "leader-election"         // the lease, see [Builder.Lease]
)

// Options say how the clients talk to the API server.
type Options struct {
	// Component begins every user agent. The API server takes it as the field manager, and GitOps tools and audit
	// policies match on it, so in place of the original it is "kube-controller-manager" (CI-1).
	Component string

	// ContentType is what bodies are encoded as, and what answers are asked for first. Empty means protobuf (CI-3).
	ContentType string

	// RateLimited gives every client a token bucket of QPS and Burst, shared by all API groups and the events of that
	// client (CI-5, CI-6). Without it nothing is held back here: the server's API priority and fairness says when to
	// wait, by 429 with Retry-After, which the clients obey.
	RateLimited bool

	// QPS refills the bucket. Zero and less mean no limit: negative is client-go's word for that, and its reading of
	// zero (a default of 5) would be a limit that nobody asked for.
	QPS float32

	// Burst is the size of the bucket. Less than 1 counts as 1, because an empty bucket would let no request through.
	Burst int

	// ServiceAccounts gives each controller the identity of its service account (CLI-25, CI-20..23).
	ServiceAccounts bool

	// MayWrite, if set, is asked just before a write of a controller is sent, after the wait for the limiter and the
	// token, with the namespace that it is about, "" for what belongs to the cluster. On false the write is not sent
	// and fails with [client.ErrNotLeading]. It closes the gap between the check that a controller makes and the moment
	// its request, which may have been queued for seconds, is really sent (LE-14).
	MayWrite func(namespace string) bool

	// BeforeWrite, if set, is waited for before MayWrite is asked. If it returns an error, the write is not sent and
	// fails with that.
	BeforeWrite func(ctx context.Context) error

	// Clock, if set, gets the time from all answers.
	Clock *clock.Clock
}

// Builder makes client configurations. The same name always yields the same limiter and the same token, so whatever is
// built from it is one client. Builders are safe for concurrent use.
type Builder struct {
	// base is the configuration of the root identity.
	base    *rest.Config
	options Options
	// root returns the client that asks for tokens of service accounts.
	root func() (kubernetes.Interface, error)

	mu      sync.Mutex
	configs map[string]*rest.Config // by the last part of the user agent
}

// NewBuilder returns a builder of clients for the server of base, with the identity of base as the root identity.
func NewBuilder(base *rest.Config, o Options) *Builder {
	b := &Builder{base: shallow(base), options: o, configs: map[string]*rest.Config{}}
	b.root = sync.OnceValues(func() (kubernetes.Interface, error) {
		return kubernetes.NewForConfig(b.Config(Root))
	})
	return b
}

// Config returns the configuration of the root-identity client of that name, see [Root], [Informers] and
// [LeaderElection]. The caller may change the returned value.
func (b *Builder) Config(name string) *rest.Config {
	return b.config(name, func() *rest.Config { return b.prepare(shallow(b.base), name) })
}

// Guarded is [Builder.Config] for a client that may write only while a controller may, see [Options.MayWrite].
func (b *Builder) Guarded(name string) *rest.Config { return b.guard(b.Config(name)) }

// Root returns the client named [Root]. There is one, however often it is asked for.
func (b *Builder) Root() (kubernetes.Interface, error) { return b.root() }

// Controller returns the configuration of a controller's client. The account is its service account's name (CI-20), not
// the controller's own. Without [Options.ServiceAccounts] it has the root identity and the account only names it in the
// user agent (CI-2, CI-24). Nothing is requested here: a token is fetched when the first request needs one (CI-22).
func (b *Builder) Controller(account string) (*rest.Config, error) {
	if !b.options.ServiceAccounts {
		return b.RootController(account), nil
	}
	root, err := b.Root()
	if err != nil {
		return nil, err
	}
	name := "system:serviceaccount:" + accountNamespace + ":" + account
	return b.config(name, func() *rest.Config {
		// No certificate, no token, no impersonation, no transport that might carry one: anonymous but for the token
		// (CI-23). Were a certificate left, the server would take that, and the controller would write as root.
		c := b.guard(b.prepare(rest.AnonymousClientConfig(b.base), name))
		source := newTokenSource(account, func(ctx context.Context) (string, time.Duration, error) {
			return b.requestToken(ctx, root, account)
		})
		c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &bearer{next: rt, source: source} })
		return c
	}), nil
}

// Lease returns the configuration of the client named [LeaderElection], which must get through when nothing else does:
//
//   - its requests end after half the renew deadline, at least 1s, so that one that hangs still allows another (LE-5);
//   - it is not limited, where the original gives it a bucket: the retry period paces it already, at 30 requests a
//     minute (LE-31), and a QPS below that would only cost the lease;
//   - it has a connection of its own, and HTTP/1.1 on it. Client-go gives all clients with equal TLS settings one
//     transport, hence one HTTP/2 connection: leases would share its flow control and its write lock with every list
//     and watch. A Dial function and a protocol list are both part of the key by which it shares, so either one parts
//     them;
//   - HTTP/1.1 because there a request that times out takes its connection with it, and the next try dials anew. An
//     HTTP/2 connection that has gone silent (its server lost power, a firewall forgot it) is kept until a ping has
//     failed, 45s later: long after the lease.
func (b *Builder) Lease(renewDeadline time.Duration) *rest.Config {
	c := b.Config(LeaderElection)
	c.Timeout = max(time.Second, renewDeadline/2)
	c.QPS, c.Burst, c.RateLimiter = -1, 0, nil
	c.NextProtos = []string{"http/1.1"}
	if b.base.Dial == nil {
		c.Dial = dial(c.Timeout)
	}
	return c
}

// RootController returns the configuration of the client of a controller that always has the root identity (TOK-1).
// The name is the last part of its user agent.
func (b *Builder) RootController(name string) *rest.Config {
	return b.config(name, func() *rest.Config { return b.guard(b.prepare(shallow(b.base), name)) })
}

// config returns a copy of the named configuration, made on first use.
func (b *Builder) config(name string, make func() *rest.Config) *rest.Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.configs[name] == nil {
		b.configs[name] = make()
	}
	return shallow(b.configs[name])
}

// prepare sets in c, and returns, what all clients have in common.
func (b *Builder) prepare(c *rest.Config, name string) *rest.Config {
	c.UserAgent = userAgent(b.options.Component, name)
	c.ContentType = b.options.ContentType
	if c.ContentType == "" {
		c.ContentType = runtime.ContentTypeProtobuf
	}
	c.AcceptContentTypes = c.ContentType + ", */*"
	c.DisableCompression = true
	// "v1 Endpoints is deprecated" comes with every answer about Endpoints: nobody is to read that (CI-7).
	c.WarningHandler, c.WarningHandlerWithContext = rest.NoWarnings{}, rest.NoWarnings{}
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &bodyLog{rt} })
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &patience{rt} })
	if b.options.Clock != nil {
		c.Wrap(b.options.Clock.Listen)
	}

	c.QPS, c.Burst, c.RateLimiter = -1, 0, nil
	if b.options.RateLimited && b.options.QPS > 0 {
		// Given only QPS and Burst, each API group's client would make a bucket of its own (CI-5).
		c.QPS, c.Burst = b.options.QPS, max(1, b.options.Burst)
		c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(c.QPS, c.Burst)
	}
	if settings, err := rest.TLSConfigFor(c); err == nil && settings == nil && c.Dial == nil {
		// Without TLS settings (plain HTTP, or the system's certificates) client-go falls back to
		// http.DefaultTransport. It keeps two idle connections per host, so that of a burst of parallel writes nearly
		// all would dial, use and drop one, and over HTTP/2 it never notices a silent one. A Dial function makes
		// client-go build a proper transport.
		c.Dial = dial(30 * time.Second)
	}
	return c
}

// guard adds the last check before a write is sent. It must be added before the token's wrapper, which is then around
// it: the check comes last, when the token has been waited for.
func (b *Builder) guard(c *rest.Config) *rest.Config {
	if may := b.options.MayWrite; may != nil {
		c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return &guard{next: rt, before: b.options.BeforeWrite, may: may}
		})
	}
	return c
}

// shallow copies a configuration for a change of its fields. It is enough because what the fields point to is never
// changed; rest.CopyConfig would write to the original's ExecProvider.
func shallow(c *rest.Config) *rest.Config {
	out := *c
	return &out
}

// dial is how client-go dials by itself, but for the timeout.
func dial(timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}).DialContext
}
