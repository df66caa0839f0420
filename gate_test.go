package tidy

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// changesCompiler finds what makes the compiler compile packages once more: flags of the go command and variables.
var changesCompiler = regexp.MustCompile(`(?:^|[\s"'=(,])-(race|msan|asan|tags|overlay|gcflags|asmflags|cover|covermode|coverpkg` +
	`|buildmode|pgo|toolexec|compiler|installsuffix|linkshared)(?:[=\s"',)]|$)` +
	`|\b((?:CGO_ENABLED|GOOS|GOARCH|GOEXPERIMENT|GOAMD64|GOARM64|CGO_CFLAGS)[?:]?=)(\S*)`)

// flavours are all places where packages are compiled in another way than plainly, how often, and what for. The gate has four flavours:
// plain, with the race detector, the simulation with its overlay, and the toy with its own. One that is added compiles a thousand packages
// more, in each run of the gate. The others are of the search, of releases, and of what is printed for people.
var flavours = map[string]map[string]int{
	"Makefile": {
		"-race": 1, "CGO_ENABLED=1": 1, // RACE_TEST, which needs cgo
		"-overlay":     2,                                                         // SIMULATE, and a leader with the mutants, in the search
		"GOOS=windows": 1, "GOARCH=amd64": 1, "GOOS=darwin": 1, "GOARCH=arm64": 1, // verify-platforms, in the search
	},
	"test/toy/toy_test.go":               {"-overlay": 1},
	"test/mutation/mutation_test.go":     {"-overlay": 1},            // as SIMULATE, where that was not compiled before
	"test/mutation/overlay_test.go":      {"-overlay": 1},            // one package, which must not compile
	"test/simulation/simulation_test.go": {"-overlay": 1},            // a command to replay a seed
	"hack/gate/gate_test.go":             {"-race": 1},               // of gate measure
	"hack/tools/fuzz/main.go":            {"-gcflags": 1},            // in the search
	"hack/notices/main.go":               {"GOOS=": 1, "GOARCH=": 1}, // lists packages
	"hack/tools/image/main.go":           {"GOOS=": 1, "GOARCH=": 1}, // for this system, what make build has compiled
	"hack/tools/release/main.go":         {"GOOS=": 1, "GOARCH=": 1}, // likewise, in the gate
	"Dockerfile":                         {"GOOS=$TARGETOS": 1, "GOARCH=$TARGETARCH": 1},
}

// TestNoFlavourIsAdded looks for ways to compile in the Makefile, in scripts, and in the strings of Go files of all modules.
func TestNoFlavourIsAdded(t *testing.T) {
	found := map[string]map[string]int{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == "bin" || path == "dist" || path == ".git"):
			return fs.SkipDir
		case entry.IsDir() || path == "gate_test.go":
			return nil
		}
		for _, how := range waysToCompile(t, path) {
			if how == "CGO_ENABLED=0" { // the plain one
				continue
			}
			if found[filepath.ToSlash(path)] == nil {
				found[filepath.ToSlash(path)] = map[string]int{}
			}
			found[filepath.ToSlash(path)][how]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, ways := range found {
		for how, n := range ways {
			if known := flavours[path][how]; n != known {
				t.Errorf("%s compiles with %s in %d places; flavours says what %d are for", path, how, n, known)
			}
		}
	}
	for path, ways := range flavours {
		for how := range ways {
			if found[path][how] == 0 {
				t.Errorf("%s does not compile with %s any more", path, how)
			}
		}
	}
}

// waysToCompile are the flags and variables in a file.
func waysToCompile(t *testing.T, path string) (ways []string) {
	var texts []string
	switch base := filepath.Base(path); {
	case filepath.Ext(base) == ".go":
		texts = stringsOf(t, path)
	case base == "Makefile" || base == "Dockerfile" || filepath.Ext(base) == ".sh" || filepath.Dir(path) == ".ci":
		for line := range strings.Lines(read(t, path)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				texts = append(texts, line)
			}
		}
	}
	for _, text := range texts {
		for _, match := range changesCompiler.FindAllStringSubmatch(text, -1) {
			if match[1] != "" {
				ways = append(ways, "-"+match[1])
			} else {
				ways = append(ways, regexp.MustCompile(`[?:]?=$`).ReplaceAllString(match[2], "=")+strings.Trim(match[3], "\"`'"))
			}
		}
	}
	return ways
}

// stringsOf are the literal strings of a Go file.
func stringsOf(t *testing.T, path string) (texts []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile(path, set.Base(), len(text)), text, nil, 0)
	for {
		_, what, literal := s.Scan()
		switch what {
		case token.EOF:
			return texts
		case token.STRING:
			texts = append(texts, literal)
		}
	}
}
