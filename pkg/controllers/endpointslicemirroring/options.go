package endpointslicemirroring

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers     int32
	Max         int32         // addresses of a subset that are mirrored (ESM-2)
	BatchPeriod time.Duration // between a change of a slice and the reconcile (ESM-3)
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "mirroring-concurrent-service-endpoint-syncs", o.Workers,
		"Endpoints that are mirrored at the same time, from 1 to 50.")
	fs.Int32Var(&o.Max, "mirroring-max-endpoints-per-subset", o.Max,
		"How many addresses of a subset of Endpoints are mirrored, from 1 to 1000.")
	fs.DurationVar(&o.BatchPeriod, "mirroring-endpointslice-updates-batch-period", o.BatchPeriod,
		"How long a change of an EndpointSlice by somebody else waits for further ones before the slice is written "+
			"again. "+
			"A change of the Endpoints does not wait.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() (errs []error) {
	errs = append(errs, flagutil.Between("mirroring-concurrent-service-endpoint-syncs", o.Workers, 1, 50)...)
	errs = append(errs, flagutil.Between("mirroring-max-endpoints-per-subset", o.Max, 1, 1000)...)
	return append(errs, flagutil.NotNegative("mirroring-endpointslice-updates-batch-period", o.BatchPeriod)...)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "EndpointSliceMirroringController", struct {
		MirroringConcurrentServiceEndpointSyncs int32
		MirroringMaxEndpointsPerSubset          int32
		MirroringEndpointUpdatesBatchPeriod     metav1.Duration
	}{o.Workers, o.Max, metav1.Duration{Duration: o.BatchPeriod}}
}
