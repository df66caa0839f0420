package options

import "github.com/spf13/pflag"

// ReplicaSet is what the replicaset controller takes from flags.
type ReplicaSet struct {
	Workers           int32 // CLI-14
	PodFailureBackOff bool
}

func (o *ReplicaSet) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-replicaset-syncs", o.Workers, "ReplicaSets that are worked on at once.")
	fs.BoolVar(&o.PodFailureBackOff, "replicaset-pod-failure-backoff", o.PodFailureBackOff,
		"Replace pods that fail at start, after five times in a row, at a falling rate: after 10s, doubling up to 5m.")
}

func (o *ReplicaSet) validate() []error { return atLeastOne("concurrent-replicaset-syncs", o.Workers) }

func (o *ReplicaSet) apply(c *Config) { c.ReplicaSet = *o }
