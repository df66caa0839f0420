package garbagecollector

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller (GC-3, GC-4).
type Options struct {
	enabled bool
	Workers int32 // that delete, and as many that orphan
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.enabled, "enable-garbage-collector", o.enabled,
		"Delete objects whose owners are gone. It must agree with the flag of that name of kube-apiserver.")
	fs.Int32Var(&o.Workers, "concurrent-gc-syncs", o.Workers,
		"Objects that the garbage collector deletes at the same time.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error { return flagutil.Workers("concurrent-gc-syncs", o.Workers) }

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "GarbageCollectorController", struct {
		EnableGarbageCollector bool
		ConcurrentGCSyncs      int32
		GCIgnoredResources     []ignoredResource
	}{o.enabled, o.Workers, []ignoredResource{{"", "events"}, {"events.k8s.io", "events"}}}
}

// ignoredResource is a resource that is not watched, as /configz shows it (GC-7).
type ignoredResource struct{ Group, Resource string }
