package nodelifecycle

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller. Zeros stand for the defaults of the flags; where zero says
// something, a negative value stands for it.
type Options struct {
	// how long a node has to be unhealthy before its zone is asked whether it may be tainted
	MonitorPeriod         time.Duration
	MonitorGracePeriod    time.Duration // silence after which a node is Unknown
	StartupGracePeriod    time.Duration // the same for a node that has never been ready or not ready
	EvictionRate          float32       // nodes of a zone that get a NoExecute taint in a second
	SecondaryEvictionRate float32       // the same in a large zone of which a part is down
	LargeClusterSize      int32         // zones of at most so many nodes are not large
	UnhealthyThreshold    float32       // the share of nodes that are not ready from which on a part of a zone is down
}

func (o *Options) setDefaults() {
	o.MonitorPeriod = flagutil.Default(o.MonitorPeriod, 5*time.Second)
	o.MonitorGracePeriod, o.StartupGracePeriod = flagutil.Default(o.MonitorGracePeriod, 50*time.Second),
		flagutil.Default(o.StartupGracePeriod, time.Minute)
	o.EvictionRate, o.SecondaryEvictionRate = flagutil.Default(o.EvictionRate, 0.1),
		flagutil.Default(o.SecondaryEvictionRate, 0.01)
	o.LargeClusterSize, o.UnhealthyThreshold = flagutil.Default(o.LargeClusterSize, 50),
		flagutil.Default(o.UnhealthyThreshold, 0.55)
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.MonitorPeriod, "node-monitor-period", o.MonitorPeriod,
		"How long a node has to be unhealthy before it may get a NoExecute taint.")
	fs.DurationVar(&o.MonitorGracePeriod, "node-monitor-grace-period", o.MonitorGracePeriod,
		"How long a node may give no sign of life before it is declared Unknown. It must be several times as long as "+
			"kubelets take to renew their Leases (10s).")
	fs.DurationVar(&o.StartupGracePeriod, "node-startup-grace-period", o.StartupGracePeriod,
		"The same for a node whose kubelet has never reported whether it is ready.")
	fs.Float32Var(&o.EvictionRate, "node-eviction-rate", o.EvictionRate,
		"How many nodes of a zone get a NoExecute taint in a second.")
	fs.Float32Var(&o.SecondaryEvictionRate, "secondary-node-eviction-rate", o.SecondaryEvictionRate,
		"The same in a zone of which a part is down (--unhealthy-zone-threshold), if it is large "+
			"(--large-cluster-size-threshold). In other such zones no node gets one.")
	fs.Int32Var(&o.LargeClusterSize, "large-cluster-size-threshold", o.LargeClusterSize,
		"Zones with more nodes than this are large.")
	fs.Float32Var(&o.UnhealthyThreshold, "unhealthy-zone-threshold", o.UnhealthyThreshold,
		"The share of the nodes of a zone that are not ready, and at least three, from which on a part of the zone "+
			"counts as down.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	errs := flagutil.NotNegative("node-monitor-period", o.MonitorPeriod)
	errs = append(errs, flagutil.NotNegative("node-monitor-grace-period", o.MonitorGracePeriod)...)
	errs = append(errs, flagutil.NotNegative("node-startup-grace-period", o.StartupGracePeriod)...)
	for flag, value := range map[string]float32{"node-eviction-rate": o.EvictionRate,
		"secondary-node-eviction-rate": o.SecondaryEvictionRate, "unhealthy-zone-threshold": o.UnhealthyThreshold} {
		if !(value >= 0) {
			errs = append(errs, fmt.Errorf("--%s must not be negative: %v", flag, value))
		}
	}
	return errs
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "NodeLifecycleController", struct {
		NodeEvictionRate, SecondaryNodeEvictionRate    float32
		NodeStartupGracePeriod, NodeMonitorGracePeriod metav1.Duration
		NodeMonitorPeriod                              metav1.Duration
		LargeClusterSizeThreshold                      int32
		UnhealthyZoneThreshold                         float32
	}{o.EvictionRate, o.SecondaryEvictionRate, metav1.Duration{Duration: o.StartupGracePeriod},
		metav1.Duration{Duration: o.MonitorGracePeriod},
		metav1.Duration{Duration: o.MonitorPeriod}, o.LargeClusterSize, o.UnhealthyThreshold}
}
