package options

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/metrics"
	binary "k8s.io/component-base/version"
)

// Metrics are the escape hatches for metrics (CLI-47).
type Metrics struct {
	metrics.Options
}

func newMetrics() Metrics { return Metrics{*metrics.NewOptions()} }

func (o *Metrics) addFlags(fs *pflag.FlagSet) { o.AddFlags(fs) }

// validate checks the version itself: the library compares with the version that the linker puts in, and not every build
// has that.
func (o *Metrics) validate() (errs []error) {
	previous := version.MustParse(binary.DefaultKubeBinaryVersion).SubtractMinor(1).String()
	rest := o.Options
	if v := rest.ShowHiddenMetricsForVersion; v != "" && v != previous {
		errs = append(errs, fmt.Errorf("--show-hidden-metrics-for-version=%q: must be %q or empty, only metrics hidden "+
			"since the previous version can be shown", v, previous))
	}
	rest.ShowHiddenMetricsForVersion = ""
	return append(errs, rest.Validate()...)
}
