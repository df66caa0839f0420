package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func TestCompareSeesEveryDifference(t *testing.T) {
	for _, row := range []struct {
		name string
		a, b map[string]string
		want string // in the error; empty for none
	}{
		{"the same", map[string]string{"x": "1", "y": "2"}, map[string]string{"x": "1", "y": "2"}, ""},
		{"a byte", map[string]string{"x": "1", "y": "2"}, map[string]string{"x": "1", "y": "3"}, "two builds differ in y"},
		{"a file more", map[string]string{"x": "1"}, map[string]string{"x": "1", "y": "3"}, "different files"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dirs := []string{t.TempDir(), t.TempDir()}
			for i, files := range []map[string]string{row.a, row.b} {
				for name, text := range files {
					if err := os.WriteFile(filepath.Join(dirs[i], name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := compare(dirs[0], dirs[1])
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestFileNames(t *testing.T) {
	o := options{version: "v1.2.3+x"}
	for platform, want := range map[string]string{
		"linux/amd64":   "controller-manager-v1.2.3-x-linux-amd64",
		"windows/arm64": "controller-manager-v1.2.3-x-windows-arm64.exe",
	} {
		if got := o.fileName(platform); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestBillNamesEveryModuleAndNoTimeOfDay(t *testing.T) {
	info := &buildinfo.BuildInfo{GoVersion: "go1.26.8",
		Main: debug.Module{Path: "example.com/m", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.com/z", Version: "v1.0.0", Sum: "h1:z"},
			{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/b", Version: "v2.0.0+incompatible"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "-ldflags", Value: "-s"}}}
	encode := func() string {
		var out bytes.Buffer
		if err := cyclonedx.NewBOMEncoder(&out,
			cyclonedx.BOMFileFormatJSON).Encode(billOf(info, "v1", "2026-01-02T03:04:05Z", "aa")); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text := encode()
	if text != encode() {
		t.Error("two bills of one binary differ")
	}
	for _, want := range []string{`pkg:golang/example.com/z@v1.0.0`, `pkg:golang/example.com/b@v2.0.0%2Bincompatible`,
		`pkg:golang/std@go1.26.8`,
		`"timestamp":"2026-01-02T03:04:05Z"`, `"h1:z"`, `"go:build:GOOS"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the bill lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "serialNumber") || strings.Contains(text, "example.com/a@") {
		t.Errorf("the bill has what it should not have:\n%s", text)
	}
}

func TestOnlyTheSourceIsCopied(t *testing.T) {
	to := t.TempDir()
	if err := copySource(filepath.Join("..", "..", ".."), to); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum", "cmd/controller-manager/main.go"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(to); err != nil || len(entries) != 7 {
		t.Errorf("copied %v, %v", entries, err)
	}
}

func TestTwoBuildsOfOneSourceAreTheSame(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                         "module example.com/m\n\ngo 1.26.0\n",
		"cmd/controller-manager/main.go": "package main\n\nfunc main() {}\n",
		"hack/notices/main.go":           "package main\n\nfunc main() {}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	init := exec.Command("git", "init", "--quiet", dir)
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o := options{repository: dir, version: "v1", date: "2026-01-02T03:04:05Z", platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}}
	for _, strict := range []bool{false, true} {
		if err := verifyTwice(o, strict); err != nil {
			t.Errorf("strict: %v: %v", strict, err)
		}
	}
}
