package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
)

const observeHelp = `Observe a cluster beside its controller manager, whichever that is. All controllers watch and plan, as those of
a manager do, and nothing is carried out: what they would do, and why, is at /debug/explain. The observer takes
part in no election, needs rights to read and nothing else, and refuses each request that writes before it is
sent. Give it the flags of your manager, without those that name keys.

With --summary it observes nothing: it asks the observer in the cluster how its plans compare with what was
written, and ends with 1 if something differs that no row of docs/parity.md explains.`

// observer begins the user agents of a process that only observes.
const observer = "controller-manager-observer"

// newObserveCommand runs the controllers without carrying out what they plan.
func newObserveCommand(p Program, o *options.Options, asked *versionFlag) *cobra.Command {
	var summary summaryOptions
	c := &cobra.Command{
		Use:     "observe [flags of the manager]",
		Short:   "Watch and plan beside any controller manager, and write nothing",
		Long:    observeHelp,
		Example: "  controller-manager observe --kubeconfig=observer.conf\n  controller-manager observe --summary",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if summary.summary {
				return summary.run(c.Context(), c.Flags().Lookup("kubeconfig").Value.String(), c.OutOrStdout())
			}
			if wrong := tellToWrite(c.Flags()); len(wrong) > 0 {
				return fmt.Errorf("an observer writes nothing, so it cannot have %s", strings.Join(wrong, ", "))
			}
			if err := c.Flags().Set("leader-elect", "false"); err != nil {
				return err
			}
			return run(c, p, o, *asked, func(config *options.Config) {
				config.Manager.ReadOnly, config.Manager.Component = true, observer
			})
		},
	}
	for _, set := range o.Flags().FlagSets {
		c.Flags().AddFlagSet(set)
	}
	c.Flags().BoolVar(&summary.summary, "summary", false,
		"Print how the plans of the observer in the cluster compare with what was written, and end.")
	c.Flags().StringVarP(&summary.output, "output", "o", "text", "Form of the summary: text or json.")
	c.Flags().BoolVar(&summary.sendToken, "send-token", false,
		"Send your token to the observer, see 'why --help'. Without it, it gets a client certificate.")
	onlyOwnFlags(c, "summary", "output", "send-token")
	return c
}

// tellToWrite returns the flags by which a command line asks for what only a process that writes can do: to hold a
// lease, to get tokens of service accounts, to sign.
func tellToWrite(flags *pflag.FlagSet) (wrong []string) {
	writes := []string{"leader-elect", "use-service-account-credentials"}
	flags.Visit(func(f *pflag.Flag) {
		signs := f.Name == "service-account-private-key-file" ||
			strings.HasPrefix(f.Name, "cluster-signing-") && strings.HasSuffix(f.Name, "key-file")
		if slices.Contains(writes, f.Name) && f.Value.String() == "true" || signs && f.Value.String() != "" {
			wrong = append(wrong, fmt.Sprintf("--%s=%s", f.Name, f.Value))
		}
	})
	return wrong
}
