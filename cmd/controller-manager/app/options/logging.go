package options

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/standalone-kcm/controller-manager/internal/identity"
)

// Logging says what is logged and how (CLI-42..46).
type Logging struct {
	logsapi.LoggingConfiguration
}

func newLogging() Logging { return Logging{*logsapi.NewLoggingConfiguration()} }

func (o *Logging) addFlags(fs *pflag.FlagSet) {
	logsapi.AddFlags(&o.LoggingConfiguration, fs)
	fs.Lookup("logging-format").Usage = "Form of the log: 'text' or 'json'."
	fs.Lookup("v").Usage = "How much is logged: 0 what operators need, 2 what changes, 4 and more for a search."
}

// validate has nothing left to check: Apply did, because logging comes before everything else (CLI-57).
func (o *Logging) validate() []error { return nil }

func (o *Logging) apply(c *Config) { c.Logging = o.LoggingConfiguration }

// Apply sets up logging for the whole process, once: everything is written to stderr, but for the split streams of
// CLI-46. What client-go logs of the bodies of requests is left out, see [identity.WithoutBodies].
func (o *Logging) Apply(f *Features, stdout, stderr io.Writer) error {
	if errs := logsapi.Validate(&o.LoggingConfiguration, f.gate, nil); len(errs) > 0 {
		var err error = errs.ToAggregate()
		if errs[0].Field == "format" {
			err = fmt.Errorf("%w; --logging-format must be text or json", err)
		}
		return err
	}
	c := o.LoggingConfiguration.DeepCopy()
	// The library buffers in a way that a logger in front of its own cannot flush.
	info := &infoBuffer{out: stdout}
	switch c.Format {
	case logsapi.JSONLogFormat:
		info.limit = c.Options.JSON.InfoBufferSize.Value()
	case logsapi.DefaultLogFormat:
		info.limit = c.Options.Text.InfoBufferSize.Value()
	}
	c.Options.JSON.InfoBufferSize, c.Options.Text.InfoBufferSize = resource.QuantityValue{}, resource.QuantityValue{}
	streams := &logsapi.LoggingOptions{InfoStream: info, ErrorStream: stderr}
	if err := logsapi.ValidateAndApplyWithOptions(c, streams, contextual{f.gate}); err != nil {
		return err
	}
	logger := klog.Background()
	on := f.gate.Enabled(logsapi.ContextualLogging)
	how := []klog.LoggerOption{klog.ContextualLogger(on), klog.FlushLogger(info.flush)}
	if w, ok := logger.GetSink().(textlogger.KlogBufferWriter); ok {
		how = append(how, klog.WriteKlogBuffer(w.WriteKlogBuffer))
	}
	klog.SetLoggerWithOptions(identity.WithoutBodies(logger), how...)
	klog.EnableContextualLogging(on)
	return nil
}

// contextual is the gate with ContextualLogging on: without it klog does not hand out the logger that was set up.
type contextual struct{ featuregate.FeatureGate }

func (g contextual) Enabled(name featuregate.Feature) bool {
	return name == logsapi.ContextualLogging || g.FeatureGate.Enabled(name)
}

// infoBuffer holds what is written back, up to a limit of bytes, until it is flushed. Each line is written whole.
type infoBuffer struct {
	out   io.Writer
	limit int64

	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (b *infoBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if int64(b.buffer.Len()+len(line)) > b.limit {
		if _, err := b.buffer.WriteTo(b.out); err != nil {
			return 0, err
		}
	}
	if int64(len(line)) > b.limit {
		return b.out.Write(line)
	}
	return b.buffer.Write(line)
}

// flush writes what was held back.
func (b *infoBuffer) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = b.buffer.WriteTo(b.out) // there is nowhere to say that the log cannot be written
}
