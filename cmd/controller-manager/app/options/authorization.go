package options

import (
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
	"k8s.io/client-go/rest"
)

// Authorization says which users may request what from the manager's own server (CLI-35, CLI-37, CLI-38).
type Authorization struct {
	Kubeconfig       string
	AlwaysAllowPaths []string
	AllowedTTL       time.Duration
	DeniedTTL        time.Duration
}

// newAuthorization returns the defaults: probes need no rights.
func newAuthorization() Authorization {
	return Authorization{
		AlwaysAllowPaths: []string{"/healthz", "/readyz", "/livez"},
		AllowedTTL:       10 * time.Second,
		DeniedTTL:        10 * time.Second,
	}
}

func (o *Authorization) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "authorization-kubeconfig", o.Kubeconfig,
		"Kubeconfig of the API server that is asked who may do what.")
	fs.StringSliceVar(&o.AlwaysAllowPaths, "authorization-always-allow-paths", o.AlwaysAllowPaths,
		"Paths that everybody may get; one that ends in '*' stands for all that begin so.")
	fs.DurationVar(&o.AllowedTTL, "authorization-webhook-cache-authorized-ttl", o.AllowedTTL,
		"How long it is remembered that something is allowed.")
	fs.DurationVar(&o.DeniedTTL, "authorization-webhook-cache-unauthorized-ttl", o.DeniedTTL,
		"How long it is remembered that something is not allowed.")
}

func (o *Authorization) validate() []error {
	return slices.Concat(
		flagutil.NotNegative("authorization-webhook-cache-authorized-ttl", o.AllowedTTL),
		flagutil.NotNegative("authorization-webhook-cache-unauthorized-ttl", o.DeniedTTL),
	)
}

func (o *Authorization) apply(c *Config) { c.Authorization = *o }

// ClientConfig returns how to reach the API server that is asked who may do what.
func (o *Authorization) ClientConfig() (*rest.Config, error) {
	return reviewConfig("authorization-kubeconfig", o.Kubeconfig)
}
