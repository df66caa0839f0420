package options

import (
	"time"

	"github.com/spf13/pflag"
)

// Endpoints is what the endpoints controller takes from flags.
type Endpoints struct {
	Workers     int32         // CLI-15
	BatchPeriod time.Duration // CLI-16
	CleanUp     bool          // when the controller is off: delete the Endpoints that it once wrote
}

func (o *Endpoints) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-endpoint-syncs", o.Workers, "Services whose Endpoints are worked on at once.")
	fs.DurationVar(&o.BatchPeriod, "endpoint-updates-batch-period", o.BatchPeriod,
		"How long a change of a pod waits for further ones before the Endpoints are written. "+
			"A change of the Service does not wait.")
	fs.BoolVar(&o.CleanUp, "endpoint-cleanup-when-disabled", o.CleanUp,
		"When the endpoints controller is switched off, delete the Endpoints that carry its label "+
			"endpoints.kubernetes.io/managed-by, and only those: nobody keeps them true any more.")
}

func (o *Endpoints) validate() []error {
	return append(atLeastOne("concurrent-endpoint-syncs", o.Workers),
		notNegative(duration{"endpoint-updates-batch-period", o.BatchPeriod})...)
}

func (o *Endpoints) apply(c *Config) { c.Endpoints = *o }
