package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Generic is what applies to all controllers alike.
type Generic struct {
	UseServiceAccountCredentials bool          // CLI-25
	MinResyncPeriod              time.Duration // CLI-22
	ControllerStartInterval      time.Duration // CLI-23
	ControllerShutdownTimeout    time.Duration // CLI-24
}

func newGeneric() Generic {
	return Generic{MinResyncPeriod: 12 * time.Hour, ControllerShutdownTimeout: 10 * time.Second}
}

func (o *Generic) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.UseServiceAccountCredentials, "use-service-account-credentials", o.UseServiceAccountCredentials,
		"Give each controller the identity of its own service account in kube-system.")
	fs.DurationVar(&o.MinResyncPeriod, "min-resync-period", o.MinResyncPeriod,
		"Controllers look at every object again after a time between this and twice this.")
	fs.DurationVar(&o.ControllerStartInterval, "controller-start-interval", o.ControllerStartInterval,
		"Each controller waits for a time between this and twice this before it starts.")
	fs.DurationVar(&o.ControllerShutdownTimeout, "controller-shutdown-timeout", o.ControllerShutdownTimeout,
		"Longest wait for controllers to end when the process is told to. Zero waits without limit.")
}

func (o *Generic) validate() []error {
	return notNegative(
		duration{"min-resync-period", o.MinResyncPeriod},
		duration{"controller-start-interval", o.ControllerStartInterval},
		duration{"controller-shutdown-timeout", o.ControllerShutdownTimeout},
	)
}

func (o *Generic) apply(c *Config) {
	c.UseServiceAccountCredentials = o.UseServiceAccountCredentials
	c.MinResyncPeriod = o.MinResyncPeriod
	c.ControllerStartInterval = o.ControllerStartInterval
	c.ControllerShutdownTimeout = o.ControllerShutdownTimeout
}

type duration struct {
	flag  string
	value time.Duration
}

func notNegative(durations ...duration) (errs []error) {
	for _, d := range durations {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("--%s must not be negative: %v", d.flag, d.value))
		}
	}
	return errs
}

// atLeastOne rejects a number of workers with which a controller would start and never do anything (CLI-18).
func atLeastOne(flag string, workers int32) []error {
	if workers < 1 {
		return []error{fmt.Errorf("--%s must be at least 1, not %d", flag, workers)}
	}
	return nil
}
