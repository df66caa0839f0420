package endpoint

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers     int32
	BatchPeriod time.Duration // between a change of a pod and the reconcile of its services (CLI-16)
	CleanUp     bool          // when the controller is off: delete the Endpoints that it once wrote
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-endpoint-syncs", o.Workers,
		"Services whose Endpoints are reconciled at the same time.")
	fs.DurationVar(&o.BatchPeriod, "endpoint-updates-batch-period", o.BatchPeriod,
		"How long a change of a pod waits for further ones before the Endpoints are written. "+
			"A change of the Service does not wait.")
	fs.BoolVar(&o.CleanUp, "endpoint-cleanup-when-disabled", o.CleanUp,
		"When the endpoints controller is switched off, delete the Endpoints that carry its label "+
			"endpoints.kubernetes.io/managed-by, and only those, because nothing updates them any more.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return append(flagutil.Workers("concurrent-endpoint-syncs", o.Workers),
		flagutil.NotNegative("endpoint-updates-batch-period", o.BatchPeriod)...)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "EndpointController", struct {
		ConcurrentEndpointSyncs    int32
		EndpointUpdatesBatchPeriod metav1.Duration
	}{o.Workers, metav1.Duration{Duration: o.BatchPeriod}}
}
