package tainteviction

import (
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Options are what can be set of the controller.
type Options struct {
	// RespectBudgets has pods evicted by the eviction API, which refuses what a PodDisruptionBudget does not allow.
	// The controller tries again until it is allowed.
	RespectBudgets bool
	// GracePeriod is how long a node that was down may take to be ready again, before its pods are evicted for a time
	// in which nobody led, or in which nodes could not be read. Zero stands for 50 seconds, as for the node lifecycle
	// controller.
	GracePeriod time.Duration
	// Evict takes the place of the deletion of a pod that is due: it returns the steps that have it go, which may be
	// none, as when another controller is asked for it. It is called again, at growing intervals of up to five
	// minutes, as long as the pod is there and due. If it is nil, the pod gets a condition and is deleted.
	Evict func(p *corev1.Pod, taint string) []plan.Step
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.RespectBudgets, "taint-eviction-respect-disruption-budgets", o.RespectBudgets,
		"Evict pods by the eviction API, which obeys PodDisruptionBudgets, and try again until it allows that. "+
			"Without it they are deleted, as by kube-controller-manager.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error { return nil }

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) { return "", nil }
