package options

import "github.com/spf13/pflag"

// Deployment is what the deployment controller takes from flags.
type Deployment struct {
	Workers int32 // CLI-13
}

func (o *Deployment) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-deployment-syncs", o.Workers, "Deployments that are worked on at once.")
}

func (o *Deployment) validate() []error { return atLeastOne("concurrent-deployment-syncs", o.Workers) }

func (o *Deployment) apply(c *Config) { c.Deployment = *o }
