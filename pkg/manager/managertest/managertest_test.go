package managertest

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// toyOptions are those of a controller with one flag.
type toyOptions struct{ workers int }

func (o *toyOptions) AddFlags(fs *pflag.FlagSet) { fs.IntVar(&o.workers, "toys", o.workers, "") }

func (o *toyOptions) Validate() []error { return nil }

func (o *toyOptions) Configz() (section string, fields any) { return "", nil }

func TestSetFlags(t *testing.T) {
	o := &toyOptions{workers: 5}
	registry := []manager.Controller{{Name: "toy", Flags: o}, {Name: "without options"}}
	if err := SetFlags(registry, nil); err != nil || o.workers != 5 {
		t.Errorf("%+v, %v", o, err)
	}
	if err := SetFlags(registry, map[string]string{"toys": "7"}); err != nil || o.workers != 7 {
		t.Errorf("%+v, %v", o, err)
	}
	for name, value := range map[string]string{"toys": "many", "balls": "1"} {
		if err := SetFlags(registry, map[string]string{name: value}); err == nil || !strings.Contains(err.Error(), "--"+name) {
			t.Errorf("--%s=%s: %v", name, value, err)
		}
	}
}
