package podgc

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	TerminatedThreshold             int32         // terminated pods that may stay; negative: all (CLI-17)
	TerminatedThresholdPerNamespace int32         // the same for each namespace
	TerminatedMaxAge                time.Duration // how long a terminated pod may stay; zero: without limit
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.TerminatedThreshold, "terminated-pod-gc-threshold", o.TerminatedThreshold,
		"Terminated pods that may exist before the oldest are deleted. Zero and less keep them all.")
	fs.Int32Var(&o.TerminatedThresholdPerNamespace, "terminated-pod-gc-threshold-per-namespace",
		o.TerminatedThresholdPerNamespace,
		"Terminated pods that may exist in each namespace before its oldest are deleted; pods of unfinished Jobs "+
			"stay. Zero and less keep them all.")
	fs.DurationVar(&o.TerminatedMaxAge, "terminated-pod-gc-max-age", o.TerminatedMaxAge,
		"How long a terminated pod may exist before it is deleted; pods of unfinished Jobs stay. Zero keeps them all.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return flagutil.NotNegative("terminated-pod-gc-max-age", o.TerminatedMaxAge)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "PodGCController", struct{ TerminatedPodGCThreshold int32 }{o.TerminatedThreshold}
}
