package options

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Authentication says how those who ask the manager's own server are recognized (CLI-35..39).
type Authentication struct {
	Kubeconfig             string
	SkipLookup             bool
	TolerateLookupFailure  bool
	TokenCacheTTL          time.Duration
	ClientCAFile           string
	FrontProxyCAFile       string
	FrontProxyNames        []string
	FrontProxyUserHeaders  []string
	FrontProxyUIDHeaders   []string
	FrontProxyGroupHeaders []string
	FrontProxyExtraHeaders []string // prefixes
}

// newAuthentication returns the defaults, with the headers that front proxies of Kubernetes use.
func newAuthentication() Authentication {
	return Authentication{
		TokenCacheTTL:          10 * time.Second,
		FrontProxyUserHeaders:  []string{"x-remote-user"},
		FrontProxyGroupHeaders: []string{"x-remote-group"},
		FrontProxyExtraHeaders: []string{"x-remote-extra-"},
	}
}

func (o *Authentication) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "authentication-kubeconfig", o.Kubeconfig,
		"Kubeconfig of the API server that is asked about tokens.")
	fs.BoolVar(&o.SkipLookup, "authentication-skip-lookup", o.SkipLookup,
		"Do not look up missing settings of authentication in the cluster.")
	fs.BoolVar(&o.TolerateLookupFailure, "authentication-tolerate-lookup-failure", o.TolerateLookupFailure,
		"Go on when missing settings of authentication cannot be looked up in the cluster.")
	fs.DurationVar(&o.TokenCacheTTL, "authentication-token-webhook-cache-ttl", o.TokenCacheTTL,
		"How long answers about tokens are remembered.")
	fs.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile,
		"Authorities whose client certificates are accepted.")
	fs.StringVar(&o.FrontProxyCAFile, "requestheader-client-ca-file", o.FrontProxyCAFile,
		"Authorities whose client certificates are accepted from a front proxy, before its headers are trusted.")
	fs.StringSliceVar(&o.FrontProxyNames, "requestheader-allowed-names", o.FrontProxyNames,
		"Common names of client certificates that a front proxy may have. Without any, each may.")
	fs.StringSliceVar(&o.FrontProxyUserHeaders, "requestheader-username-headers", o.FrontProxyUserHeaders,
		"Headers in which a front proxy names the user.")
	fs.StringSliceVar(&o.FrontProxyUIDHeaders, "requestheader-uid-headers", o.FrontProxyUIDHeaders,
		"Headers in which a front proxy gives the user's uid.")
	fs.StringSliceVar(&o.FrontProxyGroupHeaders, "requestheader-group-headers", o.FrontProxyGroupHeaders,
		"Headers in which a front proxy names the user's groups.")
	fs.StringSliceVar(&o.FrontProxyExtraHeaders, "requestheader-extra-headers-prefix", o.FrontProxyExtraHeaders,
		"How headers begin in which a front proxy says more about the user.")
}

func (o *Authentication) validate() []error {
	return slices.Concat(
		flagutil.NotNegative("authentication-token-webhook-cache-ttl", o.TokenCacheTTL),
		flagutil.NoneBlank("requestheader-allowed-names", o.FrontProxyNames),
		flagutil.NoneBlank("requestheader-username-headers", o.FrontProxyUserHeaders),
		flagutil.NoneBlank("requestheader-uid-headers", o.FrontProxyUIDHeaders),
		flagutil.NoneBlank("requestheader-group-headers", o.FrontProxyGroupHeaders),
		flagutil.NoneBlank("requestheader-extra-headers-prefix", o.FrontProxyExtraHeaders),
	)
}

func (o *Authentication) apply(c *Config) { c.Authentication = *o }

// ErrNobodyToAsk is why nobody is asked about clients: neither a flag nor a pod says which API server is to be asked
// (CLI-35).
var ErrNobodyToAsk = errors.New("there is no API server to ask")

// ClientConfig returns how to reach the API server that is asked about tokens.
func (o *Authentication) ClientConfig() (*rest.Config, error) {
	return reviewConfig("authentication-kubeconfig", o.Kubeconfig)
}

// reviewConfig loads a kubeconfig that is named, and without a name takes what a pod has, if this is one.
func reviewConfig(flag, path string) (*rest.Config, error) {
	if path == "" {
		c, err := rest.InClusterConfig()
		switch {
		case errors.Is(err, rest.ErrNotInCluster):
			return nil, fmt.Errorf("%w: --%s is not given, and this is not a pod", ErrNobodyToAsk, flag)
		case err != nil:
			return nil,
				fmt.Errorf("%w: --%s is not given, and the configuration of the pod is broken: %w", ErrNobodyToAsk,
					flag, err)
		}
		return c, nil
	}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return c, nil
}
