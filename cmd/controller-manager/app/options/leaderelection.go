package options

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/config"
	configoptions "k8s.io/component-base/config/options"

	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
)

// LeaderElection says whether and how to compete for the lease (LE-1).
type LeaderElection struct {
	config.LeaderElectionConfiguration
	OnLoss string // "exit" or "standby"
}

// newLeaderElection returns the defaults: the command takes part in the election.
func newLeaderElection() LeaderElection {
	d := leaderelection.Defaults()
	period := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return LeaderElection{
		LeaderElectionConfiguration: config.LeaderElectionConfiguration{
			LeaderElect:       true,
			LeaseDuration:     period(d.LeaseDuration),
			RenewDeadline:     period(d.RenewDeadline),
			RetryPeriod:       period(d.RetryPeriod),
			ResourceLock:      d.ResourceLock,
			ResourceName:      d.Name,
			ResourceNamespace: d.Namespace,
		},
		OnLoss: string(d.OnLoss),
	}
}

func (o *LeaderElection) addFlags(fs *pflag.FlagSet) {
	configoptions.BindLeaderElectionFlags(&o.LeaderElectionConfiguration, fs)
	for name, usage := range map[string]string{
		"leader-elect": "Work only while this process holds a lease, so that one of several is active. The others " +
			"wait, with their caches filled.",
		"leader-elect-lease-duration": "How long others wait after the last renewal before they take the lease.",
		"leader-elect-renew-deadline": "How long the holder tries to renew the lease before it stops to work. It " +
			"must be less than the lease duration.",
		"leader-elect-retry-period":       "Time between two tries to get or to renew the lease.",
		"leader-elect-resource-lock":      "Kind of the object that is the lock; only 'leases'.",
		"leader-elect-resource-name":      "Name of the lease.",
		"leader-elect-resource-namespace": "Namespace of the lease.",
	} {
		fs.Lookup(name).Usage = usage
	}
	fs.StringVar(&o.OnLoss, "leader-elect-on-loss", o.OnLoss,
		"What to do when the lease is lost: 'exit' ends the process, 'standby' stops all work and competes again.")
}

// validate checks nothing without leader election: the values are then of no account (LE-1e).
func (o *LeaderElection) validate() []error {
	if !o.LeaderElect {
		return nil
	}
	return o.config().Validate()
}

func (o *LeaderElection) apply(c *Config) {
	c.Manager.LeaderElect = o.LeaderElect
	c.Manager.LeaderElection = o.config()
}

// config is what the elector needs of the flags.
func (o *LeaderElection) config() leaderelection.Config {
	return leaderelection.Config{
		LeaseDuration: o.LeaseDuration.Duration,
		RenewDeadline: o.RenewDeadline.Duration,
		RetryPeriod:   o.RetryPeriod.Duration,
		ResourceLock:  o.ResourceLock,
		Name:          o.ResourceName,
		Namespace:     o.ResourceNamespace,
		OnLoss:        leaderelection.OnLoss(o.OnLoss),
	}
}
