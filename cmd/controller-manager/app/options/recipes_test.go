package options

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

var (
	commandLine = regexp.MustCompile(`(?m)^ *bin/controller-manager (-.*)$`)
	// listOfControllers is a value that the original or this manager gets: as an argument, in k3s's configuration, or in kubeadm's.
	listOfControllers = regexp.MustCompile(`(?:controllers=|name: controllers\n *value: )["']?([a-z*-][a-z*,-]+)`)
	argument          = regexp.MustCompile(`(?m)^ *(?:value:|-) (--[a-z-]+(?:=\S*)?)$`)
	nameAndValue      = regexp.MustCompile(`- name: ([a-z-]+)\n *value: "?([^"\n]+)"?`)
)

// TestRecipes: what people are told to run, and the arguments in the manifests, can be parsed, and all controllers that they name exist.
// The pages can be followed as far as this goes where the other program cannot be tried (kubeadm, k3s, vcluster).
func TestRecipes(t *testing.T) {
	paths := []string{"README.md", "docs/tutorial.md", "docs/operations.md", "deploy/README.md", "deploy/kustomize/base/deployment.yaml",
		"deploy/kustomize/overlays/beside-upstream/kustomization.yaml", "deploy/static-pod/kube-controller-manager.yaml"}
	lists, lines := 0, 0
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", path))
		if err != nil {
			t.Fatal(err)
		}
		page := string(text)
		for _, list := range listOfControllers.FindAllStringSubmatch(page, -1) {
			lists++
			parsed(t, path, "--controllers="+list[1])
		}
		for _, line := range commandLine.FindAllStringSubmatch(page, -1) {
			lines++
			parsed(t, path, strings.Fields(line[1])...)
		}
		for _, arg := range argument.FindAllStringSubmatch(page, -1) {
			lines++
			parsed(t, path, arg[1])
		}
		for _, pair := range nameAndValue.FindAllStringSubmatch(page, -1) {
			lines++
			parsed(t, path, "--"+pair[1]+"="+pair[2])
		}
	}
	if lists < 8 || lines < 25 {
		t.Errorf("only %d lists and %d lines found", lists, lines)
	}
}

func parsed(t *testing.T, path string, args ...string) {
	t.Helper()
	o, err := parseFor(controllers.Registry(), args...)
	if err == nil {
		_, _, err = o.Controllers.Handover() // which looks at each name
	}
	if err != nil {
		t.Errorf("%s: %q: %v", path, args, err)
	}
}

// TestUnits: the units of systemd have the arguments that TestLaunchers tries.
func TestUnits(t *testing.T) {
	for _, launcher := range []string{"k0s", "k3s"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "deploy", "systemd", "controller-manager-"+launcher+".service"))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "\nExecStart=/usr/local/bin/controller-manager \\\n")
		command, _, _ := strings.Cut(after, "\nRestart=")
		var got []string
		for line := range strings.Lines(command) {
			got = append(got, strings.TrimSuffix(strings.TrimSpace(line), " \\"))
		}
		list, err := os.ReadFile(filepath.Join("testdata", "launchers", launcher))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for line := range strings.Lines(string(list)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "--") {
				want = append(want, line)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the unit has\n%q\nand not\n%q", launcher, got, want)
		}
	}
}
