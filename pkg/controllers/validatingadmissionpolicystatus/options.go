package validatingadmissionpolicystatus

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // policies that are checked at the same time
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-validating-admission-policy-status-syncs", o.Workers,
		"ValidatingAdmissionPolicies that are checked at the same time.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return flagutil.Workers("concurrent-validating-admission-policy-status-syncs", o.Workers)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "ValidatingAdmissionPolicyStatusController", struct{ ConcurrentPolicySyncs int32 }{o.Workers}
}
