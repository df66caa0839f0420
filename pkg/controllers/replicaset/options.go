package replicaset

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32
	// ReplaceFailedPodsAtOnce: also pods that fail at start again and again. Without it they are replaced at a
	// falling rate.
	ReplaceFailedPodsAtOnce bool

	backoff bool // the opposite, which is a flag
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-replicaset-syncs", o.Workers,
		"ReplicaSets that are reconciled at the same time.")
	fs.BoolVar(&o.backoff, "replicaset-pod-failure-backoff", o.backoff,
		"Replace pods that fail at start, after five times in a row, at a falling rate: after 10s, doubling up to 5m.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return flagutil.Workers("concurrent-replicaset-syncs", o.Workers)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "ReplicaSetController", struct{ ConcurrentRSSyncs int32 }{o.Workers}
}
