package legacyserviceaccounttokencleaner

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options are what can be set of the controller.
type Options struct {
	Period time.Duration
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Period, "legacy-service-account-token-clean-up-period", o.Period,
		"How long a token of a service account that was made automatically, and is kept in a Secret, must not have "+
			"been used before it is "+
			"marked as invalid, and how long it must have been marked before it is deleted.")
}

// Validate implements manager.Flags.
// a wrong period is an error only where the controller is on, see periodError
func (o *Options) Validate() []error { return nil }

// periodError says that the period is wrong (LTC-1).
func (o *Options) periodError() error {
	if o.Period <= 0 {
		return fmt.Errorf("failed to init the legacy service account token cleaner: invalid CleanUpPeriod: %v",
			o.Period)
	}
	return nil
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "LegacySATokenCleaner", struct{ CleanUpPeriod metav1.Duration }{metav1.Duration{Duration: o.Period}}
}
