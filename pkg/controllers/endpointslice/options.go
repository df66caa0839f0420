package endpointslice

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers     int32
	Max         int32         // endpoints in a slice (EPS-11)
	BatchPeriod time.Duration // between a change of a pod and the reconcile of its services (EPS-12)
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-service-endpoint-syncs", o.Workers,
		"Services whose EndpointSlices are reconciled at the same time, from 1 to 50.")
	fs.Int32Var(&o.Max, "max-endpoints-per-slice", o.Max,
		"How many endpoints an EndpointSlice may have, from 1 to 1000. More of them mean fewer and larger objects.")
	fs.DurationVar(&o.BatchPeriod, "endpointslice-updates-batch-period", o.BatchPeriod,
		"How long a change of a pod waits for further ones before the EndpointSlices are written. "+
			"A change of the Service does not wait.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() (errs []error) {
	errs = append(errs, flagutil.Between("concurrent-service-endpoint-syncs", o.Workers, 1, 50)...)
	errs = append(errs, flagutil.Between("max-endpoints-per-slice", o.Max, 1, 1000)...)
	return append(errs, flagutil.NotNegative("endpointslice-updates-batch-period", o.BatchPeriod)...)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "EndpointSliceController", struct {
		ConcurrentServiceEndpointSyncs int32
		MaxEndpointsPerSlice           int32
		EndpointUpdatesBatchPeriod     metav1.Duration
	}{o.Workers, o.Max, metav1.Duration{Duration: o.BatchPeriod}}
}
