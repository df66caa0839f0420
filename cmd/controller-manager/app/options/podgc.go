package options

import "github.com/spf13/pflag"

// PodGC is what the pod garbage collector takes from flags.
type PodGC struct {
	TerminatedPodThreshold int32 // CLI-17; zero and less keep all terminated pods
}

func (o *PodGC) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.TerminatedPodThreshold, "terminated-pod-gc-threshold", o.TerminatedPodThreshold,
		"Terminated pods that may exist before the oldest are deleted. Zero and less keep them all.")
}

func (o *PodGC) validate() []error { return nil }

func (o *PodGC) apply(c *Config) { c.PodGC = *o }
