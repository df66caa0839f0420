// Package toy shows that a controller is a folder and a line of the registry. It adds a controller that exists only in an
// overlay of the build (go build -overlay), touches nothing else, and looks for it everywhere: on the command line, in the roles
// and the table of rights, and in a manager that runs.
package toy

import (
	"encoding/json"
	"errors"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// top is the root of the module.
const top = "../.."

// accepts is a server that need not be there: these command lines fail, or print something, before it is asked.
const accepts = "--master=http://127.0.0.1:1"

func TestAToyControllerIsFoundEverywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the command and the tests of its package")
	}
	overlay := "-overlay=" + overlayWith(t)
	bin := t.TempDir()
	if out, code := run(t, top, "go", "build", overlay, "-o", bin, "./cmd/controller-manager", "./hack/gen"); code != 0 {
		t.Fatalf("a folder and a line do not compile:\n%s", out)
	}
	t.Run("the command line has it", func(t *testing.T) { onTheCommandLine(t, filepath.Join(bin, "controller-manager")) })
	t.Run("the generated files follow it", func(t *testing.T) { inGeneratedFiles(t, filepath.Join(bin, "gen")) })
	t.Run("a running manager has it", func(t *testing.T) {
		// Vet would look for the folder of the toy on the disk.
		out, code := run(t, top, "go", "test", overlay, "-vet=off", "-count=1", "-v", "-run=^TestToy", "./cmd/controller-manager/app")
		if tests := strings.Count(out, "\n--- PASS: TestToy"); code != 0 || tests == 0 {
			t.Errorf("%d tests have passed:\n%s", tests, out)
		}
	})
}

// overlayWith writes the overlay, and returns where: the folder of the toy, the registry with a line more, and a test that runs
// inside the command's package.
func overlayWith(t *testing.T) string {
	t.Helper()
	replace := map[string]string{}
	for to, from := range map[string]string{"pkg/controllers/toy": "controller", "cmd/controller-manager/app": "app"} {
		files, err := filepath.Glob(filepath.Join("testdata", from, "*.go.txt"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files for %s: %v", to, err)
		}
		for _, file := range files {
			checkFormat(t, file)
			target := absolute(t, filepath.Join(top, to, strings.TrimSuffix(filepath.Base(file), ".txt")))
			if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("%s is not of the toy: %v", target, err)
			}
			replace[target] = absolute(t, file)
		}
	}
	const registry = "pkg/controllers/registry.go"
	replace[absolute(t, filepath.Join(top, registry))] = write(t, "registry.go", registryWith(t, read(t, filepath.Join(top, registry))))
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "overlay.json", string(text))
}

// registryWith adds the line of the toy, and the import that it needs.
func registryWith(t *testing.T, registry string) string {
	t.Helper()
	for before, line := range map[string]string{
		"import (\n":                       "\t\"github.com/standalone-kcm/controller-manager/pkg/controllers/toy\"\n",
		"\treturn []manager.Controller{\n": "\t\ttoy.New(toy.Options{}),\n",
	} {
		if strings.Count(registry, before) != 1 {
			t.Fatalf("the registry does not have %q once", before)
		}
		registry = strings.Replace(registry, before, before+line, 1)
	}
	return registry
}

func onTheCommandLine(t *testing.T, command string) {
	help, _ := run(t, ".", command, "help", "flags")
	for what, want := range map[string]string{
		"the list of controllers of this build": `In this build: ([a-z-]+, )*toy-controller[,.]`,
		"the list of names that are known":      `(?m)^ *Known, .* toy-controller[,.]`,
		"a section":                             `(?m)^Toy-controller flags:$`,
		"a flag and its default (CLI-7)":        `(?m)^      --concurrent-toy-syncs int32 .*`,
		"the default of a number":               `ConfigMaps that are reconciled at the same time\. \(default 2\)`,
		"the default of a text":                 `The label that a ConfigMap gets\. \(default "seen"\)`,
	} {
		if !regexp.MustCompile(want).MatchString(help) {
			t.Errorf("help flags lacks %s:\n%s", what, help)
		}
	}
	for _, test := range []struct{ name, args, want string }{
		{"CLI-6 a value that its Validate refuses", "--concurrent-toy-syncs=0", `--concurrent-toy-syncs must be at least 1, not 0`},
		{"CLI-6 with all else that is wrong", "--toy-answer=a/b --secure-port=-1",
			`\[--toy-answer is no label: .*, --secure-port must be `},
		{"CLI-5 a value of another type", "--concurrent-toy-syncs=x", `invalid argument "x" for "--concurrent-toy-syncs" flag`},
		{"CLI-5 a misspelt flag", "--concurent-toy-syncs=1", `Did you mean --concurrent-toy-syncs\?`},
		{"CLI-54 a misspelt name", "--controllers=toy-controler", `did you mean \\"toy-controller\\"\?`},
		{"CLI-50, CLI-52 its name and its alias are no mistakes", "--controllers=toy,toy-controller,-podgc --secure-port=-1",
			`err="--secure-port must be [^"]*"`},
	} {
		out, code := run(t, ".", command, append(strings.Fields(test.args), accepts)...)
		if code != 1 || !regexp.MustCompile(test.want).MatchString(out) {
			t.Errorf("%s: exit code %d, want %s:\n%s", test.name, code, test.want, out)
		}
	}
	for asked, want := range map[string]string{"--controllers=": "\ntoy-controller\n-toy-controller\ntoy\n-toy\n",
		"--concurrent-to": "--concurrent-toy-syncs"} {
		if out, _ := run(t, ".", command, "__complete", asked); !strings.Contains("\n"+out, want) {
			t.Errorf("%s is not completed:\n%s", asked, out)
		}
	}
}

// inGeneratedFiles runs hack/gen in a copy of the files that it makes. They are current before.
func inGeneratedFiles(t *testing.T, gen string) {
	copied := t.TempDir()
	for _, folder := range []string{"deploy", "docs"} {
		if err := os.CopyFS(filepath.Join(copied, folder), os.DirFS(filepath.Join(top, folder))); err != nil {
			t.Fatal(err)
		}
	}
	const roles, rights = "deploy/kustomize/roles/all/rbac.yaml", "docs/security.md"
	out, code := run(t, copied, gen, "--check")
	for _, path := range []string{roles, rights} {
		if want := path + " is out of date: run 'go run ./hack/gen'"; code != 1 || !strings.Contains(out, want) {
			t.Errorf("--check, exit code %d, does not say: %s\n%s", code, want, out)
		}
	}
	written := []string{roles, "deploy/kustomize/roles/default/rbac.yaml", rights, "docs/controllers.md",
		"deploy/chart/files/roles-all.yaml", "deploy/chart/files/roles-default.yaml"}
	if out, code := run(t, copied, gen); code != 0 || out != strings.Join(written, "\n")+"\n" {
		t.Errorf("it has written, with exit code %d:\n%s", code, out)
	}
	for path, all := range map[string]map[string]string{
		roles: {
			"the role of its account": "name: controller-manager:toy-account\nrules:\n# the answer of the toy\n- apiGroups: [\"\"]\n  " +
				"resources: [configmaps]\n  verbs: [patch]\n---\n",
			"the binding of its account": "  name: controller-manager:toy-account\nsubjects:\n- kind: ServiceAccount\n  name: " +
				"toy-account\n  namespace: kube-system\n",
			"the rights of its cache": "# the shared caches\n- apiGroups: [\"\"]\n  resources: [configmaps]\n  verbs: [list, watch]\n",
		},
		rights: {
			"its rights":              "| toy-account | everywhere | configmaps | patch | the answer of the toy |\n",
			"the rights of its cache": "| controller-manager | everywhere | configmaps | list, watch | the shared caches |\n",
		},
	} {
		text := read(t, filepath.Join(copied, path))
		for what, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s:\n%s", path, what, want)
			}
		}
		if token := regexp.MustCompile(
			`, toy-account[^\n|]*(\]\n  verbs: \[create\]| \| create \| the controllers' identities)`); !token.MatchString(text) {
			t.Errorf("%s lacks the right to have its token: %s", path, token)
		}
	}
	if out, code := run(t, copied, gen, "--check"); code != 0 {
		t.Errorf("what it has written is out of date, exit code %d:\n%s", code, out)
	}
}

// run runs a command, and returns what it has printed and its exit code.
func run(t *testing.T, dir, name string, args ...string) (string, int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=") // not in a pod
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}

func checkFormat(t *testing.T, file string) {
	t.Helper()
	text := read(t, file)
	if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
		t.Errorf("%s is not as gofmt writes it: %v", file, err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// write writes a file of its own, and returns where.
func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
