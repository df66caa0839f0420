package selection

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// Controllers says which controllers are on (CLI-12, CLI-50..56).
type Controllers struct {
	Items []string // as given: '*', 'name' and '-name'

	registry    []manager.Controller
	implemented []string // canonical names of the controllers of this build
}

// Selection is what --controllers selects.
type Selection struct {
	Items       []string          // the flag's items, with canonical names in place of aliases (CLI-52)
	Enabled     []string          // canonical names of all that are on, in order, whether this build has them or not
	Off         map[string]string // canonical names of those of this build that the items leave off, with the reasons
	Unavailable []string          // those of Enabled that this build does not have (CLI-55)
	Elsewhere   map[string]string // canonical names of those that Items switch on and no build has, with the reasons
	Overruled   []string          // those of Items that contradict an earlier one
	Missing     []string          // canonical names of all that this build does not have, whether they are on or off
	Lacking     []string          // what does not work without those, in a cluster that has them nowhere else
}

// New returns the flag with its default, for a build that has the controllers of the registry.
func New(registry []manager.Controller) Controllers {
	o := Controllers{Items: []string{"*"}, registry: registry}
	for _, c := range registry {
		o.implemented = append(o.implemented, c.Name)
	}
	slices.Sort(o.implemented)
	return o
}

// AddFlags adds --controllers.
func (o *Controllers) AddFlags(fs *pflag.FlagSet) {
	var all, off []string
	for _, k := range o.known() {
		all = append(all, k.name)
		if k.offByDefault {
			off = append(off, k.name)
		}
	}
	fs.StringSliceVar(&o.Items, "controllers", o.Items,
		"Controllers to run. 'foo' switches the controller foo on, '-foo' "+
			"switches it off, '*' stands for all that are on by default. The first item that names a controller "+
			"decides.\n"+
			"In this build: "+strings.Join(o.implemented, ", ")+".\n"+
			"Known, so that lists made for kube-controller-manager can be kept: "+strings.Join(all, ", ")+".\n"+
			"Off by default: "+strings.Join(off, ", ")+".")
}

// known returns all controllers that may be named: those of kube-controller-manager and those that this build adds.
func (o *Controllers) known() []controller {
	all := slices.Clone(upstream)
	for _, c := range o.registry {
		if !slices.ContainsFunc(upstream, func(k controller) bool { return k.name == c.Name }) {
			all = append(all, controller{name: c.Name, alias: c.Alias, offByDefault: c.OffByDefault})
		}
	}
	return all
}

// Validate returns an error for each item that names no controller (CLI-54).
func (o *Controllers) Validate() (errs []error) {
	names := o.Names()
	for _, item := range o.Items {
		name := strings.TrimPrefix(item, "-")
		if item == "*" || slices.Contains(names, name) {
			continue
		}
		message := fmt.Sprintf("%q is not in the list of known controllers", name)
		if bare := strings.TrimSpace(item); bare != item && slices.Contains(names, strings.TrimPrefix(bare, "-")) {
			message += ", remove the space in it"
		} else if guess := flagutil.Closest(name, names); guess != "" {
			message += fmt.Sprintf(", did you mean %q?", guess)
		}
		errs = append(errs, errors.New(message))
	}
	return errs
}

// Names returns the names and aliases of all known controllers.
func (o *Controllers) Names() (names []string) {
	for _, k := range o.known() {
		names = append(names, k.name)
		if k.alias != "" {
			names = append(names, k.alias)
		}
	}
	return names
}

// Resolve returns what the items select. given reports whether a flag has a value.
func (o *Controllers) Resolve(given func(flag string) bool) Selection {
	known := o.known()
	s := Selection{Items: canonical(o.Items, known), Elsewhere: map[string]string{}}
	for i, item := range s.Items {
		opposite := strings.TrimPrefix("-"+item, "--")
		if decided := slices.Index(s.Items, opposite); decided >= 0 && decided < i &&
			!slices.Contains(s.Items[:decided], item) {
			s.Overruled = append(s.Overruled, item)
		}
	}
	for _, k := range known {
		implemented := slices.Contains(o.implemented, k.name)
		if !implemented {
			s.Missing = append(s.Missing, k.name)
		}
		on := selected(s.Items, k)
		if k.flag != "" {
			on = given(k.flag)
		}
		if !on {
			continue
		}
		s.Enabled = append(s.Enabled, k.name)
		switch {
		case k.elsewhere != "":
			if slices.Contains(s.Items, k.name) {
				s.Elsewhere[k.name] = k.elsewhere
			}
		case !implemented:
			s.Unavailable = append(s.Unavailable, k.name)
			if k.needed != "" {
				s.Lacking = append(s.Lacking, k.needed)
			}
		}
	}
	slices.Sort(s.Enabled)
	slices.Sort(s.Unavailable)
	s.Off = o.off(s)
	return s
}

// off returns why a controller of this build is off. Those that a flag of their own decides about say it themselves.
func (o *Controllers) off(s Selection) map[string]string {
	reasons := map[string]string{}
	for _, k := range o.known() {
		switch {
		case k.flag != "" || slices.Contains(s.Enabled, k.name) || !slices.Contains(o.implemented, k.name):
		case k.offByDefault:
			reasons[k.name] = "it is off by default, and --controllers does not name it"
		default:
			reasons[k.name] = "--controllers leaves it off"
		}
	}
	return reasons
}

// canonical returns the items with canonical names in place of aliases (CLI-52).
func canonical(items []string, known []controller) []string {
	result := slices.Clone(items)
	for i, item := range items {
		name, off := strings.CutPrefix(item, "-")
		for _, k := range known {
			switch {
			case k.alias == "" || k.alias != name:
			case off:
				result[i] = "-" + k.name
			default:
				result[i] = k.name
			}
		}
	}
	return result
}

// selected reports whether the items, with canonical names, switch the controller on. The first item that names it
// decides; without one '*' does, wherever it stands (CLI-50, CLI-51).
func selected(items []string, k controller) bool {
	for _, item := range items {
		switch item {
		case k.name:
			return true
		case "-" + k.name:
			return false
		}
	}
	return !k.offByDefault && slices.Contains(items, "*")
}
