package options

import (
	"io"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
)

// Logging says what is logged and how (CLI-42..46).
type Logging struct {
	logsapi.LoggingConfiguration
}

func newLogging() Logging { return Logging{*logsapi.NewLoggingConfiguration()} }

func (o *Logging) addFlags(fs *pflag.FlagSet) { logsapi.AddFlags(&o.LoggingConfiguration, fs) }

// validate has nothing left to check: Apply did, because logging comes before everything else (CLI-57).
func (o *Logging) validate() []error { return nil }

func (o *Logging) apply(c *Config) { c.Logging = o.LoggingConfiguration }

// Apply sets up logging for the whole process, once: everything goes to stderr, but for the split streams of CLI-46.
func (o *Logging) Apply(f *Features, stdout, stderr io.Writer) error {
	streams := &logsapi.LoggingOptions{InfoStream: stdout, ErrorStream: stderr}
	return logsapi.ValidateAndApplyWithOptions(&o.LoggingConfiguration, streams, f.gate)
}
