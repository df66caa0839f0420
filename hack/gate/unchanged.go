package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// check is a command whose outcome follows from its inputs.
type check struct {
	name     string
	packages []string // DIR:PATTERN: packages of the module in DIR
	without  []string // folders whose packages are no inputs
	files    []string // files and folders
	command  []string
}

// environment are the variables of which the outcome of a check may depend.
var environment = []string{"KUBERNETES", "MANAGER_BINARY", "MANAGER_FLAGS", "RAPID_CHECKS", "RAPID_SEED"}

// unchanged runs a check in the root of the repository, unless it has passed with these inputs before. That it has is remembered in the
// folder that GATE_STAMPS names, which may serve several clones. Where the variable is empty, each check runs.
func unchanged(args []string) error {
	flags := flag.NewFlagSet("unchanged", flag.ContinueOnError)
	var c check
	flags.StringVar(&c.name, "name", "", "what the check is called")
	list := func(name string, to *[]string, usage string) {
		flags.Func(name, usage, func(text string) error { *to = strings.Split(text, ","); return nil })
	}
	list("packages", &c.packages, "DIR:PATTERN,...: packages whose files, and those of all that they import, are inputs")
	list("without", &c.without, "folders of packages that are no inputs, though they are imported")
	list("files", &c.files, "files and folders that are inputs, too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.command = flags.Args(); c.name == "" || len(c.command) == 0 {
		return errors.New("unchanged: a name and a command are needed")
	}
	folder := os.Getenv("GATE_STAMPS")
	if folder == "" {
		return c.run()
	}
	before, err := c.inputs()
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	stamp := filepath.Join(folder, c.name+"-"+before)
	if _, err := os.Stat(stamp); err == nil {
		fmt.Printf("%s has passed with these inputs before (%s)\n", c.name, stamp)
		return nil
	}
	if err := c.run(); err != nil {
		return err
	}
	if after, err := c.inputs(); err != nil || after != before {
		return err // they were edited meanwhile: nobody knows which have passed
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(stamp, nil, 0o644)
}

func (c check) run() error {
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// inputs is a hash of all that the outcome of a check depends on: the command, the release of Go and its settings, the environment, the
// modules, and each file in the folders of packages, also below them in testdata. The files of other modules follow from go.sum.
func (c check) inputs() (string, error) {
	hash := sha256.New()
	add := func(parts ...string) { fmt.Fprintf(hash, "%q\n", parts) }
	add(c.command...)
	for _, name := range environment {
		add(name, os.Getenv(name))
	}
	settings, err := output(".", "go", "env", "GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOFLAGS", "GOEXPERIMENT", "GODEBUG",
		"CGO_ENABLED")
	if err != nil {
		return "", err
	}
	add(settings)
	files, err := c.allFiles()
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(text)
		add(file, hex.EncodeToString(sum[:]))
	}
	return hex.EncodeToString(hash.Sum(nil))[:32], nil
}

// allFiles are the files that are inputs, in order, each once.
func (c check) allFiles() (all []string, err error) {
	for _, spec := range c.packages {
		dir, pattern, ok := strings.Cut(spec, ":")
		if !ok {
			return nil, fmt.Errorf("-packages: %q is not DIR:PATTERN", spec)
		}
		files, err := c.filesOfPackages(dir, pattern)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	for _, path := range c.files {
		files, err := filesBelow(path, func(string) bool { return true })
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return nil, errors.New("there are no inputs")
	}
	return all, nil
}

// filesOfPackages are the files of packages of this repository and of all of its packages that they and their tests import, and those that
// pin the packages of others.
func (c check) filesOfPackages(dir, pattern string) (all []string, err error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	const format = "{{if not .Standard}}{{.Dir}}\t{{with .Module}}{{.Dir}}{{end}}{{$d := .Dir}}" +
		"{{range .EmbedFiles}}\t{{$d}}/{{.}}{{end}}{{range .TestEmbedFiles}}\t{{$d}}/{{.}}{{end}}" +
		"{{range .XTestEmbedFiles}}\t{{$d}}/{{.}}{{end}}{{end}}"
	out, err := output(dir, "go", "list", "-deps", "-test", "-f", format, pattern)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		folder, err := filepath.Rel(root, fields[0])
		if len(fields) < 2 || err != nil || strings.HasPrefix(folder, "..") || c.leavesOut(folder) {
			continue
		}
		paths := append(fields[2:], filepath.Join(fields[1], "go.mod"), filepath.Join(fields[1], "go.sum"))
		if !known[folder] { // a package that is compiled again for a test names the same folder
			files, err := filesBelow(folder, func(below string) bool { return filepath.Base(below) == "testdata" })
			if err != nil {
				return nil, err
			}
			all = append(all, files...)
			known[folder] = true
		}
		for _, path := range paths {
			path, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			if _, err := os.Stat(path); err == nil && !known[path] {
				all = append(all, path)
				known[path] = true
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s in %s has no package of this repository", pattern, dir)
	}
	return all, nil
}

func (c check) leavesOut(path string) bool {
	return slices.ContainsFunc(c.without, func(folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") })
}

// filesBelow are the files in a folder, and in the folders below it that are wanted and in all below these. It may also be a file.
func filesBelow(path string, wanted func(below string) bool) (all []string, err error) {
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			first, _, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(file), filepath.ToSlash(path)+"/"), "/")
			if file != path && !wanted(filepath.Join(path, first)) {
				return fs.SkipDir
			}
		case entry.Type().IsRegular():
			all = append(all, filepath.ToSlash(file))
		}
		return nil
	})
	return all, err
}

func output(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return string(out), nil
}
