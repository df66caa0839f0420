// Fuzz runs every fuzz target of a module for a while, which "go test -fuzz" does with one target only. As many targets as
// there are processors run at a time, each with one worker. The time is that of all together, each gets its share.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

func main() {
	duration := flag.Duration("time", time.Minute, "how long to fuzz all targets together")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: fuzz [-time 1m] FOLDER_OF_A_MODULE")
		os.Exit(2)
	}
	if err := fuzzAll(flag.Arg(0), *duration); err != nil {
		fmt.Fprintf(os.Stderr, "fuzz: %v\n", err)
		os.Exit(1)
	}
}

// fuzzAll goes on after a failure, so that one run shows all. What a target prints is shown when it is done.
func fuzzAll(dir string, duration time.Duration) error {
	list := exec.Command("go", "test", "-list", "^Fuzz", "./...")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the fuzz targets: %w", err)
	}
	targets := parseList(string(out))
	if len(targets) == 0 {
		return errors.New("there are no fuzz targets")
	}
	atOnce := min(runtime.NumCPU(), len(targets))
	each := share(duration, atOnce, len(targets))
	next := make(chan target)
	var mu sync.Mutex
	var failed []error
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for t := range next {
				out, err := t.fuzz(dir, each)
				mu.Lock()
				fmt.Printf("%s in %s\n%s", t.name, t.pkg, out)
				if err != nil {
					failed = append(failed, fmt.Errorf("%s in %s: %w", t.name, t.pkg, err))
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range targets {
		next <- t
	}
	close(next)
	workers.Wait()
	fmt.Printf("%d fuzz targets, %v each, %d failed\n", len(targets), each, len(failed))
	return errors.Join(failed...)
}

// share is the time of each target when all together may take so long, in whole seconds.
func share(all time.Duration, atOnce, targets int) time.Duration {
	rounds := (targets + atOnce - 1) / atOnce
	return max(time.Second, (all / time.Duration(rounds)).Truncate(time.Second))
}

func (t target) fuzz(dir string, duration time.Duration) (out []byte, err error) {
	// By default up to a minute is spent on making each interesting input smaller: all of the time that there is.
	cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", duration.String(), "-fuzzminimizetime", "1s",
		"-parallel", "1", t.pkg)
	cmd.Dir = dir
	return cmd.CombinedOutput()
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
