package garbagecollector

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what the controller takes from flags (GC-3, GC-4).
type Options struct {
	Enabled bool
	Workers int32 // that delete, and as many that orphan
}

// AddFlags implements manager.Options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "enable-garbage-collector", o.Enabled,
		"Delete objects whose owners are gone. It must agree with the flag of that name of kube-apiserver.")
	fs.Int32Var(&o.Workers, "concurrent-gc-syncs", o.Workers, "Objects that the garbage collector deletes at the same time.")
}

// Validate implements manager.Options.
func (o *Options) Validate() []error { return flagutil.AtLeastOne("concurrent-gc-syncs", o.Workers) }

// Configz implements manager.Options.
func (o *Options) Configz() (section string, fields any) {
	return "GarbageCollectorController", struct {
		EnableGarbageCollector bool
		ConcurrentGCSyncs      int32
		GCIgnoredResources     []ignoredResource
	}{o.Enabled, o.Workers, []ignoredResource{{"", "events"}, {"events.k8s.io", "events"}}}
}

// ignoredResource is a resource that is not watched, as /configz shows it (GC-7).
type ignoredResource struct{ Group, Resource string }
