package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is called fails, unless it is accepted, or of a library that only another Go mends. What is only required does not.
func TestJudge(t *testing.T) {
	line := func(id, module, function string) string {
		return `{"finding":{"osv":"` + id + `","fixed_version":"v2","trace":[{"module":"` + module + `","version":"v1","function":"` + function + `"}]}}`
	}
	for _, test := range []struct {
		name, output string
		anyGo, fails bool
		says         string
	}{
		{"nothing", `{"config":{}}`, false, false, ""},
		{"required", line("GO-1", "example.com/a", ""), false, false, ""},
		{"called", line("GO-1", "example.com/a", "F") + line("GO-1", "example.com/a", "G"), false, true, "GO-1 example.com/a@v1: mended by v2\n"},
		{"accepted", line("GO-2026-6617", "golang.org/x/net", "F"), false, false, "GO-2026-6617 golang.org/x/net@v1: accepted: of this module"},
		{"accepted elsewhere only", line("GO-2026-6617", "stdlib", "F"), false, true, "GO-2026-6617 stdlib@v1: mended by v2"},
		{"of an older Go", line("GO-2026-6617", "stdlib", "F"), true, false, "mended by v2"},
		{"nonsense", "{", false, true, ""},
	} {
		var says strings.Builder
		if err := judge(&says, strings.NewReader(test.output), test.anyGo); (err != nil) != test.fails || !strings.Contains(says.String(), test.says) {
			t.Errorf("%s: %v, %s", test.name, err, says.String())
		}
	}
}

// The database has each report, and the modules that it is about with the version of the last fix.
func TestMakeDatabase(t *testing.T) {
	reports, into := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"GO-1.json": `{"id":"GO-1","modified":"2026-01-02T00:00:00Z","aliases":["CVE-1"],"affected":[{"package":{"name":"stdlib"},"ranges":[{"events":[` +
			`{"introduced":"0"},{"fixed":"1.25.1"},{"introduced":"1.26.0"},{"fixed":"1.26.3"}]}]}]}`,
		"GO-2.json": `{"id":"GO-2","modified":"2026-01-01T00:00:00Z","affected":[{"package":{"name":"example.com/a"}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(reports, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := makeDatabase(reports, into); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	var modules []moduleOf
	text, err := os.ReadFile(filepath.Join(into, "index", "modules.json"))
	if err != nil || json.Unmarshal(text, &modules) != nil {
		t.Fatal(err, string(text))
	}
	if len(modules) != 2 || modules[0].Path != "example.com/a" || modules[0].Vulns[0].Fixed != "" || modules[1].Vulns[0].Fixed != "1.26.3" {
		t.Errorf("%+v", modules)
	}
	if text, err := os.ReadFile(filepath.Join(into, "index", "db.json")); err != nil || string(text) != `{"modified":"2026-01-02T00:00:00Z"}` {
		t.Error(string(text), err)
	}
	if _, err := os.Stat(filepath.Join(into, "ID", "GO-2.json")); err != nil {
		t.Error(err)
	}
	if _, err := makeDatabase(into, t.TempDir()); err == nil {
		t.Error("a folder without reports is taken for a database")
	}
}
