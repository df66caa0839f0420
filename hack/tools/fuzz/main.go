// Fuzz runs every fuzz target of a module for a while, which "go test -fuzz" does with one target only. As many targets as
// there are processors run at a time, each with one worker. The time is that of all together, with compiling: each target gets
// its share of what is left when the test binaries are there, and at least a few seconds. An input that fails is written to
// testdata/fuzz in the folder of its package, where "go test" runs it from then on. To commit it is to keep it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// least is how long each target is fuzzed, also where compiling takes longer than all may take, as it does the first time.
const least = 10 * time.Second

// overtime is how long a target may take to stop after the interrupt.
const overtime = 30 * time.Second

func main() {
	duration := flag.Duration("time", time.Minute, "how long to compile and fuzz all targets together")
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
	began := time.Now()
	work, err := os.MkdirTemp("", "fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	packages, cache, err := fuzzedPackages(dir)
	if err != nil {
		return err
	}
	var targets []target
	var mu sync.Mutex
	if err := inParallel(packages, func(p pkg) error {
		found, err := p.compile(filepath.Join(work, strings.ReplaceAll(p.path, "/", "_")), cache)
		mu.Lock()
		defer mu.Unlock()
		targets = append(targets, found...)
		return err
	}); err != nil {
		return err
	}
	if len(targets) == 0 {
		return errors.New("there are no fuzz targets")
	}
	compiled := time.Since(began)
	each := share(duration-compiled, min(runtime.NumCPU(), len(targets)), len(targets))
	err = inParallel(targets, func(t target) error {
		out, err := t.fuzz(each)
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%s in %s\n%s", t.name, t.pkg.path, out)
		if err != nil {
			return fmt.Errorf("%s in %s: %w", t.name, t.pkg.path, err)
		}
		return nil
	})
	fmt.Printf("%d fuzz targets, compiled in %v, %v each, %v in all\n", len(targets), compiled.Round(time.Second), each,
		time.Since(began).Round(time.Second))
	return err
}

// inParallel does something with each of all, as many at a time as there are processors, and returns what went wrong.
func inParallel[T any](all []T, do func(T) error) error {
	next := make(chan T)
	var mu sync.Mutex
	var failed []error
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for one := range next {
				err := do(one)
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
		})
	}
	for _, one := range all {
		next <- one
	}
	close(next)
	workers.Wait()
	return errors.Join(failed...)
}

// share is the time of each target when all together may take so long, in whole seconds.
func share(all time.Duration, atOnce, targets int) time.Duration {
	rounds := (targets + atOnce - 1) / atOnce
	return max(least, (all / time.Duration(rounds)).Truncate(time.Second))
}

// pkg is a package with fuzz targets.
type pkg struct{ path, dir, module string }

// fuzzedPackages returns the packages with fuzz targets, and the folder of Go's build cache.
func fuzzedPackages(dir string) (all []pkg, cache string, err error) {
	list, err := run(dir, "go", "list", "-f",
		`{{.ImportPath}}{{"\t"}}{{.Dir}}{{"\t"}}{{.Module.Path}}{{range .TestGoFiles}}{{"\t"}}{{.}}{{end}}{{range .XTestGoFiles}}{{"\t"}}{{.}}{{end}}`, "./...")
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		p := pkg{path: fields[0], dir: fields[1], module: fields[2]}
		found, err := p.hasTargets(fields[3:])
		if err != nil {
			return nil, "", err
		}
		if found {
			all = append(all, p)
		}
	}
	cache, err = run(dir, "go", "env", "GOCACHE")
	return all, strings.TrimSpace(cache), err
}

// hasTargets reports whether one of the package's test files has a fuzz target.
func (p pkg) hasTargets(files []string) (bool, error) {
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(p.dir, file))
		if err != nil {
			return false, err
		}
		if bytes.Contains(text, []byte("\nfunc Fuzz")) {
			return true, nil
		}
	}
	return false, nil
}

// compile builds the package's instrumented test binary once for all of its targets, and returns those. Only the packages of its
// module are instrumented, so that inputs lead into our code, and the dependencies are compiled as for any other test: "go test
// -fuzz" would compile all of them, and the standard library, once more.
func (p pkg) compile(binary, cache string) (targets []target, err error) {
	if _, err := run(p.dir, "go", "test", "-c", "-vet=off", "-gcflags="+p.module+"/...=-d=libfuzzer", "-o", binary, "."); err != nil {
		return nil, err
	}
	list, err := run(p.dir, binary, "-test.list", "^Fuzz")
	if err != nil {
		return nil, err
	}
	for name := range strings.FieldsSeq(list) {
		targets = append(targets,
			target{pkg: p, name: name, binary: binary, corpus: filepath.Join(cache, "fuzz", filepath.FromSlash(p.path))})
	}
	return targets, nil
}

// run returns what a program prints on its standard output.
func run(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	var stderr strings.Builder
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out), nil
}

type target struct {
	pkg    pkg
	name   string
	binary string
	corpus string // where "go test -fuzz" keeps interesting inputs, too
}

// fuzz ends the target by an interrupt, not by -test.fuzztime: when that runs out, Go before 1.27 fails now and then with "context
// deadline exceeded" though no input failed (https://go.dev/issue/75804). A target that goes on for overtime is killed, and fails.
func (t target) fuzz(duration time.Duration) (out []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	// By default up to a minute is spent on making each interesting input smaller: all of the time that there is.
	cmd := exec.CommandContext(ctx, t.binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzzminimizetime=1s",
		"-test.fuzzcachedir="+t.corpus, "-test.parallel=1")
	cmd.Dir = t.pkg.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = overtime
	out, err = cmd.CombinedOutput()
	if errors.Is(err, context.DeadlineExceeded) && cmd.ProcessState.Success() {
		err = nil
	}
	return out, err
}
