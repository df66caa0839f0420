package devicetainteviction

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // pods that are reconciled at the same time
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-device-taint-eviction-syncs", o.Workers,
		"Pods with devices that are reconciled at the same time.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return flagutil.Workers("concurrent-device-taint-eviction-syncs", o.Workers)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "DeviceTaintEvictionController", struct{ ConcurrentSyncs int32 }{o.Workers}
}
