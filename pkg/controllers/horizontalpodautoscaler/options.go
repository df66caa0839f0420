package horizontalpodautoscaler

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers                int32
	SyncPeriod             time.Duration
	DownscaleStabilization time.Duration
	Tolerance              float64
	CPUInitializationTime  time.Duration
	InitialReadinessDelay  time.Duration
}

// setDefaults puts defaults in place of zeros. Where zero says something, a negative value stands for it.
func (o *Options) setDefaults() {
	o.Workers, o.SyncPeriod = cmp.Or(o.Workers, 5), cmp.Or(o.SyncPeriod, 15*time.Second)
	o.DownscaleStabilization, o.Tolerance = flagutil.Default(o.DownscaleStabilization, 5*time.Minute),
		flagutil.Default(o.Tolerance, 0.1)
	o.CPUInitializationTime = flagutil.Default(o.CPUInitializationTime, 5*time.Minute)
	o.InitialReadinessDelay = flagutil.Default(o.InitialReadinessDelay, 30*time.Second)
}

// prefix is that of the flags.
const prefix = "horizontal-pod-autoscaler-"

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-horizontal-pod-autoscaler-syncs", o.Workers,
		"Autoscalers that are reconciled at the same time.")
	fs.DurationVar(&o.SyncPeriod, prefix+"sync-period", o.SyncPeriod, "How often each autoscaler is evaluated.")
	fs.DurationVar(&o.DownscaleStabilization, prefix+"downscale-stabilization", o.DownscaleStabilization,
		"How far back an autoscaler looks before it scales down: it never goes below the highest recommendation of "+
			"this time. Autoscalers that set a window themselves do not need it.")
	fs.Float64Var(&o.Tolerance, prefix+"tolerance", o.Tolerance,
		"By how much of its target a metric may miss it before an autoscaler scales. Autoscalers may set a tolerance "+
			"of their own.")
	fs.DurationVar(&o.CPUInitializationTime, prefix+"cpu-initialization-period", o.CPUInitializationTime,
		"How long after the start of a pod its CPU samples may not count, because it still initializes.")
	fs.DurationVar(&o.InitialReadinessDelay, prefix+"initial-readiness-delay", o.InitialReadinessDelay,
		"How long after the start of a pod changes of its readiness count as those of its first start.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	errs := flagutil.Workers("concurrent-horizontal-pod-autoscaler-syncs", o.Workers)
	if o.SyncPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--%ssync-period must be more than zero, not %v", prefix, o.SyncPeriod))
	}
	errs = append(errs, flagutil.NotNegative(prefix+"downscale-stabilization", o.DownscaleStabilization)...)
	errs = append(errs, flagutil.NotNegative(prefix+"cpu-initialization-period", o.CPUInitializationTime)...)
	errs = append(errs, flagutil.NotNegative(prefix+"initial-readiness-delay", o.InitialReadinessDelay)...)
	if !(o.Tolerance >= 0) {
		errs = append(errs, fmt.Errorf("--%stolerance must not be negative: %v", prefix, o.Tolerance))
	}
	return errs
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "HPAController", struct {
		ConcurrentHorizontalPodAutoscalerSyncs              int32
		HorizontalPodAutoscalerSyncPeriod                   metav1.Duration
		HorizontalPodAutoscalerDownscaleStabilizationWindow metav1.Duration
		HorizontalPodAutoscalerTolerance                    float64
		HorizontalPodAutoscalerCPUInitializationPeriod      metav1.Duration
		HorizontalPodAutoscalerInitialReadinessDelay        metav1.Duration
	}{
		o.Workers, metav1.Duration{Duration: o.SyncPeriod}, metav1.Duration{Duration: o.DownscaleStabilization},
		o.Tolerance,
		metav1.Duration{Duration: o.CPUInitializationTime}, metav1.Duration{Duration: o.InitialReadinessDelay},
	}
}

// settings are what decisions depend on, besides objects.
func (o *Options) settings(enabled func(gate string) bool) settings {
	return settings{
		Period: o.SyncPeriod, Stabilization: o.DownscaleStabilization, Tolerance: o.Tolerance,
		CPUInitialization: o.CPUInitializationTime, ReadinessDelay: o.InitialReadinessDelay,
		OwnTolerance: enabled("HPAConfigurableTolerance"), ToZero: enabled("HPAScaleToZero"),
		PodLevelRequests: enabled("PodLevelResources"),
	}
}
