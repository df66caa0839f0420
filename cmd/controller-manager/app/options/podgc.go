package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// PodGC is what the pod garbage collector takes from flags.
type PodGC struct {
	TerminatedPodThreshold             int32         // CLI-17; zero and less keep all terminated pods
	TerminatedPodThresholdPerNamespace int32         // the same for each namespace
	TerminatedPodMaxAge                time.Duration // zero: no limit
	OrphanBrake                        float64       // share of nodes; zero: no brake
}

func (o *PodGC) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.TerminatedPodThreshold, "terminated-pod-gc-threshold", o.TerminatedPodThreshold,
		"Terminated pods that may exist before the oldest are deleted. Zero and less keep them all.")
	fs.Int32Var(&o.TerminatedPodThresholdPerNamespace, "terminated-pod-gc-threshold-per-namespace", o.TerminatedPodThresholdPerNamespace,
		"Terminated pods that may exist in each namespace before its oldest are deleted; pods of unfinished Jobs stay. "+
			"Zero and less keep them all.")
	fs.DurationVar(&o.TerminatedPodMaxAge, "terminated-pod-gc-max-age", o.TerminatedPodMaxAge,
		"How long a terminated pod may exist before it is deleted; pods of unfinished Jobs stay. Zero keeps them all.")
	fs.Float64Var(&o.OrphanBrake, "pod-gc-orphan-brake", o.OrphanBrake,
		"When more than this share of the nodes known ten minutes ago has vanished, or the cache of nodes is not "+
			"proved fresh, pods of vanished nodes are not deleted until that changes. Clusters of fewer than five nodes "+
			"are exempt. Zero turns the brake off.")
}

func (o *PodGC) validate() []error {
	errs := notNegative(duration{"terminated-pod-gc-max-age", o.TerminatedPodMaxAge})
	if !(o.OrphanBrake >= 0 && o.OrphanBrake <= 1) {
		errs = append(errs, fmt.Errorf("--pod-gc-orphan-brake must be from 0 to 1, not %v", o.OrphanBrake))
	}
	return errs
}

func (o *PodGC) apply(c *Config) { c.PodGC = *o }
