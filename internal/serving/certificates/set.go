package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/serving/reply"
)

// Server says where the certificates of the server are (CLI-32..34).
type Server struct {
	CertFile, KeyFile string // empty: the server makes its own certificate
	CertDir           string // where that is kept; empty: in memory
	CertName          string // of its files there, without .crt and .key
	Named             []Named
}

// Clients says where the authorities are that certificates of clients are from (CLI-36, CLI-39).
type Clients struct {
	ClientCAFile string // authorities of client certificates
	FrontProxy   FrontProxy

	// Cluster has the ConfigMap in which a cluster keeps what is not given here: ClientCAFile, and FrontProxy as a
	// whole (CLI-36). Nil: nothing is looked up.
	Cluster coreclient.ConfigMapInterface
	// TolerateLookupFailure lets the server start without; it continues trying.
	TolerateLookupFailure bool
}

// FrontProxy says which proxies may say for whom they ask, and in which headers (CLI-39).
type FrontProxy struct {
	CAFile        string   // authorities of their client certificates; empty: none may
	Names         []string // common names of these certificates, as they are; without any, each may
	UserHeaders   []string
	UIDHeaders    []string
	GroupHeaders  []string
	ExtraPrefixes []string
}

// Options say how a [Set] looks at its sources.
type Options struct {
	Listening net.IP        // where the server listens, for a certificate that it makes
	Every     time.Duration // between looks at files
	Timeout   time.Duration // for an answer of the API server
	Problems  *reply.Problems
}

// Set is what the server and its clients prove who they are by, as files and the cluster have it at the moment. Only
// one goroutine may use it; what its methods return does not change.
type Set struct {
	problems *reply.Problems
	// sources are what is read again, each after its own time.
	sources  []*source
	serving  *tls.Certificate
	named    []*named     // certificates for names that clients ask for
	clientCA *authorities // nil: client certificates are not looked at
	proxy    *frontProxy  // nil: front proxies are not trusted
}

// frontProxy is a FrontProxy with what is in its file.
type frontProxy struct {
	FrontProxy
	ca *authorities
}

// source is something that may change while the server runs.
type source struct {
	name string
	// every is the time between two looks, and next when the next one is due.
	every time.Duration
	next  time.Time
	// load takes what there is now, and reports whether it is something new. What was there stays if it fails.
	load func(ctx context.Context) (changed bool, err error)
	// tolerated: it may fail at the start.
	tolerated bool
}

// New returns a Set that has to be loaded.
func New(server Server, clients Clients, o Options) *Set {
	s := &Set{problems: o.Problems}
	addresses := selfSignedFor(o.Listening)
	switch {
	case server.CertFile != "" || server.KeyFile != "":
		s.add(pairSource(pair{server.CertFile, server.KeyFile}, o.Every, &s.serving))
	case server.CertDir != "":
		s.add(inDirectory(server.CertDir, server.CertName, addresses, o.Every, &s.serving))
	default:
		s.add(inMemory(addresses, o.Every, &s.serving))
	}
	for _, given := range server.Named {
		n := &named{names: given.Names}
		s.named = append(s.named, n)
		s.add(pairSource(pair{given.CertFile, given.KeyFile}, o.Every, &n.cert))
	}
	if clients.ClientCAFile != "" {
		s.add(authoritiesFile(clients.ClientCAFile, o.Every, &s.clientCA))
	}
	if clients.FrontProxy.CAFile != "" {
		s.proxy = &frontProxy{FrontProxy: clients.FrontProxy}
		s.add(authoritiesFile(clients.FrontProxy.CAFile, o.Every, &s.proxy.ca))
	}
	if clients.Cluster != nil && (clients.ClientCAFile == "" || clients.FrontProxy.CAFile == "") {
		s.add(s.lookupSource(clients, o.Timeout, max(o.Every, lookupEvery)))
	}
	return s
}

// add has the set read another source.
func (s *Set) add(from *source) { s.sources = append(s.sources, from) }

// Load loads everything. One failure that is not tolerated is enough to fail.
func (s *Set) Load(ctx context.Context) error {
	for _, from := range s.sources {
		from.next = time.Now().Add(from.every)
		_, err := from.load(ctx)
		switch {
		case err == nil:
		case from.tolerated:
			from.next = time.Now()
			s.problems.Report(from.name, err, "Not loaded, will be tried again", "what", from.name)
		default:
			return err
		}
	}
	s.warn(klog.FromContext(ctx))
	return nil
}

// Reload loads what is due, and reports whether anything has changed.
func (s *Set) Reload(ctx context.Context) (changed bool) {
	for _, from := range s.sources {
		if time.Now().Before(from.next) {
			continue
		}
		fresh, err := from.load(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			s.problems.Report(from.name, err, "Not loaded again, what was loaded before stays", "what", from.name)
			continue // and have another look soon
		case s.problems.Over(from.name), fresh:
			klog.FromContext(ctx).Info("Loaded again", "what", from.name)
		}
		from.next = time.Now().Add(from.every)
		changed = changed || fresh
	}
	if changed {
		s.warn(klog.FromContext(ctx))
	}
	return changed
}

// warn says what clients are going to refuse.
func (s *Set) warn(logger klog.Logger) {
	leaf := s.serving.Leaf
	if now := time.Now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		logger.Info("Warning: the serving certificate is not valid now", "from", leaf.NotBefore, "until", leaf.NotAfter)
	}
}

// GetCertificate returns what a tls.Config needs to choose the certificate for a client.
func (s *Set) GetCertificate() func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return byName(s.serving, s.named)
}

// ClientCAs are all that a client's certificate may be from; nil if certificates of clients are not looked at.
func (s *Set) ClientCAs() *x509.CertPool {
	var all []*x509.Certificate
	if s.clientCA != nil {
		all = append(all, s.clientCA.certs...)
	}
	if s.proxy != nil && s.proxy.ca != nil {
		all = append(all, s.proxy.ca.certs...)
	}
	if len(all) == 0 {
		return nil
	}
	return poolOf(all)
}

// Authenticators returns the authenticators of client certificates: a proxy's headers before the proxy's own
// certificate.
func (s *Set) Authenticators() (known []authenticator.Request) {
	if p := s.proxy; p != nil && p.ca != nil {
		known = append(known,
			headerrequest.NewDynamicVerifyOptionsSecure(p.ca.verifyOptions, headerrequest.StaticStringSlice(p.Names),
				headerrequest.StaticStringSlice(p.UserHeaders), headerrequest.StaticStringSlice(p.UIDHeaders),
				headerrequest.StaticStringSlice(p.GroupHeaders), headerrequest.StaticStringSlice(p.ExtraPrefixes)))
	}
	if s.clientCA != nil {
		known = append(known, x509request.NewDynamic(s.clientCA.verifyOptions, x509request.CommonNameUserConversion))
	}
	return known
}
