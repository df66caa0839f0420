package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
)

// Each package that programs share with kube-apiserver would be compiled anew if only one version below it were another one.
func TestProgramsAreMadeOfWhatIsThere(t *testing.T) {
	want := requiredVersions(t, "kubernetes")
	for _, row := range []struct {
		folder string
		least  int      // modules that are shared
		other  []string // modules that no package of kube-apiserver is made of
	}{
		{"csi", 50, []string{"k8s.io/csi-translation-lib", "github.com/container-storage-interface/spec"}},
		{"etcd", 40, nil},
		{"kwok", 70, []string{"github.com/go-errors/errors"}},
		{filepath.Join("..", ".."), 50, nil},
		{filepath.Join("..", "..", "test", "csidriver"), 40, []string{"github.com/container-storage-interface/spec"}},
		{filepath.Join("..", "..", "test", "differential"), 40, nil},
	} {
		have := requiredVersions(t, row.folder)
		for _, module := range row.other {
			if have[module] == "" {
				t.Errorf("%s/go.mod has no %s", row.folder, module)
			}
			delete(have, module)
		}
		shared := 0
		for module, version := range have {
			switch want[module] {
			case "":
			case version:
				shared++
			default:
				t.Errorf("%s/go.mod has %s %s, and kubernetes/go.mod %s: exclude the former, or require the latter, and run 'go mod tidy'",
					row.folder, module, version, want[module])
			}
		}
		if shared < row.least {
			t.Errorf("%s: only %d modules are shared", row.folder, shared)
		}
	}
}

// requiredVersions are those that a go.mod requires, or puts in their place.
func requiredVersions(t *testing.T, folder string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, block := range regexp.MustCompile(`(?s)\n(require|replace) \((.*?)\n\)`).FindAllStringSubmatch(string(data), -1) {
		for line := range strings.Lines(strings.TrimSpace(block[2])) {
			fields := strings.Fields(strings.Replace(line, "=> ", "", 1))
			switch {
			case block[1] == "require":
				all[fields[0]] = fields[1]
			case len(fields) == 3 && fields[0] == fields[1] && all[fields[0]] != "":
				all[fields[0]] = fields[2]
			}
		}
	}
	return all
}

func TestTheDriverIsBuiltAnewWhenItHasChanged(t *testing.T) {
	repository := t.TempDir()
	tools := &toolbox{source: filepath.Join(repository, "hack", "localcluster"), state: t.TempDir()}
	folder := filepath.Join(repository, "test", driverProgram)
	for _, dir := range []string{tools.source, folder} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]string{}
	for _, c := range []struct {
		file, content string
		same          bool
	}{
		{"go.mod", "module m", false}, {"go.sum", "", false}, {"main.go", "package main", false},
		{"main_test.go", "package main", true}, {"README.md", "# m", true}, {"main.go", "package main // changed", false},
		{"other.go", "package main", false},
	} {
		if err := os.WriteFile(filepath.Join(folder, c.file), []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		path, err := tools.path(driverProgram)
		if err != nil {
			if c.file != "go.mod" { // which alone is no module
				t.Fatal(err)
			}
			continue
		}
		if earlier, known := seen[path]; known != c.same {
			t.Errorf("after %q in %s it is at %s, as after %s", c.content, c.file, path, earlier)
		}
		seen[path] = c.file
	}
}

func TestTheCSIDriverHasOneDefaultClass(t *testing.T) {
	var kinds, defaults []string
	for _, o := range csiObjects() {
		var object struct {
			Kind, Provisioner string
			Metadata          struct {
				Name        string
				Annotations map[string]string
			}
		}
		if err := json.Unmarshal(o.manifest, &object); err != nil {
			t.Fatal(err)
		}
		if resource := strings.ToLower(object.Kind); !strings.HasPrefix(filepath.Base(o.path), resource) {
			t.Errorf("a %s is made at %s", object.Kind, o.path)
		}
		if object.Kind == "StorageClass" && object.Provisioner != driverName {
			t.Errorf("the class %s has the provisioner %s", object.Metadata.Name, object.Provisioner)
		}
		kinds = append(kinds, object.Kind+" "+object.Metadata.Name)
		if object.Metadata.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			defaults = append(defaults, object.Metadata.Name)
		}
	}
	if want := []string{"CSIDriver " + driverName, "StorageClass csi", "StorageClass csi-wait"}; !slices.Equal(kinds, want) {
		t.Errorf("there are %q, want %q", kinds, want)
	}
	if !slices.Equal(defaults, []string{"csi"}) {
		t.Errorf("default classes are %q", defaults)
	}
}

func TestNodesWithTheDriverAreCounted(t *testing.T) {
	list := `{"items":[
		{"spec":{"drivers":[{"name":"other"},{"name":"` + driverName + `"}]}},
		{"spec":{"drivers":[{"name":"other"}]}},
		{"spec":{"drivers":null}}]}`
	if n, err := countWithDriver([]byte(list)); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := countWithDriver([]byte("no JSON")); err == nil {
		t.Error("no error")
	}
}

func TestTheSchedulerWaitsForVolumesThatSomebodyProvides(t *testing.T) {
	for csi, waits := range map[string]bool{"": false, "true": true} {
		var config bytes.Buffer
		if err := template.Must(template.New("").Parse(schedulerConfig)).Execute(&config, map[string]string{"CSI": csi}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(config.String(), "VolumeBinding") == waits || !strings.Contains(config.String(), "leaderElect: false}\n") {
			t.Errorf("with CSI %q the scheduler has\n%s", csi, &config)
		}
	}
}

func TestOnlyWhatIsAskedForIsBuilt(t *testing.T) {
	tools := newTestToolbox(t)
	for _, csi := range []bool{false, true} {
		names := tools.neededHere(t.Context(), csi)
		for _, name := range withCSI() {
			if slices.Contains(names, name) != csi {
				t.Errorf("with CSI %t needed are %q", csi, names)
			}
		}
		for _, name := range needed {
			if !slices.Contains(names, name) {
				t.Errorf("with CSI %t needed are %q", csi, names)
			}
		}
	}
	if err := tools.ensureBuilt(t.Context(), true, true); err == nil || !strings.Contains(err.Error(), "build --with-csi") {
		t.Errorf("--no-build without sidecars: %v", err)
	}
	for names, want := range map[string]string{"csidriver csi-resizer": "1 to 3 minutes", "csidriver etcd": "5 to 8 minutes",
		"kubectl": "half a minute"} {
		var missing []program
		for _, name := range strings.Fields(names) {
			missing = append(missing, findProgram(name))
		}
		if got := usualTime(missing); got != want {
			t.Errorf("building %s takes %s, want %s", names, got, want)
		}
	}
}
