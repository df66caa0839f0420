package job

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // of each of the two queues
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-job-syncs", o.Workers, "Jobs that are reconciled at the same time.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error { return flagutil.Workers("concurrent-job-syncs", o.Workers) }

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "JobController", struct{ ConcurrentJobSyncs int32 }{o.Workers}
}
