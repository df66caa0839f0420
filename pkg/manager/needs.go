package manager

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/apis"
	"github.com/standalone-kcm/controller-manager/internal/identity"
)

// followAPIs has discovery asked for what controllers need or use, when the caches are started.
func (m *instance) followAPIs() (err error) {
	if m.apis, err = apis.New(m.builder.Config(identity.Informers)); err != nil {
		return err
	}
	for _, c := range m.Controllers {
		if m.on(c) {
			m.apis.Follow(c.Needs...)
			m.apis.Follow(m.uses(c)...)
		}
	}
	return nil
}

// uses returns the APIs that a controller uses when they are served.
func (m *instance) uses(c Controller) []schema.GroupVersionResource {
	all := slices.Clone(c.Uses)
	for gate, of := range c.GatedUses {
		if m.Enabled(gate) {
			all = append(all, of...)
		}
	}
	return all
}

// unserved are the controllers that are off because the API server does not serve what they need (REG-68).
func (m *instance) unserved() (all []OffState) {
	for _, r := range m.runners {
		if missing, ok := m.apis.Missing(r.Needs...); ok {
			all = append(all,
				OffState{Name: r.Name, Alias: r.Alias, Reason: "the API server does not serve " + apis.Name(missing)})
		}
	}
	return all
}

// needs returns an error that names these controllers.
func (m *instance) needs() error {
	var all []string
	for _, off := range m.unserved() {
		all = append(all, fmt.Sprintf("%s is off: %s", off.Name, off.Reason))
	}
	return fails(len(all) > 0, strings.Join(all, "; "))
}
