// Gate is what the Makefile and .ci/run measure and remember with.
//
//	gate measure [-as NAME] COMMAND...
//
// runs a command and appends the processor time and the wall time that it took to the file that GATE_USAGE names. It serves as the
// -exec of go test: without a name the row is that of the package in whose folder it runs.
//
//	gate racy [-all] FOLDER...
//
// prints the packages that are tested under the race detector.
//
//	gate table FILE
//
// prints the rows of such a file: the steps, and the ten dearest packages.
//
//	gate unchanged -name NAME [-packages DIR:PATTERN,...] [-without FOLDER,...] [-files PATH,...] COMMAND...
//
// runs a command, unless it has passed with the same inputs before: see inputs.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	commands := map[string]func(args []string) error{"measure": measure, "racy": racy, "table": printTable, "unchanged": unchanged}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: gate measure|racy|table|unchanged ...")
		os.Exit(2)
	}
	err := commands[os.Args[1]](os.Args[2:])
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}
