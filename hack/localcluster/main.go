// Localcluster runs a real Kubernetes control plane on this machine: etcd, kube-apiserver, kube-scheduler, and kwok, which
// plays nodes and pods. Everything binds to the loopback interface. The programs are built from pinned Go modules
// (the folders etcd, kubernetes and kwok beside this file), once, into the user's cache folder.
//
// See README.md for its use from the command line and package test/cluster for its use from tests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// command is one of localcluster's subcommands.
type command struct {
	name string
	args string
	help string
	run  func(ctx context.Context, flags *flag.FlagSet, args []string) error
}

func commands() []command {
	return []command{
		{"run", "", "create a cluster with our controller manager, show a rollout, stay until Ctrl-C", runRun},
		{"build", "", "build the control plane's programs, unless that is done", runBuild},
		{"create", "", "create a cluster and print its description as JSON", runCreate},
		{"delete", "", "end a cluster's processes and remove its folder", runDelete},
		{"list", "", "list the clusters", runList},
		{"prune", "", "delete the clusters whose owner has died", runPrune},
		{"stop-component", "COMPONENT", "stop one of a cluster's programs, e.g. kube-apiserver", runStopComponent},
		{"start-component", "COMPONENT", "start it again", runStartComponent},
		{"kill-node", "NODE", "have a node renew its Lease no longer, as if it had died, and show what follows", runKillNode},
		{"revive-node", "NODE", "bring it back", runReviveNode},
		{"path", "PROGRAM", "print where a built program is, e.g. kubectl", runPath},
		{"clean", "", "delete all clusters and the built programs", runClean},
	}
}

func main() {
	// Whoever reads our output may die first. That shall fail a write, not end us before we have cleaned up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := dispatch(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "localcluster: %v\n", err)
		os.Exit(1)
	}
}

// dispatch runs the subcommand that args name.
func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		printUsage()
		return nil
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
		flags.Usage = func() {
			fmt.Fprintf(flags.Output(), "Usage: localcluster %s [flags] %s\n\n%s\n\n", c.name, c.args, c.help)
			flags.PrintDefaults()
		}
		err := c.run(ctx, flags, args[1:])
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	return fmt.Errorf("unknown command %q; 'localcluster help' lists the commands", args[0])
}

func printUsage() {
	fmt.Fprint(os.Stderr, "A real Kubernetes control plane on this machine.\n\nUsage: localcluster COMMAND [flags]\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(os.Stderr, "  %-16s %s\n", c.name, c.help)
	}
	fmt.Fprint(os.Stderr, "\n'localcluster COMMAND --help' lists a command's flags.\n")
}

// parse reads a command's flags and checks that exactly n arguments follow them.
func parse(flags *flag.FlagSet, args []string, n int) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != n {
		return fmt.Errorf("%s: expected %d argument(s) after the flags, got %d", flags.Name(), n, flags.NArg())
	}
	return nil
}
