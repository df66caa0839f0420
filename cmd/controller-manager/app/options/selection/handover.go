package selection

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Handover returns the value of --controllers with which a kube-controller-manager that has these items today leaves
// controllers to a manager beside it, and the value that this manager then has: of the controllers that may move,
// those that are on today (CLI-82).
func (o *Controllers) Handover() (original, beside string, err error) {
	if err := errors.Join(o.Validate()...); err != nil {
		return "", "", err
	}
	today := canonical(o.Items, o.known())
	var aliases, moved []string
	for _, c := range o.registry {
		if c.Beside && selected(today, controller{name: c.Name, offByDefault: c.OffByDefault}) {
			aliases = append(aliases, cmp.Or(c.Alias, c.Name))
			moved = append(moved, c.Name)
		}
	}
	slices.Sort(aliases)
	var items []string
	for i, item := range o.Items {
		if !slices.Contains(moved, today[i]) { // the first item that names a controller decides
			items = append(items, item)
		}
	}
	for _, alias := range aliases {
		items = append(items, "-"+alias)
	}
	return strings.Join(items, ","), strings.Join(aliases, ","), nil
}
