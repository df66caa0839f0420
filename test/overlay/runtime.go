package overlay

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// goVersion is the release of Go whose runtime the edits are made for.
const goVersion = "go1.26"

// Seeded returns edited files of Go's runtime by which everything that is left to chance in a bubble of testing/synctest follows
// from a seed, if there is one processor (GOMAXPROCS=1) and no garbage is collected meanwhile: the order of maps, select, timers of
// one instant, the generator behind math/rand, and when goroutines take turns. The simulation calls what it adds to the runtime
// through a file of its own, which exists in the overlay only.
func Seeded(module string) (Files, error) {
	if v := runtime.Version(); v != goVersion && !strings.HasPrefix(v, goVersion+".") {
		return nil, fmt.Errorf("the runtime of %s is not known here: see whether the edits in test/overlay/runtime.go, made for %s, are right for it", v, goVersion)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	files := Files{}
	if err := files.apply(filepath.Join(strings.TrimSpace(string(root)), "src", "runtime"), runtimeEdits(runtime.GOARCH)); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(filepath.Join(module, "test/simulation/runtime_seed.go"))
	files[path] = seedSource
	return files, err
}

// seedSource lets the simulation seed the bubble of the goroutine that calls.
const seedSource = `package simulation

import _ "unsafe"

//go:linkname runtimeSeedBubble runtime.seedBubble
var runtimeSeedBubble func(seed uint64)

func init() { seedBubble = runtimeSeedBubble }
`

func runtimeEdits(arch string) []edit {
	return []edit{
		// Each bubble has a generator (splitmix64), in place of those that the threads have.
		{"synctest.go", "\tid      uint64 // unique id\n", "\tid      uint64 // unique id\n\trandom  uint64 // state of the generator\n"},
		{"synctest.go", "var bubbleGen atomic.Uint64", `// seedBubble seeds the bubble of the calling goroutine. The count of turns decides when the global queue is looked at.
//
//go:linkname seedBubble
var seedBubble = func(seed uint64) {
	gp := getg()
	gp.bubble.random = seed
	identities = identityTable{}
	gp.m.p.ptr().schedtick = 0
}

//go:nosplit
func (bubble *synctestBubble) rand() uint64 {
	bubble.random += 0x9e3779b97f4a7c15
	z := bubble.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

var bubbleGen atomic.Uint64`},
		{"rand.go", "\tmp := getg().m\n\tc := &mp.chacha8\n", "\tif bubble := getg().bubble; bubble != nil {\n\t\treturn bubble.rand()\n\t}\n\tmp := getg().m\n\tc := &mp.chacha8\n"},
		{"time.go", "t.rand = cheaprand()", "t.rand = uint32(getg().bubble.rand())"},
		{"select.go", "\t\tj := cheaprandn(uint32(norder + 1))\n", "\t\tj := uint32(0)\n\t\tif gp.bubble != nil {\n\t\t\tj = uint32(gp.bubble.rand() % uint64(norder+1))\n\t\t} else {\n\t\t\tj = cheaprandn(uint32(norder + 1))\n\t\t}\n"},
		// Hashes are the same in each process, and so is the order of large maps.
		{"alg.go", "\t\tkey[i] = bootstrapRand()\n", "\t\tkey[i] = (uint64(i) + 1) * 0x9e3779b97f4a7c15\n"},
		{"alg.go", "\t\thashkey[i] = uintptr(bootstrapRand())\n", "\t\thashkey[i] = (uintptr(i) + 1) * 0x9e3779b1\n"},
		// Pointers to the heap have other values in each run. In maps that are made in a bubble their hash follows from the order in which
		// they are hashed for the first time. What is generated for the seeds of such maps has a mark.
		{"rand.go", "func maps_rand() uint64 {\n", "func maps_rand() uint64 {\n\tif getg().bubble != nil {\n\t\treturn seedMark<<40 | rand()>>24\n\t}\n"},
		{"asm_" + arch + ".s", "TEXT runtime·memhash64<ABIInternal>(SB)", "TEXT runtime·memhash64bits<ABIInternal>(SB)"},
		{"alg.go", "func memhash64(p unsafe.Pointer, h uintptr) uintptr\n", `func memhash64bits(p unsafe.Pointer, h uintptr) uintptr

const seedMark = 0x5eed5e

// memhash64 hashes pointers to the heap by their identity in maps whose seed has the mark, also as parts of interfaces.
func memhash64(p unsafe.Pointer, h uintptr) uintptr {
	if mark := h >> 40; mark == seedMark || mark == seedMark^c0>>40 {
		const heap = 0xc000000000
		if x := *(*uintptr)(p); x-heap < 1<<38 {
			id := identities.of(x, h)
			return memhash64bits(noescape(unsafe.Pointer(&id)), h)
		}
	}
	return memhash64bits(p, h)
}

// identityTable numbers the pointers of each map, known by its seed, in the order in which they are looked up for the first time.
type identityTable struct {
	slots []identity // open addressing
	used  int
}

type identity struct{ pointer, seed, number uintptr } // pointer 1 is how many the map has

var identities identityTable

func (t *identityTable) of(pointer, seed uintptr) uintptr {
	if 2*(t.used+2) > len(t.slots) {
		old := t.slots
		t.slots = make([]identity, max(1024, 2*len(old)))
		for _, s := range old {
			if s.pointer != 0 {
				*t.slot(s.pointer, s.seed) = s
			}
		}
	}
	s := t.slot(pointer, seed)
	if s.pointer == 0 {
		*s = identity{pointer: pointer, seed: seed}
		t.used++
		count := t.slot(1, seed)
		if count.pointer == 0 {
			*count = identity{pointer: 1, seed: seed}
			t.used++
		}
		count.number++
		s.number = count.number
	}
	return s.number
}

// slot returns where a pointer of a map is, or belongs.
func (t *identityTable) slot(pointer, seed uintptr) *identity {
	mask := uintptr(len(t.slots) - 1)
	for i := (pointer ^ seed) * 0x9e3779b97f4a7c15 >> 32; ; i++ {
		if s := &t.slots[i&mask]; s.pointer == 0 || s.pointer == pointer && s.seed == seed {
			return s
		}
	}
}
`},
		// A goroutine in a bubble keeps its processor until it blocks, also in a system call.
		{"proc.go", "\t\tpd := &pp.sysmontick\n\t\tsysretake := false\n", "\t\tif mp := pp.m.ptr(); mp != nil {\n\t\t\tif gp := mp.curg; gp != nil && gp.bubble != nil {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t}\n\t\tpd := &pp.sysmontick\n\t\tsysretake := false\n"},
		// A mutex hands itself over when a goroutine has waited for long: by the bubble's clock.
		{"sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n\tif bubble := getg().bubble; bubble != nil {\n\t\treturn bubble.now\n\t}\n"},
	}
}
