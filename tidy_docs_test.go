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
	missingLink    = "#controllers-that-this-build-does-not-have"
)

// usersPages returns what people read who run the manager: pages, manifests with their comments, and the help.
func usersPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{"--help": help(t)}
	paths := []string{"README.md", operations, "docs/controllers.md", "docs/security.md"}
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

// controllerNames returns the aliases by name of the original's controllers that this build has, and of those that are missing.
func controllerNames(t *testing.T) (present, missing map[string]string) {
	t.Helper()
	present, missing = map[string]string{}, selection.Upstream()
	for _, c := range controllers.Registry() {
		if alias, ok := missing[c.Name]; ok {
			present[c.Name] = cmp.Or(alias, c.Name)
			delete(missing, c.Name)
		}
	}
	return present, missing
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
	_, missing := controllerNames(t)
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

// warning is a quotation in Markdown that begins with the word.
var warning = regexp.MustCompile(`(?m)^> \*\*Warning:\*\*.*\n(?:>.*\n)*`)

// TestMissingControllersAreWarnedOf: who reads how to run the manager reads, before the first command, which controllers that a
// cluster needs are missing, as long as there are some.
func TestMissingControllersAreWarnedOf(t *testing.T) {
	present, missing := controllerNames(t)
	for path, heading := range map[string]string{
		"README.md":        "\n## Run it against a cluster of your own\n",
		"deploy/README.md": "",
		operations:         "",
	} {
		_, section, found := strings.Cut(read(t, path), heading)
		before, _, _ := strings.Cut(section, "```console")
		text := warning.FindString(before)
		if !found || strings.Contains(text, missingLink) != (len(missing) > 0) {
			t.Errorf("%s: the warning of missing controllers before the first command is %q; %d are missing", path, text, len(missing))
		}
		named := quotedNames(text)
		for name, alias := range present {
			if slices.Contains(named, name) || slices.Contains(named, alias) {
				t.Errorf("%s: the warning names %s, which is in this build", path, name)
			}
		}
		for _, name := range []string{
			"bootstrap-signer-controller", "certificatesigningrequest-signing-controller", "daemonset-controller",
			"garbage-collector-controller", "namespace-controller", "node-lifecycle-controller", "serviceaccount-controller",
		} {
			if alias, ok := missing[name]; ok && !slices.Contains(named, alias) {
				t.Errorf("%s: the warning does not name %s", path, alias)
			}
		}
	}
	for _, path := range []string{
		"deploy/kustomize/overlays/minimal/kustomization.yaml", "deploy/kustomize/overlays/standalone/kustomization.yaml",
		"deploy/static-pod/kube-controller-manager.yaml", "deploy/static-pod/patches/kube-controller-manager+strategic.yaml",
	} {
		const text = "\n# WARNING: There are controllers that this build does not have,"
		if strings.Contains(read(t, path), text) != (len(missing) > 0) {
			t.Errorf("%s: %d controllers are missing, but the comment says otherwise", path, len(missing))
		}
	}
}

var (
	listOfPresent = regexp.MustCompile("(?i)\\bthe controllers\\s(`[a-z-]+`(?:,\\s| and )?)+")
	switchedOff   = regexp.MustCompile(`(controllers=|value: ")\*[a-z,-]*`)
	takenOver     = regexp.MustCompile(`--controllers=[a-z][a-z,-]*`)
	ofK3s         = strings.NewReplacer(",-service,-route,-cloud-node-lifecycle", "") // what it switches off by itself
)

// TestPresentControllersAreListed: wherever a page lists the controllers of this build, the list is complete, and wherever the original
// leaves some to this manager beside it, both have the same ones (CLI-82).
func TestPresentControllersAreListed(t *testing.T) {
	present, _ := controllerNames(t)
	var want, beside []string
	for _, c := range controllers.Registry() {
		alias, known := present[c.Name]
		if known {
			want = append(want, alias)
		}
		if c.Beside {
			beside = append(beside, alias)
		}
	}
	slices.Sort(want)
	slices.Sort(beside)
	pages := usersPages(t)
	pages["docs/parity.md"] = read(t, "docs/parity.md")
	lists, switches, taken := 0, 0, 0
	for path, text := range pages {
		for _, list := range listOfPresent.FindAllString(text, -1) {
			lists++
			if got := slices.Sorted(slices.Values(quotedNames(list))); !slices.Equal(got, want) {
				t.Errorf("%s says that the controllers are %v, want %v", path, got, want)
			}
		}
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
	if lists < 2 || switches < 6 || taken < 2 {
		t.Errorf("only %d lists, %d values for the original and %d for this manager found", lists, switches, taken)
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
