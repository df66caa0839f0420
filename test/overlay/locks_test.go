package overlay

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Locks are replaced wherever they are declared, each by one of its own, and lines stay where they are.
func TestReplaceLocks(t *testing.T) {
	const text = `package x

import "sync"

var global sync.Mutex

type T struct {
	sync.RWMutex
	mu, other sync.Mutex // two of a kind
	f         func(*sync.WaitGroup)
}

func f() {
	var local sync.Mutex
	local.Lock()
}
`
	replaced, names, err := replaceLocks("x.go", text, 7)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"global", "T.it", "T.mu", "f.local"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	for _, want := range []string{"var global lockorder.Mutex[lockorder.S7]\n", "\tlockorder.RWMutex[lockorder.S8]\n",
		"mu, other lockorder.Mutex[lockorder.S9] //", "func(*sync.WaitGroup)", "var local lockorder.Mutex[lockorder.S10]\n"} {
		if !strings.Contains(replaced, want) {
			t.Errorf("%q is not in\n%s", want, replaced)
		}
	}
	if !strings.HasPrefix(replaced, text[:len("package x")]) || strings.Index(replaced, "\n") < len("package x;") ||
		strings.Count(replaced, "\n") != strings.Count(text, "\n")+2 {
		t.Errorf("lines have moved:\n%s", replaced)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "x.go", replaced, 0); err != nil {
		t.Error(err)
	}
}

// No package of the product has a lock that is not checked in the simulation.
func TestAllLocksAreChecked(t *testing.T) {
	files := Files{}
	if err := files.CheckLocks("../.."); err != nil {
		t.Fatal(err)
	}
	sites, err := filepath.Abs("../../test/lockorder/sites.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(files[sites]) {
		if _, rest, ok := strings.Cut(line, `return "`); ok {
			name, _, _ := strings.Cut(rest, `"`)
			if names[name] {
				t.Errorf("two locks are called %s", name)
			}
			names[name] = true
		}
	}
	for _, name := range []string{"pkg/controllers/garbagecollector.runner.mu", "pkg/informers/metadata.Informers.mu",
		"pkg/informers/metadata.resourceWatch.mu"} {
		if !names[name] {
			t.Errorf("%s is not checked", name)
		}
	}
	for path, text := range files {
		if path != sites && (strings.Contains(text, "sync.Mutex") || strings.Contains(text, "sync.RWMutex")) {
			t.Errorf("%s has a lock that is not checked", path)
		}
	}
}
