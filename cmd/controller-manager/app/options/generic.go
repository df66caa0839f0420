package options

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
)

// Generic is what applies to all controllers alike.
type Generic struct {
	UseServiceAccountCredentials bool          // each controller acts as its service account (CLI-25)
	MinResyncPeriod              time.Duration // caches are delivered anew once in one to two of it (CLI-22)
	ControllerStartInterval      time.Duration // between the starts of two controllers (CLI-23)
	ControllerShutdownTimeout    time.Duration // how long controllers may take to end (CLI-24)
	BrakeShare                   float64       // of the objects that exist; to remove more asks for proof; zero: never
	BrakeLeast                   int           // of fewer objects, any number is ordinary
	// by which pods verify the API server (TOK-3); several controllers read it
	RootCAFile string
}

// newGeneric returns the defaults.
func newGeneric() Generic {
	return Generic{MinResyncPeriod: 12 * time.Hour, ControllerShutdownTimeout: 10 * time.Second, BrakeShare: 0.5,
		BrakeLeast: 5}
}

func (o *Generic) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.UseServiceAccountCredentials, "use-service-account-credentials", o.UseServiceAccountCredentials,
		"Give each controller the identity of its own service account in kube-system.")
	fs.StringVar(&o.RootCAFile, "root-ca-file", o.RootCAFile,
		"File with the certificate authorities, in PEM, by which pods verify the API server. They are published in "+
			"each namespace and in "+
			"Secrets with tokens of service accounts. The file is read again when it changes. Without it, the "+
			"authorities by which this "+
			"process verifies the API server are published.")
	fs.DurationVar(&o.MinResyncPeriod, "min-resync-period", o.MinResyncPeriod,
		"Controllers look at every object again after a time between this and twice this.")
	fs.DurationVar(&o.ControllerStartInterval, "controller-start-interval", o.ControllerStartInterval,
		"Each controller waits for a time between this and twice this before it starts.")
	fs.DurationVar(&o.ControllerShutdownTimeout, "controller-shutdown-timeout", o.ControllerShutdownTimeout,
		"Longest wait for controllers to end when the process is told to. Zero waits without limit.")
	fs.Float64Var(&o.BrakeShare, "brake-share", o.BrakeShare,
		"A controller that is about to remove more than this share of the objects that exist, without having been "+
			"asked to by name, removes "+
			"none until it is proved to be right. Zero switches these brakes off.")
	fs.IntVar(&o.BrakeLeast, "brake-least", o.BrakeLeast,
		"Where there are fewer objects than this, --brake-share does not matter.")
}

func (o *Generic) validate() []error {
	return slices.Concat(
		flagutil.NotNegative("min-resync-period", o.MinResyncPeriod),
		flagutil.NotNegative("controller-start-interval", o.ControllerStartInterval),
		flagutil.NotNegative("controller-shutdown-timeout", o.ControllerShutdownTimeout),
		o.validateBrake(),
	)
}

// validateBrake checks the budget of the brakes. A share that is no number is none.
func (o *Generic) validateBrake() (errs []error) {
	if !(o.BrakeShare >= 0 && o.BrakeShare <= 1) {
		errs = append(errs, fmt.Errorf("--brake-share must be from 0 to 1, not %v", o.BrakeShare))
	}
	if o.BrakeLeast < 0 {
		errs = append(errs, fmt.Errorf("--brake-least must not be negative: %d", o.BrakeLeast))
	}
	return errs
}

// apply hands the options to the manager, for which zero means the default and not "never".
func (o *Generic) apply(c *Config) {
	never := func(d time.Duration) time.Duration { // on the command line, that is zero
		if d == 0 {
			return -1
		}
		return d
	}
	c.Manager.ServiceAccounts = o.UseServiceAccountCredentials
	c.Manager.RootCAFile = o.RootCAFile
	c.Manager.MinResyncPeriod = never(o.MinResyncPeriod)
	c.Manager.StartInterval = o.ControllerStartInterval
	c.Manager.ShutdownTimeout = never(o.ControllerShutdownTimeout)
	c.Manager.Brake = brake.Budget{Share: o.BrakeShare, MinObjects: o.BrakeLeast}
	if o.BrakeShare == 0 {
		c.Manager.Brake.Share = -1
	}
	if o.BrakeLeast == 0 {
		c.Manager.Brake.MinObjects = -1
	}
}
