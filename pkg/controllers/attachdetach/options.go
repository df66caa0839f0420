package attachdetach

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller. Zeros stand for the defaults of the flags.
type Options struct {
	// ReconcileSyncPeriod and DisableReconcileSync have no effect: VolumeAttachments are watched, so there is nothing
	// to compare by the clock.
	ReconcileSyncPeriod  time.Duration
	DisableReconcileSync bool
	// DisableForceDetachOnTimeout keeps volumes attached that a node that is not ready has in use, until somebody says
	// that it is out of service.
	DisableForceDetachOnTimeout bool
}

func (o *Options) setDefaults() {
	o.ReconcileSyncPeriod = flagutil.Default(o.ReconcileSyncPeriod, time.Minute)
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.ReconcileSyncPeriod, "attach-detach-reconcile-sync-period", o.ReconcileSyncPeriod,
		"Without effect: VolumeAttachments are watched at all times. It must be at least a second.")
	fs.BoolVar(&o.DisableReconcileSync, "disable-attach-detach-reconcile-sync", o.DisableReconcileSync,
		"Without effect, like --attach-detach-reconcile-sync-period.")
	fs.BoolVar(&o.DisableForceDetachOnTimeout, "disable-force-detach-on-timeout", o.DisableForceDetachOnTimeout,
		"Keep volumes attached that a node that is not ready has in use, however long, until it has the taint "+
			"node.kubernetes.io/out-of-service.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	if o.ReconcileSyncPeriod < time.Second { // AD-1, with the name that the original has for it
		return []error{errors.New("duration time must be greater than one second as set via command line option " +
			"reconcile-sync-loop-period")}
	}
	return nil
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "AttachDetachController", struct {
		DisableAttachDetachReconcilerSync bool
		ReconcilerSyncLoopPeriod          metav1.Duration
		DisableForceDetachOnTimeout       bool
	}{o.DisableReconcileSync, metav1.Duration{Duration: o.ReconcileSyncPeriod}, o.DisableForceDetachOnTimeout}
}
