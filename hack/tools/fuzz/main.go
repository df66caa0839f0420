// Fuzz runs every fuzz target of a module for a while, one after the other: "go test -fuzz" takes one at a time.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	duration := flag.Duration("time", 10*time.Second, "how long to fuzz each target")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: fuzz [-time 10s] FOLDER_OF_A_MODULE")
		os.Exit(2)
	}
	if err := fuzzAll(flag.Arg(0), *duration); err != nil {
		fmt.Fprintf(os.Stderr, "fuzz: %v\n", err)
		os.Exit(1)
	}
}

// fuzzAll goes on after a failure, so that one run shows all.
func fuzzAll(dir string, duration time.Duration) error {
	list := exec.Command("go", "test", "-list", "^Fuzz", "./...")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the fuzz targets: %w", err)
	}
	targets := parseList(string(out))
	var failed []error
	for _, t := range targets {
		fmt.Printf("%s in %s\n", t.name, t.pkg)
		cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", duration.String(), t.pkg)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			failed = append(failed, fmt.Errorf("%s in %s: %w", t.name, t.pkg, err))
		}
	}
	fmt.Printf("%d fuzz targets, %d failed\n", len(targets), len(failed))
	return errors.Join(failed...)
}

type target struct{ pkg, name string }

// parseList reads what "go test -list" prints: the names of a package's targets, and then the package in a line such as
// "ok  example.com/pkg  0.01s".
func parseList(out string) []target {
	var found []target
	var names []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 1 && strings.HasPrefix(fields[0], "Fuzz"):
			names = append(names, fields[0])
		case len(fields) > 1 && fields[0] == "ok":
			for _, name := range names {
				found = append(found, target{pkg: fields[1], name: name})
			}
			names = nil
		}
	}
	return found
}
