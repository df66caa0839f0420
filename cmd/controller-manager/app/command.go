package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

const description = `The controller manager turns what Kubernetes objects ask for into what there is:
Deployments into ReplicaSets, ReplicaSets into Pods, and so on. It works through the
API server alone, does the work of kube-controller-manager, and takes the same flags.`

// NewCommand returns the command line. Most callers want [Run], which also prints errors and knows the exit code.
func NewCommand(p Program) *cobra.Command {
	o := options.New(p.Registry)
	var asked versionFlag
	command := &cobra.Command{
		Use:           p.Name,
		Long:          description,
		SilenceErrors: true, // Run prints them
		SilenceUsage:  true,
		Args:          noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return run(c, p, o, asked, func(*options.Config) {})
		},
	}
	flags := o.Flags()
	global := flags.FlagSet("global")
	global.BoolP("help", "h", false, "Print this help.")
	global.Var(&asked, "version", "Print the version and end; 'raw' prints all there is to know about it. "+
		"With a version, as 'v1.37.2-mine', that one is reported.")
	global.Lookup("version").NoOptDefVal = "true"

	command.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	for _, name := range flags.Order {
		command.Flags().AddFlagSet(flags.FlagSets[name])
	}
	command.SetFlagErrorFunc(flagError)
	setHelp(command)
	command.AddCommand(newVersionCommand(o), newHandoverCommand(o), newObserveCommand(p, o, &asked), newWhyCommand(),
		newControllersCommand(p, o), newCheckCommand(o), newCopyCommand(),
		newCollectCommand())
	if p.Name == "kubectl-why" { // a plugin, which people call as a command of kubectl
		command.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl"}
	}
	command.SetHelpCommand(newHelpCommand(flags))
	completeValues(command, o)
	return command
}

// noArguments accepts nothing but empty strings (CLI-2).
func noArguments(c *cobra.Command, args []string) error {
	for _, arg := range args {
		if arg != "" {
			return fmt.Errorf("%q does not take any arguments, got %q%s", c.CommandPath(), args, didYouMean(c, arg))
		}
	}
	return nil
}

// didYouMean names the command that was probably meant.
func didYouMean(c *cobra.Command, arg string) string {
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	if guess := flagutil.Closest(arg, names); guess != "" {
		return fmt.Sprintf(", did you mean %q?", guess)
	}
	return ""
}

// run does what comes after parsing, in the order of CLI-57. The function adjusts what the flags amount to.
func run(c *cobra.Command, p Program, o *options.Options, asked versionFlag, adjust func(*options.Config)) error {
	early := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(c.ErrOrStderr())))
	if err := o.Features.Apply(); err != nil {
		return &runError{err, early}
	}
	if asked.print(c.OutOrStdout()) {
		return nil
	}
	if err := o.Logging.Apply(&o.Features, c.OutOrStdout(), c.ErrOrStderr()); err != nil {
		return &runError{err, early}
	}
	logger := klog.Background()
	if err := o.Features.Warn(logger); err != nil {
		return &runError{err, logger}
	}
	cliflag.PrintFlags(c.Flags())
	config, err := o.Config()
	if err != nil {
		return &runError{err, logger}
	}
	adjust(&config)
	logger.Info("Starting", "command", p.Name, "version", kubernetesVersion().GitVersion)
	remark(logger, config)
	ctx := c.Context()
	err = p.Start(klog.NewContext(ctx, logger), config)
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // a signal to end is not a failure
	}
	return &runError{err, logger}
}

// remark logs what the command line amounts to, and what it asks for in vain: each flag, gate and controller once.
func remark(logger klog.Logger, config options.Config) {
	lease := "none"
	if l := config.Manager.LeaderElection; config.Manager.LeaderElect {
		lease = l.Namespace + "/" + l.Name
	}
	on := len(running(config))
	logger.Info("Flags switch controllers on", "on", on, "of", len(config.Manager.Controllers), "lease", lease)
	if on == 0 {
		logger.Info("Warning: no controller is on, see --controllers")
	}
	for _, flag := range slices.Sorted(maps.Keys(config.Removed)) {
		logger.Info("Flag without effect", "flag", flag, "because", config.Removed[flag])
	}
	if len(config.WithoutEffect) > 0 {
		logger.Info("Flags without effect in this build", "flags", config.WithoutEffect)
	}
	if overruled := config.Selection.Overruled; len(overruled) > 0 {
		logger.Info("Items of --controllers without effect: the first item that names a controller decides", "items",
			overruled)
	}
	if unavailable := config.Selection.Unavailable; len(unavailable) > 0 {
		logger.Info("Controllers not available in this build", "controllers", unavailable)
	}
	for _, name := range slices.Sorted(maps.Keys(config.Selection.Elsewhere)) {
		logger.Info("Controller never runs here", "controller", name, "because", config.Selection.Elsewhere[name])
	}
}

// completeValues lets shells complete values. A flag whose values are files gets file names.
func completeValues(command *cobra.Command, o *options.Options) {
	for flag, values := range o.Completions() {
		complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // no such flag: a test would have seen it
		}
	}
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := command.GetFlagCompletionFunc(f.Name); !ok && !namesFile(f.Name) {
			_ = command.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
		}
	})
}

// namesFile reports by its name whether the values of a flag are files or folders.
func namesFile(flag string) bool {
	return slices.ContainsFunc([]string{"-file", "-dir", "kubeconfig", "-config", "-manifest", "-cert-key"},
		func(end string) bool {
			return strings.HasSuffix(flag, end)
		})
}
