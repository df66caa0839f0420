package options

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/metrics"
	binary "k8s.io/component-base/version"
	"sigs.k8s.io/yaml"
)

// Metrics are the escape hatches for metrics (CLI-47).
type Metrics struct {
	metrics.Options
	labels map[string]string // that are allowed, by metric and name; from the flag or the manifest
}

func newMetrics() Metrics { return Metrics{Options: *metrics.NewOptions()} }

func (o *Metrics) addFlags(fs *pflag.FlagSet) { o.AddFlags(fs) }

// validate checks the version itself: the library compares with the version that the linker puts in, and not every
// build has that.
func (o *Metrics) validate() (errs []error) {
	previous := version.MustParse(binary.DefaultKubeBinaryVersion).SubtractMinor(1).String()
	rest := o.Options
	if v := rest.ShowHiddenMetricsForVersion; v != "" && v != previous {
		errs = append(errs,
			fmt.Errorf("--show-hidden-metrics-for-version=%q: must be %q or empty, only metrics hidden "+
				"since the previous version can be shown", v, previous))
	}
	rest.ShowHiddenMetricsForVersion = ""
	if manifest := o.AllowListMappingManifest; rest.AllowListMapping == nil && manifest != "" {
		rest.AllowListMappingManifest = ""
		text, err := os.ReadFile(manifest)
		if err == nil {
			err = yaml.Unmarshal(text, &rest.AllowListMapping)
		}
		if err != nil {
			return append(errs, fmt.Errorf("--allow-metric-labels-manifest: %w", err))
		}
	}
	o.labels = rest.AllowListMapping
	return append(errs, rest.Validate()...)
}

func (o *Metrics) apply(c *Config) { c.Metrics = *o }

// Apply passes it to the library, which keeps it for the whole process. (Its own Apply reads the manifest too, and a
// key without a comma in it ends the process.)
func (o *Metrics) Apply() {
	if o.ShowHiddenMetricsForVersion != "" {
		metrics.SetShowHidden()
	}
	metrics.SetDisabledMetrics(o.DisabledMetrics)
	if len(o.labels) > 0 {
		metrics.SetLabelAllowList(o.labels)
	}
}
