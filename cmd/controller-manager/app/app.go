// Package app is the command: it turns arguments into a configuration, starts the program with it, and turns what
// comes of that into messages and an exit code. Nothing in it ends the process.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options/ignored"
	"github.com/standalone-kcm/controller-manager/internal/flagutil"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// Program is what the command is for.
type Program struct {
	// Name is what the user calls the command, in usage texts and errors.
	Name string

	// Registry has the controllers of this build. The command line sets their options.
	Registry []manager.Controller

	// Start runs the controllers until ctx ends (nil) or something goes wrong. The logger is in ctx.
	Start func(ctx context.Context, c options.Config) error
}

// Run executes the command line, without the name of the command, and returns the exit code: 0 or 1. It sets up
// logging, which a process can do only once; who wants the manager without its command line finds it in pkg/manager.
func Run(ctx context.Context, p Program, args []string, stdout, stderr io.Writer) int {
	defer klog.Flush()
	command := NewCommand(p)
	command.SetArgs(withoutOwnName(args))
	command.SetOut(stdout)
	command.SetErr(stderr)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var failed *runError
	switch {
	case !errors.As(err, &failed):
		fmt.Fprintf(stderr, "Error: %v\n", err)
	case errors.Is(err, leaderelection.ErrLost):
		failed.logger.Error(nil, "leaderelection lost/stopped")
	default:
		failed.logger.Error(err, "command failed")
	}
	return 1
}

// withoutOwnName leaves out a first argument that is the name of the program: manifests for images of the original,
// which have no entry point, give it as one.
func withoutOwnName(args []string) []string {
	if len(args) > 0 && slices.Contains([]string{"kube-controller-manager", "controller-manager"}, args[0]) {
		return args[1:]
	}
	return args
}

// flagError returns what is wrong with the flags in one line, with the flag that was probably meant and where to find
// help. The help itself is so long that it would hide it (CLI-5).
func flagError(c *cobra.Command, err error) error {
	message := strings.ReplaceAll(err.Error(), "\n", " ") + "."
	if number := (*strconv.NumError)(nil); errors.As(err, &number) {
		message = strings.ReplaceAll(message, number.Error(), wrongValue(number))
	}
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		if letters := unknown.GetSpecifiedShortnames(); letters != "" { // "-kubeconfig", with one dash
			name, _, _ = strings.Cut(letters, "=")
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if why := ignored.Gone(name); why != "" {
			message += " It is long gone from kube-controller-manager: " + why + "."
		} else if guess := flagutil.Closest(name, names); guess != "" && len(name) > 1 {
			message += fmt.Sprintf(" Did you mean --%s?", guess)
		}
	}
	return errors.New(message + fmt.Sprintf(" See '%s --help'.", c.CommandPath()))
}

// wrongValue says in plain words what package strconv has to say.
func wrongValue(err *strconv.NumError) string {
	switch {
	case err.Func == "ParseBool":
		return "must be true or false"
	case errors.Is(err, strconv.ErrRange):
		return "out of range"
	}
	return "must be a number"
}

// runError is what went wrong after the flags were parsed. It is logged.
type runError struct {
	error
	logger klog.Logger
}

func (e *runError) Unwrap() error { return e.error }

// UntilSignalled runs a program until it ends, and returns its exit code. The first signal ends the context that the
// program has, so that it can finish in good order; after a second one it is not waited for (CLI-63).
func UntilSignalled(signals <-chan os.Signal, program func(context.Context) int) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- program(ctx) }()
	select {
	case code := <-code:
		return code
	case s := <-signals:
		klog.InfoS("Received a signal, shutting down", "signal", s.String())
		cancel()
	}
	select {
	case code := <-code:
		return code
	case s := <-signals:
		klog.InfoS("Received a second signal, ending at once", "signal", s.String())
		klog.Flush()
		return 1
	}
}
