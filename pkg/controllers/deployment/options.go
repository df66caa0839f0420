package deployment

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what the controller takes from flags.
type Options struct {
	Workers int32 // CLI-13
}

// AddFlags implements manager.Options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-deployment-syncs", o.Workers, "Deployments that are reconciled at the same time.")
}

// Validate implements manager.Options.
func (o *Options) Validate() []error {
	return flagutil.AtLeastOne("concurrent-deployment-syncs", o.Workers)
}

// Configz implements manager.Options.
func (o *Options) Configz() (section string, fields any) {
	return "DeploymentController", struct{ ConcurrentDeploymentSyncs int32 }{o.Workers}
}
