package resourcequota

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers    int32
	SyncPeriod time.Duration // RQ-2; negative: never
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-resource-quota-syncs", o.Workers, "Quotas that are processed at the same time.")
	fs.DurationVar(&o.SyncPeriod, "resource-quota-sync-period", o.SyncPeriod,
		"How often the usage of all quotas is counted anew; 0 for never. "+
			"Changes are always counted when they happen.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return append(flagutil.Workers("concurrent-resource-quota-syncs", o.Workers),
		flagutil.NotNegative("resource-quota-sync-period", o.SyncPeriod)...)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "ResourceQuotaController", struct {
		ResourceQuotaSyncPeriod      metav1.Duration
		ConcurrentResourceQuotaSyncs int32
	}{metav1.Duration{Duration: o.SyncPeriod}, o.Workers}
}
