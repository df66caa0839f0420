package resourceclaim

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // pods that are reconciled at the same time, as many claims, and as many PodGroups
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-resourceclaim-syncs", o.Workers,
		"Pods with resource claims that are reconciled at the same time, as many claims, and as many PodGroups.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return flagutil.Workers("concurrent-resourceclaim-syncs", o.Workers)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "ResourceClaimController", struct{ ConcurrentSyncs int32 }{o.Workers}
}
