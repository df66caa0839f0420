package options

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/standalone-kcm/controller-manager/internal/history"
)

// History is where the process keeps what controllers have done.
type History struct {
	Dir  string // empty: nowhere
	Size resource.QuantityValue
}

// newHistory returns the defaults.
func newHistory() History {
	return History{Size: resource.QuantityValue{Quantity: resource.MustParse("64Mi")}}
}

func (o *History) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Dir, "history-dir", o.Dir,
		"Folder in which the process keeps what controllers have created and deleted, and why, so that "+
			"'why --deleted' can tell of objects that are gone. No other process may use it. Empty keeps nothing.")
	fs.Var(&o.Size, "history-size", "Bytes that --history-dir may have; what is oldest is removed.")
}

func (o *History) validate() (errs []error) {
	if o.Size.Value() < history.Least {
		errs = append(errs, fmt.Errorf("--history-size must be at least 1Mi, not %s", &o.Size.Quantity))
	}
	return errs
}

func (o *History) apply(c *Config) { c.History = *o }
