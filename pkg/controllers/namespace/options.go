package namespace

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller (NS-2).
type Options struct {
	Workers    int32
	SyncPeriod time.Duration // between two looks at a namespace that does not get empty, at most
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-namespace-syncs", o.Workers, "Namespaces that are emptied at the same time.")
	fs.DurationVar(&o.SyncPeriod, "namespace-sync-period", o.SyncPeriod,
		"How long a namespace that does not get empty is left alone at most, before it is looked at again.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return append(flagutil.Workers("concurrent-namespace-syncs", o.Workers),
		flagutil.NotNegative("namespace-sync-period", o.SyncPeriod)...)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "NamespaceController", struct {
		NamespaceSyncPeriod      metav1.Duration
		ConcurrentNamespaceSyncs int32
	}{metav1.Duration{Duration: o.SyncPeriod}, o.Workers}
}
