package tidy

import (
	"bytes"
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app"
	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options/selection"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// operations is the page with the table of missing controllers, in a section that others link to.
const (
	operations     = "docs/operations.md"
	missingSection = "## Controllers that this build does not have\n"
)

// usersPages returns what people read who run the manager: pages, manifests with their comments, and the help.
func usersPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{"--help": help(t)}
	paths := []string{"README.md", "docs/tutorial.md", operations, "docs/controllers.md", "docs/security.md"}
	err := filepath.WalkDir("deploy", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		pages[path] = read(t, path)
	}
	if len(pages) < 15 {
		t.Fatalf("only %d pages found", len(pages))
	}
	return pages
}

func help(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	command := app.NewCommand(app.NewProgram("controller-manager", controllers.Registry()))
	command.SetOut(&out)
	command.SetArgs([]string{"--help"})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "--controllers ") {
		t.Fatalf("the help has no flags:\n%s", out.String())
	}
	return out.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	contractID = regexp.MustCompile(`\b([A-Z]{2,4})-[0-9]+[a-z]?\b`)

	// standards are what else has such a name: UTF-8, SHA-256.
	standards = []string{"AES", "ISO", "RFC", "RSA", "SHA", "TLS", "UTF"}
)

func contractIDs(text string) (ids []string) {
	for _, match := range contractID.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(standards, match[1]) {
			ids = append(ids, match[0])
		}
	}
	return ids
}

// TestUsersPagesHaveNoContractIDs: the numbered facts are for those who work on the code.
func TestUsersPagesHaveNoContractIDs(t *testing.T) {
	for path, text := range usersPages(t) {
		if ids := contractIDs(text); len(ids) > 0 {
			t.Errorf("%s names %s", path, strings.Join(ids, ", "))
		}
	}
}

func TestContractIDs(t *testing.T) {
	got := strings.Join(contractIDs("CLI-82, (PGC-10) in UTF-8 and SHA-256 with EP-4: v1.37.2-standalone, X-1, ABCDE-1"), " ")
	if want := "CLI-82 PGC-10 EP-4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// missingControllers returns the aliases by name of the original's controllers that this build does not have.
func missingControllers() map[string]string {
	missing := selection.Upstream()
	for _, c := range controllers.Registry() {
		delete(missing, c.Name)
	}
	return missing
}

var quotedName = regexp.MustCompile("`([a-z0-9-]+)`")

func quotedNames(text string) (names []string) {
	for _, match := range quotedName.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// TestMissingControllersAreListed: the table has each controller of the original that is not in the registry, and no other.
func TestMissingControllersAreListed(t *testing.T) {
	missing := missingControllers()
	_, section, _ := strings.Cut(read(t, operations), missingSection)
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			listed = append(listed, quotedNames(cells[1])...)
		}
	}
	for _, name := range listed {
		if _, ok := missing[name]; !ok {
			t.Errorf("%s lists %s, which is in this build, or is unknown, or is listed twice", operations, name)
		}
		delete(missing, name)
	}
	if len(missing) > 0 {
		t.Errorf("%s does not list %s", operations, strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
}

// TestAllControllersAreHere: the pages say that this build has all controllers of the original, and it has each that is not said to run in
// no build.
func TestAllControllersAreHere(t *testing.T) {
	all := selection.New(controllers.Registry())
	all.Items = slices.Sorted(maps.Keys(selection.Upstream()))
	if lacking := all.Resolve(func(string) bool { return true }).Unavailable; len(lacking) > 0 {
		t.Errorf("the build lacks %v", lacking)
	}
	said := regexp.MustCompile(`(?i)\ball (the )?controllers(]\([a-z./]+\))? of\s+kube-controller-manager 1\.37\b`)
	for _, path := range []string{"README.md", operations, "docs/parity.md"} {
		if !said.MatchString(read(t, path)) {
			t.Errorf("%s does not say so", path)
		}
	}
}

var (
	switchedOff = regexp.MustCompile(`(controllers=|value: ")\*[a-z,-]*`)
	takenOver   = regexp.MustCompile(`--controllers=[a-z][a-z,-]*`)
	ofK3s       = strings.NewReplacer(",-service,-route,-cloud-node-lifecycle", "") // what it switches off by itself
)

// TestControllersMoveTogether: wherever the original leaves controllers to this manager beside it, both have the same ones (CLI-82).
func TestControllersMoveTogether(t *testing.T) {
	var beside []string
	for _, c := range controllers.Registry() {
		if c.Beside {
			beside = append(beside, cmp.Or(c.Alias, c.Name))
		}
	}
	slices.Sort(beside)
	pages := usersPages(t)
	pages["docs/parity.md"] = read(t, "docs/parity.md")
	switches, taken := 0, 0
	for path, text := range pages {
		for _, flag := range switchedOff.FindAllString(text, -1) {
			var off []string
			for item := range strings.SplitSeq(ofK3s.Replace(flag), ",") {
				if name, ok := strings.CutPrefix(item, "-"); ok && !strings.HasPrefix(item, "--") {
					off = append(off, name)
				}
			}
			if len(off) == 0 {
				continue // an argument of a manifest
			}
			switches++
			if !slices.Equal(off, beside) {
				t.Errorf("%s says %s, which switches off %v, want %v", path, flag, off, beside)
			}
		}
		for _, flag := range takenOver.FindAllString(text, -1) {
			taken++
			if got := strings.Split(strings.TrimPrefix(flag, "--controllers="), ","); !slices.Equal(got, beside) {
				t.Errorf("%s says %s, want %v", path, flag, beside)
			}
		}
	}
	if switches < 6 || taken < 2 {
		t.Errorf("only %d values for the original and %d for this manager found", switches, taken)
	}
}

// TestCommandsKeepOneManagerActive: no command that a page tells to run starts a second active manager. Each takes part in
// leader election, and with a lease that an overlay uses, too, or the pods of the overlay would be active beside it.
func TestCommandsKeepOneManagerActive(t *testing.T) {
	leases := []string{"kube-controller-manager", "standalone-controller-manager"}
	resourceName := regexp.MustCompile(`--leader-elect-resource-name=(\S+)`)
	found := 0
	for path, text := range usersPages(t) {
		for line := range strings.Lines(text) {
			command := strings.TrimSpace(line)
			if !strings.HasPrefix(command, "bin/controller-manager ") {
				continue
			}
			found++
			if strings.Contains(command, "--leader-elect=false") {
				t.Errorf("%s starts a manager without a lease: %s", path, command)
			}
			lease := resourceName.FindStringSubmatch(command)
			if lease != nil && !slices.Contains(leases, lease[1]) {
				t.Errorf("%s: nobody else competes for the lease of %s", path, command)
			}
			if lease != nil && lease[1] == leases[1] && !takenOver.MatchString(command) {
				t.Errorf("%s: beside the original, this runs what the original runs, too: %s", path, command)
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d commands found", found)
	}
}
