package statefulset

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32
	// ReplaceStuckPods: a pod of an outdated revision that has never become ready does not hold up a StatefulSet with
	// ordered pods.
	ReplaceStuckPods bool
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-statefulset-syncs", o.Workers,
		"StatefulSets that are reconciled at the same time.")
	fs.BoolVar(&o.ReplaceStuckPods, "statefulset-replace-stuck-pods", o.ReplaceStuckPods,
		"Replace pods of StatefulSets with ordered pods that have never become ready, when their revision is "+
			"outdated. Without it, a rollout that is stuck at such a pod stays stuck after the template has been "+
			"corrected, until somebody deletes the pod.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return flagutil.Workers("concurrent-statefulset-syncs", o.Workers)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "StatefulSetController", struct{ ConcurrentStatefulSetSyncs int32 }{o.Workers}
}
