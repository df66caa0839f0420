// Command controller-manager does the work of kube-controller-manager, and takes its place.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// main turns signals into the end of a context, limits the memory and runs the command. It alone ends the
// process.
func main() {
	limitMemory(os.LookupEnv, os.DirFS("/"))
	go manageMemory(context.Background(), garbageTuner(os.LookupEnv), allocated, debug.FreeOSMemory)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	name, args := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), os.Args[1:]
	if name == kubectlWhy {
		args = append([]string{"why"}, args...)
	}
	program := app.NewProgram(name, controllers.Registry())
	os.Exit(app.UntilSignalled(signals, func(ctx context.Context) int {
		return app.Run(ctx, program, args, os.Stdout, os.Stderr)
	}))
}

// kubectlWhy is the name by which kubectl finds the command why, as "kubectl why".
const kubectlWhy = "kubectl-why"
