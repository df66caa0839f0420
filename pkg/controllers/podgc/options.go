package podgc

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	TerminatedThreshold             int32         // terminated pods that may stay; negative: all (CLI-17)
	TerminatedThresholdPerNamespace int32         // the same for each namespace
	TerminatedMaxAge                time.Duration // how long a terminated pod may stay; zero: without limit
	OrphanBrake                     float64       // share of the nodes whose loss stops the deletion of orphans; negative: none does
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.TerminatedThreshold, "terminated-pod-gc-threshold", o.TerminatedThreshold,
		"Terminated pods that may exist before the oldest are deleted. Zero and less keep them all.")
	fs.Int32Var(&o.TerminatedThresholdPerNamespace, "terminated-pod-gc-threshold-per-namespace", o.TerminatedThresholdPerNamespace,
		"Terminated pods that may exist in each namespace before its oldest are deleted; pods of unfinished Jobs stay. "+
			"Zero and less keep them all.")
	fs.DurationVar(&o.TerminatedMaxAge, "terminated-pod-gc-max-age", o.TerminatedMaxAge,
		"How long a terminated pod may exist before it is deleted; pods of unfinished Jobs stay. Zero keeps them all.")
	fs.Float64Var(&o.OrphanBrake, "pod-gc-orphan-brake", o.OrphanBrake,
		"When more than this share of the nodes known ten minutes ago has vanished, or the cache of nodes is not "+
			"proved fresh, pods of vanished nodes are not deleted until that changes. Clusters of fewer than five nodes "+
			"are exempt. Zero lifts this limit.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	errs := flagutil.NotNegative("terminated-pod-gc-max-age", o.TerminatedMaxAge)
	if !(o.OrphanBrake >= 0 && o.OrphanBrake <= 1) {
		errs = append(errs, fmt.Errorf("--pod-gc-orphan-brake must be from 0 to 1, not %v", o.OrphanBrake))
	}
	return errs
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "PodGCController", struct{ TerminatedPodGCThreshold int32 }{o.TerminatedThreshold}
}
