package app

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options/selection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

const controllersHelp = `List all controllers that --controllers may name: their aliases, whether they run with these
arguments, why not, and the flags that they have. Give the arguments that the manager has. No API server
is asked: what it does not serve, or what a controller lacks when it starts, is in the log of the manager.`

// controllerRow is what is said of one controller.
type controllerRow struct {
	Name  string   `json:"name"`
	Alias string   `json:"alias,omitempty"`
	On    bool     `json:"on"`
	Why   string   `json:"why,omitempty"` // it is off
	Flags []string `json:"flags,omitempty"`
}

// newControllersCommand lists the controllers. It asks no API server, so it does not know what that does not serve.
func newControllersCommand(p Program, o *options.Options) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "controllers",
		Short:   "List the controllers, and which are on",
		Long:    controllersHelp,
		Example: "  controller-manager controllers --controllers='*,-ttl' --feature-gates=GenericWorkload=true",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output must be text or json, not %s", output)
			}
			rows, err := controllerRows(p, o)
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(c.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(rows)
			}
			return writeControllers(c.OutOrStdout(), rows)
		},
	}
	for _, set := range o.Flags().FlagSets {
		set.VisitAll(func(f *pflag.Flag) {
			if slices.Contains([]string{"controllers", "feature-gates", "service-account-private-key-file"}, f.Name) {
				c.Flags().AddFlag(f)
			}
		})
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "Form of the list: text or json.")
	return c
}

// controllerRows says of all controllers, in the order of their names, whether they are on.
func controllerRows(p Program, o *options.Options) (rows []controllerRow, err error) {
	if err := o.Features.Apply(); err != nil {
		return nil, err
	}
	selected, settings, err := o.Select()
	if err != nil {
		return nil, err
	}
	aliases := selection.Upstream()
	gates := map[string][]string{}
	for _, c := range p.Registry {
		aliases[c.Name], gates[c.Name] = c.Alias, c.Gates
	}
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		row := controllerRow{Name: name, Alias: aliases[name]}
		row.Why = whyOff(name, selected, settings, gates[name])
		row.On = row.Why == ""
		if flags := o.Flags().FlagSets[name]; flags != nil {
			flags.VisitAll(func(f *pflag.Flag) { row.Flags = append(row.Flags, "--"+f.Name) })
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// whyOff says why a controller does not run; empty if it does.
func whyOff(name string, s selection.Selection, settings manager.Options, gates []string) string {
	switch {
	case selection.WhyNever(name) != "":
		return selection.WhyNever(name)
	case slices.Contains(s.Missing, name):
		return "this build does not have it"
	case s.Off[name] != "":
		return s.Off[name]
	case !slices.Contains(s.Enabled, name):
		return fmt.Sprintf("--%s has no value", selection.OwnFlag(name))
	}
	for _, gate := range gates {
		if !settings.Enabled(gate) {
			return fmt.Sprintf("the feature gate %s is off", gate)
		}
	}
	return ""
}

// writeControllers writes rows for people.
func writeControllers(w io.Writer, rows []controllerRow) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tALIAS\tRUNS\tWHY NOT\tFLAGS")
	for _, r := range rows {
		runs := "no"
		if r.On {
			runs = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Alias, runs, r.Why, strings.Join(r.Flags, " "))
	}
	return table.Flush()
}
