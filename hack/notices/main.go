// Command notices writes the license of the project, and those of the Go modules and of Go itself that are in its binaries. Whoever hands
// out the binaries hands these on.
//
//	go run ./hack/notices -platforms linux/amd64,linux/arm64 FOLDER
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

func main() {
	platforms := flag.String("platforms", runtime.GOOS+"/"+runtime.GOARCH, "what the binaries are for")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: notices [-platforms P] FOLDER")
		os.Exit(2)
	}
	if err := write(strings.Split(*platforms, ","), flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// write writes LICENSE and THIRD_PARTY_NOTICES.
func write(platforms []string, folder string) error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	modules, err := linked(platforms)
	if err != nil {
		return err
	}
	notices, err := collect(modules)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "LICENSE"), license, 0o644),
		os.WriteFile(filepath.Join(folder, "THIRD_PARTY_NOTICES"), notices, 0o644),
	)
}

// module is one that has packages in a binary.
type module struct{ name, dir string }

// linked returns the modules of all packages of the binary, and Go, sorted.
func linked(platforms []string) (modules []module, err error) {
	const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}|{{with .Replace}}{{.Dir}}{{else}}{{.Dir}}{{end}}{{end}}{{end}}`
	for _, platform := range platforms {
		system, machine, ok := strings.Cut(platform, "/")
		if !ok {
			return nil, fmt.Errorf("platform %q: want system/machine", platform)
		}
		cmd := exec.Command("go", "list", "-deps", "-f", format, "./cmd/controller-manager")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list the packages for %s: %w\n%s", platform, err, stderr.Bytes())
		}
		for _, line := range strings.Fields(strings.ReplaceAll(string(out), " ", "@")) {
			name, dir, _ := strings.Cut(line, "|")
			modules = append(modules, module{name, dir})
		}
	}
	out, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, err
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.name, b.name) })
	return append([]module{{"Go " + version, root}}, slices.Compact(modules)...), nil
}

// licenseFile is the name of a file that has to be handed on.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// collect returns the texts of all modules, each text once. A module without a license is an error: nobody may hand it out.
func collect(modules []module) ([]byte, error) {
	var order []string
	of := map[string][]string{} // by the text
	for _, m := range modules {
		files, err := texts(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no license", m.name)
		}
		for _, name := range files {
			data, err := os.ReadFile(filepath.Join(m.dir, name))
			if err != nil {
				return nil, err
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n"))
			if of[text] == nil {
				order = append(order, text)
			}
			of[text] = append(of[text], m.name+" "+filepath.ToSlash(name))
		}
	}
	out := bytes.NewBufferString("The binaries contain code of the following modules, under these licenses.\n")
	for _, text := range order {
		fmt.Fprintf(out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(of[text], "\n"), text)
	}
	return out.Bytes(), nil
}

// texts returns the license files of a module: in its folder and below, where it has code of others. Of Go itself, the one of the library.
func texts(m module) (files []string, err error) {
	if strings.HasPrefix(m.name, "Go ") {
		return []string{"LICENSE"}, nil
	}
	err = filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor"):
			return filepath.SkipDir
		case !d.IsDir() && licenseFile.MatchString(d.Name()) && filepath.Ext(d.Name()) != ".go":
			name, err := filepath.Rel(m.dir, path)
			files = append(files, name)
			return err
		}
		return nil
	})
	return files, err
}
