package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// write writes files below the working directory.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnchanged edits one input after the other of a check whose module takes packages from the main module.
func TestUnchanged(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	stamps := t.TempDir()
	t.Setenv("GATE_STAMPS", stamps)
	write(t, map[string]string{
		"go.mod": "module a.test/a\n\ngo 1.26\n",
		"x/x.go": "package x\n\nimport (\n\t_ \"embed\"\n\n\t_ \"a.test/a/y\"\n)\n\n" +
			"//go:embed texts/text\nvar Text string\n",
		"x/texts/text":          "text",
		"y/y.go":                "package y\n",
		"z/z.go":                "package z\n",
		"left/out/out.go":       "package out\n",
		"b/go.mod":              "module a.test/b\n\ngo 1.26\n\nrequire a.test/a v0.0.0\n\nreplace a.test/a => ../\n",
		"b/b.go":                "package b\n",
		"b/b_test.go":           "package b\n\nimport (\n\t_ \"a.test/a/left/out\"\n\t_ \"a.test/a/x\"\n)\n",
		"b/testdata/below/here": "1",
		"b/other/other.go":      "package other\n",
		"extra/file":            "1",
		"elsewhere":             "1",
	})
	const ran = "ran"
	check := func(command ...string) error {
		_ = os.Remove(ran)
		return unchanged(append([]string{"-name=c", "-packages=b:.", "-without=left", "-files=extra"}, command...))
	}
	runs := func() bool {
		t.Helper()
		if err := check("touch", ran); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(ran)
		return err == nil
	}
	if err := check("false"); err == nil {
		t.Error("it does not fail when the command does")
	}
	if !runs() || runs() {
		t.Error("it runs until it has passed, and not again")
	}
	for file, matters := range map[string]bool{
		"x/x.go": true, "x/texts/text": true, "y/y.go": true, "b/b.go": true, "b/b_test.go": true, "b/testdata/below/here": true,
		"extra/file": true, "b/go.mod": true, "go.mod": true,
		"z/z.go": false, "left/out/out.go": false, "elsewhere": false, "b/other/other.go": false,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, map[string]string{file: string(text) + "\n// edited\n"})
		if got := runs(); got != matters {
			t.Errorf("%s was edited: it runs: %v, want %v", file, got, matters)
		}
		write(t, map[string]string{file: string(text)})
		if runs() {
			t.Errorf("%s is as it was, and it runs", file)
		}
	}
	write(t, map[string]string{"y/more.go": "package y\n"})
	if !runs() {
		t.Error("there is another file, and it does not run")
	}
	t.Setenv("KUBERNETES", "1.35")
	if !runs() {
		t.Error("it does not run with another environment")
	}
	before, err := os.ReadDir(stamps)
	if err != nil {
		t.Fatal(err)
	}
	if err := check("sh", "-c", "echo 2 >extra/file"); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadDir(stamps); err != nil || len(after) != len(before) {
		t.Errorf("inputs that were edited meanwhile are said to have passed: %v", err)
	}
	t.Setenv("GATE_STAMPS", "")
	for range 2 {
		if !runs() {
			t.Error("without a folder for stamps it does not always run")
		}
	}
}

// A command that was measured leaves a row, named after its folder, and its exit code is that of measure.
func TestMeasure(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "bin", "usage")
	t.Setenv(usageFile, file)
	for _, dir := range []string{"bin", "a/b"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(root, "a", "b"))
	if err := measure([]string{"-race", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 0.2"}); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := measure([]string{"-step", "-as", "make it", "sh", "-c", "exit 3"}); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("it ends with %v", err)
	}
	rows, err := readRows(file)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v", rows, err)
	}
	if r := rows[0]; r.kind != packageRow || r.name != "a/b (race)" || r.cpu <= 0 || r.wall < 200*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.kind != stepRow || r.name != "make it" {
		t.Errorf("%+v", r)
	}
}

// Results of tests that were measured are remembered by go test, and forgotten when a file that the test has read changes.
func TestMeasuredTestsAreCached(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", gate, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Chdir(t.TempDir())
	t.Setenv("GOFLAGS", "")
	write(t, map[string]string{
		"go.mod":    "module a.test/" + filepath.Base(t.TempDir()) + "\n\ngo 1.26\n",
		"a_test.go": "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestA(t *testing.T) { _, _ = os.ReadFile(\"file\") }\n",
		"file":      "1",
	})
	old := time.Now().Add(-time.Hour) // Go does not trust files that have just been written
	cached := func() bool {
		t.Helper()
		if err := os.Chtimes("file", old, old); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("go", "test", "-vet=off", "-exec="+gate+" measure", ".").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Contains(string(out), "(cached)")
	}
	if cached() || !cached() {
		t.Error("the second run is not remembered")
	}
	write(t, map[string]string{"file": "22"})
	if cached() {
		t.Error("a file that was read has changed, and the result is that of before")
	}
}

func TestTable(t *testing.T) {
	var rows []row
	for i := range 12 {
		rows = append(rows, row{packageRow, "p" + string(rune('a'+i)), time.Duration(i+1) * time.Second, time.Second})
	}
	rows = append(rows, row{stepRow, "make test", 100 * time.Second, 60 * time.Second},
		row{stepRow, "make other", 2 * time.Second, time.Second})
	var text strings.Builder
	if err := writeTable(&text, rows); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"wall s CPU s of tests step", "60 100 78 make test", "1 2 0 make other", "61 102 all", "",
		"wall s CPU s the dearest 10 of 12 packages that were tested",
		"1.0 12.0 pl", "1.0 11.0 pk", "1.0 10.0 pj", "1.0 9.0 pi", "1.0 8.0 ph", "1.0 7.0 pg", "1.0 6.0 pf", "1.0 5.0 pe", "1.0 4.0 pd",
		"1.0 3.0 pc"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRacyPackages(t *testing.T) {
	const locked = "package p\n\nvar mu sync.RWMutex\n"
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"pkg/starts/a.go":                  "package p\n\nfunc f() {\n\tgo g()\n}\n",
		"pkg/controllers/starts/a.go":      "package p\n\nfunc f() { all.Go(g) }\n",
		"pkg/locked/a.go":                  locked,
		"pkg/locked/a_test.go":             "package p\n\nfunc f() { all.Go(g) }\n",
		"pkg/bubble/a.go":                  locked,
		"pkg/bubble/a_test.go":             "package p\n\nimport \"testing/synctest\"\n",
		"pkg/untested/a.go":                locked,
		"pkg/controllers/locked/a.go":      locked,
		"pkg/controllers/locked/b_test.go": "package p\n\nfunc f() {\n\tgo g()\n}\n",
		"pkg/once/a.go":                    "package p\n\nimport \"sync\"\n",
		"pkg/onlytests/a_test.go":          "package p\n\nfunc f() {\n\tgo g()\n}\n",
		"pkg/neither/a.go":                 "package p\n\n// it does not go far\n",
		"cmd/elsewhere/a.go":               "package p\n\nfunc f() { all.Go(g) }\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for all, want := range map[bool][]string{
		false: {"pkg/bubble", "pkg/controllers/starts", "pkg/locked", "pkg/starts"},
		true:  {"pkg/bubble", "pkg/controllers/starts", "pkg/locked", "pkg/once", "pkg/starts"},
	} {
		if got, err := racyPackages(files, all, []string{"pkg"}); err != nil || !slices.Equal(got, want) {
			t.Errorf("all %v: %q, %v, want %q", all, got, err, want)
		}
	}
	if got, err := racyPackages(fstest.MapFS{"pkg/a.go": {Data: []byte("package p\n")}}, false, []string{"pkg"}); err == nil {
		t.Errorf("nothing is no error: %q", got)
	}
}
