package serving

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/serving/access"
	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
	"github.com/standalone-kcm/controller-manager/internal/serving/reply"
)

// Config is all that a server needs to know.
type Config struct {
	Address      net.IP // to listen on (CLI-31)
	Port         int    // 0 takes any; that no server is wanted is for the caller to know (CLI-30)
	ShareAddress bool   // SO_REUSEADDR
	SharePort    bool   // SO_REUSEPORT

	TLS            TLS
	Authentication Authentication
	Authorization  access.Authorization
	Limits         Limits

	// Probes are paths that must answer even when there are too many requests. Those that not everybody may have are
	// like others.
	Probes []string
}

// Limits bound what clients can take. A zero is replaced by the value of [DefaultLimits].
type Limits struct {
	Requests  int // at the same time, of clients that are known; more get 429
	Anonymous int // the same for clients that are not known, and for tokens that are being looked at
	Probes    int // the same for requests for [Config.Probes]
	// the same for each of these kinds and one remote address, but for probes without a token
	PerAddress      int
	Connections     int           // at the same time; for another one the one without a request for longest is closed
	HeaderBytes     int           // of a request; more get 431
	BodyBytes       int64         // of a request
	HeaderTimeout   time.Duration // for the handshake, and for the header of a request
	BodyTimeout     time.Duration // for the body of a request
	WriteTimeout    time.Duration // for an answer; profiles get the time that they record for on top
	QuickTimeout    time.Duration // for sending a refusal, or an answer to a probe
	IdleTimeout     time.Duration // of a connection between requests
	ReviewTimeout   time.Duration // for an answer of the API server about a client, with all tries
	ShutdownTimeout time.Duration // for answers that are under way when the server is to end
	Reload          time.Duration // between looks at files
}

// DefaultLimits suit a server that is asked by a kubelet, a few scrapers and a person.
func DefaultLimits() Limits {
	return Limits{
		Requests:        100,
		Anonymous:       100,
		Probes:          20,
		PerAddress:      20,
		Connections:     1000,
		HeaderBytes:     64 << 10,
		BodyBytes:       64 << 10,
		HeaderTimeout:   10 * time.Second,
		BodyTimeout:     10 * time.Second,
		WriteTimeout:    30 * time.Second,
		QuickTimeout:    2 * time.Second,
		IdleTimeout:     90 * time.Second,
		ReviewTimeout:   10 * time.Second,
		ShutdownTimeout: 2 * time.Second,
		Reload:          5 * time.Second,
	}
}

// Server is a server that listens already.
type Server struct {
	config       Config
	logger       klog.Logger
	problems     *reply.Problems
	listener     net.Listener
	http         *http.Server
	certificates *certificates.Set   // of one goroutine, which reloads it, once the server runs
	tokenReviews authenticator.Token // nil: tokens are not looked at
	authorizer   *access.Authorizer
	current      atomic.Pointer[identity]
	connections  connections
	probePaths   []string
	closed       chan struct{}

	// Places for requests. None is held while a short answer waits for its client, except of all.
	all           *places // that are answered
	authenticated *places // that run for clients that are known
	anonymous     *places // that run for clients that are not
	probes        *places // that run for probes
	tokens        *places // whose tokens are being looked at, for which the API server may have to be asked
	probeTokens   *places // the same for probes
}

// newServer returns a server that has read nothing yet.
func newServer(c Config, logger klog.Logger) *Server {
	l := c.Limits
	return &Server{
		config:      c,
		logger:      logger,
		problems:    reply.NewProblems(logger),
		connections: connections{limit: l.Connections},
		closed:      make(chan struct{}),

		all:           newPlaces(0, 0),
		authenticated: newPlaces(l.Requests, l.PerAddress),
		anonymous:     newPlaces(l.Anonymous, l.PerAddress),
		probes:        newPlaces(l.Probes, 0),
		tokens:        newPlaces(l.Anonymous, l.PerAddress),
		probeTokens:   newPlaces(l.Probes, max(1, l.Probes/2)),
	}
}

// New reads what there is to read, listens, and returns a server that has to be run. Requests wait until it is.
func New(ctx context.Context, c Config) (*Server, error) {
	c.Limits = withDefaults(c.Limits)
	s := newServer(c, klog.FromContext(ctx))
	if err := c.TLS.check(); err != nil {
		return nil, err
	}
	if err := s.newAccess(ctx); err != nil {
		return nil, err
	}
	s.certificates = certificates.New(c.TLS.Server, c.Authentication.Clients, certificates.Options{
		Listening: c.Address, Every: c.Limits.Reload, Timeout: c.Limits.ReviewTimeout, Problems: s.problems,
	})
	if err := s.certificates.Load(ctx); err != nil {
		return nil, err
	}
	s.current.Store(s.newIdentity())
	var err error
	if s.listener, err = listen(ctx, c); err != nil {
		return nil, err
	}
	return s, nil
}

// newAccess sets up whom the API server is asked about. It does not ask yet.
func (s *Server) newAccess(ctx context.Context) (err error) {
	reviewer := access.NewReviewer(s.config.Limits.ReviewTimeout, s.problems)
	if s.authorizer, err = access.NewAuthorizer(s.config.Authorization, reviewer); err != nil {
		return err
	}
	s.probePaths = s.authorizer.OpenOf(ctx, s.config.Probes)
	if a := s.config.Authentication; a.Tokens != nil {
		s.tokenReviews, err = access.NewTokens(a.Tokens, a.TokenTTL, reviewer)
	}
	return err
}

// withDefaults puts defaults in the place of zeros.
func withDefaults(l Limits) Limits {
	d := DefaultLimits()
	orDefault(&l.Requests, d.Requests)
	orDefault(&l.Anonymous, d.Anonymous)
	orDefault(&l.Probes, d.Probes)
	orDefault(&l.PerAddress, d.PerAddress)
	orDefault(&l.Connections, d.Connections)
	orDefault(&l.HeaderBytes, d.HeaderBytes)
	orDefault(&l.BodyBytes, d.BodyBytes)
	orDefault(&l.HeaderTimeout, d.HeaderTimeout)
	orDefault(&l.BodyTimeout, d.BodyTimeout)
	orDefault(&l.WriteTimeout, d.WriteTimeout)
	orDefault(&l.QuickTimeout, d.QuickTimeout)
	orDefault(&l.IdleTimeout, d.IdleTimeout)
	orDefault(&l.ReviewTimeout, d.ReviewTimeout)
	orDefault(&l.ShutdownTimeout, d.ShutdownTimeout)
	orDefault(&l.Reload, d.Reload)
	return l
}

// orDefault sets a value that is zero.
func orDefault[T int | int64 | time.Duration](value *T, otherwise T) {
	if *value == 0 {
		*value = otherwise
	}
}

// newHTTPServer sets the limits of connections and headers. HTTP/2 can be switched off.
func (s *Server) newHTTPServer(handlers map[string]http.Handler) *http.Server {
	l := s.config.Limits
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!s.config.TLS.DisableHTTP2)
	return &http.Server{
		Handler:           s.handler(handlers),
		TLSConfig:         s.tlsConfig(),
		Protocols:         protocols,
		MaxHeaderBytes:    l.HeaderBytes,
		ReadHeaderTimeout: l.HeaderTimeout,
		WriteTimeout:      l.WriteTimeout,
		IdleTimeout:       l.IdleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: s.config.TLS.HTTP2MaxStreams,
			SendPingTimeout:      30 * time.Second,
			WriteByteTimeout:     l.WriteTimeout,
		},
		DisableGeneralOptionsHandler: true, // it would answer before anybody has asked who is asking

		ConnContext: s.connections.opened,
		ConnState:   s.connections.changed,
		ErrorLog:    log.New(serverLog{s}, "", 0),
	}
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Closed is closed as soon as the server no longer listens.
func (s *Server) Closed() <-chan struct{} { return s.closed }

// Close ends a server that is not going to be run.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx ends (nil) or the server breaks. It then listens no longer, gives the requests under way a
// moment, and leaves no goroutine behind. It must be called once at most.
//
// The handlers serve, by path, what clients get once they are let in. A path that ends in a slash stands for all that
// begin so. For any other path the answer is 404 (MH-4).
func (s *Server) Run(ctx context.Context, handlers map[string]http.Handler) error {
	s.http = s.newHTTPServer(handlers)
	requests, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	s.http.BaseContext = func(net.Listener) context.Context { return requests }
	s.logger.Info("Serving securely", "address", s.Addr().String())

	reloading, stopReloading := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.reload(klog.NewContext(reloading, s.logger)) })
	broken := make(chan error, 1)
	background.Go(func() { broken <- s.http.ServeTLS(s.listener, "", "") })

	var failed error
	select {
	case <-ctx.Done():
	case failed = <-broken:
	}
	_ = s.listener.Close() // first of all: who comes now finds nobody (CLI-63)
	close(s.closed)
	stopReloading()
	s.end(cancelRequests)
	background.Wait()
	if failed != nil {
		return fmt.Errorf("serve HTTPS on %s: %w", s.Addr(), failed)
	}
	return nil
}

// end waits for the requests under way, and cuts off those that take too long.
func (s *Server) end(cancelRequests func()) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Limits.ShutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
		cancelRequests()
		_ = s.http.Close()
	}
	if !s.all.drain(s.config.Limits.ShutdownTimeout) {
		s.logger.Info("A request does not end")
	}
}

// serverLog takes what net/http has to say, nearly all of which is about clients.
type serverLog struct{ s *Server }

// Write takes what net/http has to say. That no connection can be taken is a problem, the rest is of little
// interest.
func (l serverLog) Write(text []byte) (int, error) {
	message := strings.TrimSpace(string(text))
	if strings.Contains(message, "Accept error") {
		l.s.problems.Report("accept", errors.New(message), "Cannot take connections")
	} else {
		l.s.logger.V(2).Info("HTTPS server", "message", message)
	}
	return len(text), nil
}
