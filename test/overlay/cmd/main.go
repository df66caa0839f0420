// Command cmd writes the overlay by which a seed decides a run of the simulation into the folder that it is given, and prints the
// name of the file for -overlay. It must run in the root of the module.
package main

import (
	"fmt"
	"os"

	"github.com/standalone-kcm/controller-manager/test/overlay"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/overlay/cmd FOLDER")
		os.Exit(2)
	}
	files, err := overlay.Seeded(".")
	var file string
	if err == nil {
		file, err = files.Write(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(file)
}
