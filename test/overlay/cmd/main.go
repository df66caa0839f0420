// Command cmd writes the overlay with which the simulation is compiled into the folder that it is given, and prints the name of the file
// for -overlay: a seed decides a run, and the known mistakes of test/mutation are there, switched off. It must run in the root of the
// module.
package main

import (
	"fmt"
	"os"

	"github.com/standalone-kcm/controller-manager/test/mutation"
	"github.com/standalone-kcm/controller-manager/test/overlay"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/overlay/cmd FOLDER")
		os.Exit(2)
	}
	file, err := write(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(file)
}

// write leaves the mistakes out if one of them does not fit the code any more: the simulation is needed while that is edited, too. The
// tests of test/mutation then fail.
func write(folder string) (string, error) {
	file, err := mutation.Overlay(".", folder, suite.Mutants())
	if err == nil {
		return file, nil
	}
	fmt.Fprintln(os.Stderr, "without mutants:", err)
	files, err := overlay.Seeded(".")
	if err != nil {
		return "", err
	}
	if err := files.CheckLocks("."); err != nil {
		return "", err
	}
	return files.Write(folder)
}
