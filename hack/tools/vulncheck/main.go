// Command vulncheck looks for known vulnerabilities in what a program calls. The database of the Go project comes as a module, so that
// the answer is the same with and without a network, until the version below is raised. It fails if one is found that is not accepted.
//
//	go run ./vulncheck -govulncheck PROGRAM ROOT [PACKAGE...]
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// database is the module that has all reports, and sum the hash of its content.
const (
	database = "golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018"
	sum      = "h1:mfngRv0Yoh0VApsXKEN82CjD99kl7mtparN3bs3JnqI="
)

// accepted are the vulnerabilities that do no harm here, by module, each with the reason.
var accepted = map[string]map[string]string{
	"golang.org/x/net": {
		"GO-2026-6603": http2, "GO-2026-6610": http2, "GO-2026-6611": http2, "GO-2026-6612": http2, "GO-2026-6617": http2,
	},
}

const http2 = "of this module only the HTTP/2 client is used, to reach the API server, which the manager trusts; the version is that of " +
	"Kubernetes 1.37.2"

func main() {
	program := flag.String("govulncheck", "govulncheck", "the program that reads the database")
	anyGo := flag.Bool("any-go", false, "do not fail because of the standard library, which a newer Go mends")
	flag.Parse()
	if err := run(*program, flag.Arg(0), flag.Args()[min(1, flag.NArg()):], *anyGo); err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(1)
	}
}

func run(program, root string, packages []string, anyGo bool) error {
	reports, err := download()
	if err != nil {
		return fmt.Errorf("%s: %w", database, err)
	}
	folder, err := os.MkdirTemp("", "vulncheck")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	known, err := makeDatabase(filepath.Join(reports, "data", "osv"), folder)
	if err != nil {
		return err
	}
	fmt.Printf("%d reports of %s\n", known, database)
	c := exec.Command(program, append([]string{"-C", root, "-db", "file://" + folder, "-format", "json"}, packages...)...)
	c.Stderr = os.Stderr
	output, err := c.Output()
	if err != nil {
		return err
	}
	return judge(os.Stdout, bytes.NewReader(output), anyGo)
}

// finding is a vulnerable function that the program calls, or a vulnerable module that it requires.
type finding struct {
	ID    string `json:"osv"`
	Fixed string `json:"fixed_version"`
	Trace []struct {
		Module   string `json:"module"`
		Version  string `json:"version"`
		Function string `json:"function"`
	} `json:"trace"`
}

// judge prints what is called, and returns an error if something of that is not accepted.
func judge(w io.Writer, output io.Reader, anyGo bool) error {
	found := map[string]string{}
	wrong := 0
	for decoder := json.NewDecoder(output); ; {
		var message struct {
			Finding *finding `json:"finding"`
		}
		if err := decoder.Decode(&message); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read what govulncheck says: %w", err)
		}
		f := message.Finding
		if f == nil || len(f.Trace) == 0 || f.Trace[0].Function == "" {
			continue
		}
		at := f.Trace[0]
		key := fmt.Sprintf("%s %s@%s", f.ID, at.Module, at.Version)
		if _, ok := found[key]; ok {
			continue
		}
		if reason := accepted[at.Module][f.ID]; reason != "" {
			found[key] = "accepted: " + reason
			continue
		}
		found[key] = "mended by " + f.Fixed
		if at.Module != "stdlib" || !anyGo {
			wrong++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(w, "%s: %s\n", key, found[key])
	}
	if wrong > 0 {
		return fmt.Errorf("%d vulnerabilities are called, and not accepted", wrong)
	}
	return nil
}

// download returns the folder of the module with the reports.
func download() (string, error) {
	output, err := exec.Command("go", "mod", "download", "-json", database).Output()
	var module struct{ Dir, Sum, Error string }
	if err := errors.Join(json.Unmarshal(output, &module), err); err != nil {
		return "", fmt.Errorf("%w %s", err, module.Error)
	}
	if module.Sum != sum {
		return "", fmt.Errorf("its hash is %s, not %s", module.Sum, sum)
	}
	return module.Dir, nil
}

// report is what the index needs of a report in the format OSV.
type report struct {
	ID       string `json:"id"`
	Modified string `json:"modified"`

	Aliases  []string `json:"aliases"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
		Ranges []struct {
			Events []struct {
				Fixed string `json:"fixed"`
			} `json:"events"`
		} `json:"ranges"`
	} `json:"affected"`
}

// The index of a database, as https://go.dev/doc/security/vuln/database describes it.
type (
	vulnerability struct {
		ID       string   `json:"id"`
		Modified string   `json:"modified"`
		Aliases  []string `json:"aliases,omitempty"`
	}
	moduleVulnerability struct {
		ID       string `json:"id"`
		Modified string `json:"modified"`
		Fixed    string `json:"fixed,omitempty"`
	}
	moduleOf struct {
		Path  string                `json:"path"`
		Vulns []moduleVulnerability `json:"vulns"`
	}
)

// makeDatabase writes the reports of a folder as a database, and returns how many there are.
func makeDatabase(reports, into string) (int, error) {
	paths, err := filepath.Glob(filepath.Join(reports, "*.json"))
	if err != nil || len(paths) == 0 {
		return 0, errors.Join(err, fmt.Errorf("%s has no reports", reports))
	}
	if err := os.MkdirAll(filepath.Join(into, "ID"), 0o755); err != nil {
		return 0, err
	}
	var vulns []vulnerability
	modules := map[string][]moduleVulnerability{}
	latest := ""
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		var r report
		if err := json.Unmarshal(text, &r); err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		vulns = append(vulns, vulnerability{r.ID, r.Modified, r.Aliases})
		latest = max(latest, r.Modified)
		for name, fixed := range r.fixed() {
			modules[name] = append(modules[name], moduleVulnerability{r.ID, r.Modified, fixed})
		}
		if err := os.WriteFile(filepath.Join(into, "ID", r.ID+".json"), text, 0o644); err != nil {
			return 0, err
		}
	}
	var all []moduleOf
	for path, vulns := range modules {
		all = append(all, moduleOf{path, vulns})
	}
	slices.SortFunc(all, func(a, b moduleOf) int { return strings.Compare(a.Path, b.Path) })
	return len(paths), errors.Join(
		write(into, "db.json", map[string]string{"modified": latest}),
		write(into, "vulns.json", vulns), write(into, "modules.json", all))
}

// fixed returns the modules that a report is about, each with the version that has the last fix; empty if there is none.
func (r report) fixed() map[string]string {
	modules := map[string]string{}
	for _, a := range r.Affected {
		fixed := ""
		for _, versions := range a.Ranges {
			for _, e := range versions.Events {
				if e.Fixed != "" {
					fixed = e.Fixed
				}
			}
		}
		modules[a.Package.Name] = fixed
	}
	return modules
}

func write(folder, name string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, "index"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "index", name), text, 0o644)
}
