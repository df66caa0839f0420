package app

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options/selection"
	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

const examples = `Examples:
  controller-manager --kubeconfig=admin.conf                       # in a cluster that has no controller manager
  controller-manager observe --kubeconfig=observer.conf            # beside any controller manager, and writes nothing
  controller-manager check --kubeconfig=manager.conf               # what it would meet, without starting it
  controller-manager why deployment/web -n shop                    # why an object is not as it was asked to be
`

// oftenSet are the flags that the short help has. "help flags" has all.
var oftenSet = []string{
	"kubeconfig", "controllers", "feature-gates", "use-service-account-credentials", "leader-elect",
	"leader-elect-resource-name", "leader-elect-on-loss", "root-ca-file", "service-account-private-key-file",
	"cluster-signing-cert-file", "cluster-signing-key-file", "client-ca-file", "authentication-kubeconfig",
	"authorization-kubeconfig", "allocate-node-cidrs", "cluster-cidr", "service-cluster-ip-range",
	"node-monitor-grace-period", "terminated-pod-gc-threshold", "brake-share", "kube-api-qps", "bind-address",
	"secure-port", "logging-format", "v", "version",
}

// setHelp has the command print a short help of its own, and leaves its subcommands to cobra.
func setHelp(command *cobra.Command) {
	help, usage := command.HelpFunc(), command.UsageFunc()
	command.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c != command {
			help(c, args)
			return
		}
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n", c.Long)
		printUsage(c.OutOrStdout(), c)
	})
	command.SetUsageFunc(func(c *cobra.Command) error {
		if c != command {
			return usage(c)
		}
		printUsage(c.OutOrStderr(), c)
		return nil
	})
}

// printUsage prints examples, the commands, and the flags that are often set.
func printUsage(w io.Writer, c *cobra.Command) {
	fmt.Fprintf(w, "Usage:\n  %s [flags]\n  %s [command]\n\n%s\nCommands:\n", c.Name(), c.Name(), examples)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(w, "  %-13s%s\n", sub.Name(), sub.Short)
		}
	}
	fmt.Fprint(w, "\nFlags that are often set:\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range oftenSet {
		if f := c.Flags().Lookup(name); f != nil {
			value, usage := pflag.UnquoteUsage(f)
			fmt.Fprintf(table, "  --%s\t%s\n", strings.TrimSuffix(name+" "+value, " "), firstSentence(usage))
		}
	}
	_ = table.Flush() // whoever asked may have gone
	fmt.Fprintf(w, "\n'%s help flags' prints all flags, and 'help flags CONTROLLER' those of one controller.\n"+
		"'%s controllers' lists the controllers.\n", c.Name(), c.Name())
}

// mostUsage is how long a usage is in the short help.
const mostUsage = 110

// firstSentence returns a usage without what follows its first sentence.
func firstSentence(usage string) string {
	usage, _, _ = strings.Cut(usage, "\n")
	first, _, more := strings.Cut(usage, ". ")
	if more {
		first += "."
	}
	if len(first) > mostUsage {
		return first[:strings.LastIndex(first[:mostUsage], " ")] + " ..."
	}
	return first
}

// onlyOwnFlags has the help of a command leave out the flags that the manager has.
func onlyOwnFlags(c *cobra.Command, own ...string) {
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		w := c.OutOrStdout()
		fmt.Fprintf(w, "%s\n\nUsage:\n  %s %s\n\nExamples:\n%s\n\nFlags:\n", c.Long, c.Parent().CommandPath(), c.Use,
			c.Example)
		for _, name := range own {
			f := c.Flags().Lookup(name)
			fmt.Fprintf(w, "  --%s  %s\n", f.Name, f.Usage)
		}
		fmt.Fprintf(w, "  and those of the manager: see '%s help flags'\n", c.Root().Name())
	})
}

// printFlags prints all flags in sections, or those of one controller.
func printFlags(w io.Writer, flags cliflag.NamedFlagSets, controller string) error {
	if controller != "" {
		names := selection.Upstream()
		for name, alias := range names {
			if alias == controller {
				controller = name
			}
		}
		own := flags.FlagSets[controller]
		if own == nil {
			return noFlags(controller, flags, names)
		}
		flags.Order, flags.FlagSets = []string{controller}, map[string]*pflag.FlagSet{controller: own}
	}
	cliflag.PrintSections(w, flags, width(w))
	return nil
}

// noFlags says why there is no section of that name.
func noFlags(name string, flags cliflag.NamedFlagSets, controllers map[string]string) error {
	if _, known := controllers[name]; known {
		return fmt.Errorf("%s has no flags of its own", name)
	}
	names := slices.Clone(flags.Order)
	for name, alias := range controllers {
		names = append(names, name, alias)
	}
	if guess := flagutil.Closest(name, names); guess != "" {
		return fmt.Errorf("there is no controller %q, did you mean %q?", name, guess)
	}
	return fmt.Errorf("there is no controller %q", name)
}

// width returns how wide the terminal is, or 0, which wraps nothing, when w is none.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return columns
		}
	}
	return 0
}

// newHelpCommand returns a help command like cobra's, but for one that ends the process when it fails, and that knows
// the flags.
func newHelpCommand(flags cliflag.NamedFlagSets) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command | flags [controller]]",
		Short: "Print help about a command, or all flags",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "flags" {
				if len(args) > 2 {
					return fmt.Errorf("help flags takes one controller, got %q", args[1:])
				}
				return printFlags(c.OutOrStdout(), flags, strings.Join(args[1:], ""))
			}
			about, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return fmt.Errorf("there is no command %q%s", rest[0], didYouMean(about, rest[0]))
			}
			return about.Help()
		},
	}
}
