package overlay

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// goVersion is the release of Go whose runtime the edits are made for.
const goVersion = "go1.26"

// Seeded returns edited files of Go's runtime by which everything that is left to chance in a bubble of testing/synctest follows
// from a seed, if there is one processor (GOMAXPROCS=1) and no garbage is collected meanwhile: the order of maps, select, timers of
// one instant, the generator behind math/rand, and when goroutines take turns. The simulation calls what it adds to the runtime
// through a file of its own, which exists in the overlay only. The module is the folder of the main module.
func Seeded(module string) (Files, error) {
	if v := runtime.Version(); v != goVersion && !strings.HasPrefix(v, goVersion+".") {
		return nil,
			fmt.Errorf("the runtime of %s is not known here: see whether the edits in test/overlay/runtime.go, made for %s, are right for "+
				"it", v, goVersion)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	files := Files{}
	edits := slices.Concat(chance, pointers("runtime/asm_"+runtime.GOARCH+".s"), turns)
	if err := files.apply(filepath.Join(strings.TrimSpace(string(root)), "src"), edits); err != nil {
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

//go:linkname runtimeEndBubble runtime.endBubble
var runtimeEndBubble func()

func init() { seedBubble, endBubble = runtimeSeedBubble, runtimeEndBubble }
`

// chance are the edits by which all that is drawn at random in a bubble follows from its seed.
var chance = []edit{
	// Each bubble has a generator of its own.
	{"runtime/synctest.go", "\tid      uint64 // unique id\n",
		"\tid      uint64 // unique id\n\tseed    uint64\n\trandom  uint64 // state of the generator\n"},
	{"runtime/synctest.go", "var bubbleGen atomic.Uint64", generator + "\nvar bubbleGen atomic.Uint64"},
	{"math/rand/rand.go", "//go:linkname runtime_rand runtime.rand\n", "//go:linkname runtime_rand runtime.bubbleRand\n"},
	{"math/rand/v2/rand.go", "//go:linkname runtime_rand runtime.rand\n", "//go:linkname runtime_rand runtime.bubbleRand\n"},
	{"runtime/time.go", "t.rand = cheaprand()", "t.rand = uint32(getg().bubble.draw())"},
	{"runtime/select.go", "\t\tj := cheaprandn(uint32(norder + 1))\n", `		j := uint32(0)
		if gp.bubble != nil {
			j = uint32(gp.bubble.draw() % uint64(norder+1))
		} else {
			j = cheaprandn(uint32(norder + 1))
		}
`},
	// The seeds of maps, and where loops over them begin, follow from the seed and the time: a map more or less, in a cache that is
	// filled once, makes no difference. The seeds have a mark.
	{"runtime/rand.go", "\tmp := getg().m\n\tc := &mp.chacha8\n", `	if bubble := getg().bubble; bubble != nil {
		return seedMark<<40 | splitmix(bubble.seed^uint64(bubble.now))>>24
	}
	mp := getg().m
	c := &mp.chacha8
`},
	{"internal/sync/hashtriemap.go", "uintptr(runtime_rand())", "0x5eed + 0*uintptr(runtime_rand())"},
	{"unique/canonmap.go", "uintptr(runtime_rand())", "0x5eed + 0*uintptr(runtime_rand())"},
	// Hashes are the same in each process, and so is the order of large maps.
	{"runtime/alg.go", "\t\tkey[i] = bootstrapRand()\n", "\t\tkey[i] = (uint64(i) + 1) * 0x9e3779b97f4a7c15\n"},
	{"runtime/alg.go", "\t\thashkey[i] = uintptr(bootstrapRand())\n", "\t\thashkey[i] = (uintptr(i) + 1) * 0x9e3779b1\n"},
}

// generator is added to runtime/synctest.go.
const generator = `// seedBubble seeds the bubble of the calling goroutine, and forgets what was left by others: objects in pools.
//
//go:linkname seedBubble
var seedBubble = func(seed uint64) {
	gp := getg()
	gp.bubble.seed, gp.bubble.random = seed, seed
	identities = identityTable{}
	for range 2 {
		poolcleanup()
	}
	setSeeded(true)
}

// endBubble lets goroutines outside of the bubble take their turns as ever.
//
//go:linkname endBubble
var endBubble = func() { setSeeded(false) }

// seeded is whether a bubble runs whose seed decides when goroutines take turns.
var seeded bool

// setSeeded waits for the monitor of processors, which must not be on its way to take one.
func setSeeded(to bool) {
	lock(&allpLock)
	seeded = to
	unlock(&allpLock)
}

// splitmix spreads the bits of a number (the mixer of splitmix64).
//
//go:nosplit
func splitmix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draw takes the next number of the bubble's generator.
func (bubble *synctestBubble) draw() uint64 {
	bubble.random += 0x9e3779b97f4a7c15
	return splitmix(bubble.random)
}

// bubbleRand is what math/rand draws from.
//
//go:linkname bubbleRand
func bubbleRand() uint64 {
	if bubble := getg().bubble; bubble != nil {
		return bubble.draw()
	}
	return rand()
}
`

// pointers are the edits by which nothing follows from addresses, which differ from run to run. In maps whose seed has the mark, the hash
// of a pointer to the heap follows from the order in which the pointers are hashed for the first time.
func pointers(assembly string) []edit {
	return []edit{
		{assembly, "TEXT runtime·memhash64<ABIInternal>(SB)", "TEXT runtime·memhash64bits<ABIInternal>(SB)"},
		{"runtime/alg.go", "func memhash64(p unsafe.Pointer, h uintptr) uintptr\n", identities},
		// Timers come into the heap in the order of the cases that were shuffled, not in that of their channels' addresses.
		{"runtime/select.go", "\n\t\tif c.timer != nil {\n\t\t\tblockTimerChan(c)\n\t\t}\n\t}\n", `	}
	for _, casei := range pollorder {
		if c := scases[casei].c; c.timer != nil {
			blockTimerChan(c)
		}
	}
`},
	}
}

// identities takes the place of the declaration of memhash64.
const identities = `func memhash64bits(p unsafe.Pointer, h uintptr) uintptr

const seedMark = 0x5eed5e

// memhash64 hashes pointers to the heap by their identity in maps whose seed has the mark, also as parts of interfaces.
func memhash64(p unsafe.Pointer, h uintptr) uintptr {
	if mark := h >> 40; mark == seedMark || mark == seedMark^c0>>40 {
		if x := *(*uintptr)(p); x > 1<<32 && x < 1<<47 { // it may be in the heap; what the linker places is below
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
`

// turns are the edits by which the goroutines of a seeded bubble take turns as if they were alone on the machine.
var turns = []edit{
	// A goroutine keeps the processor until it blocks, also in a system call. Not only its own bubble counts: between two goroutines, and
	// while timers of the bubble are run, the processor has no goroutine at all.
	{"runtime/proc.go", "\t\tpd := &pp.sysmontick\n\t\tsysretake := false\n", `		if seeded {
			continue
		}
		pd := &pp.sysmontick
		sysretake := false
`},
	// Goroutines outside of the bubble, such as those that the monitor or a timer wakes at some real time, wait at the end of the
	// queue: they neither take the next turn away from a goroutine of the bubble, nor come from the global queue in its stead.
	{"runtime/proc.go", "\tif pp.schedtick%61 == 0 && !sched.runq.empty() {\n",
		"\tif !seeded && pp.schedtick%61 == 0 && !sched.runq.empty() {\n"},
	{"runtime/proc.go", "func runqput(pp *p, gp *g, next bool) {\n", `func runqput(pp *p, gp *g, next bool) {
	if seeded && gp.bubble == nil {
		next = false
	}
`},
	// No goroutine of a bubble ends up in the global queue because there are many.
	{"runtime/runtime2.go", "[256]guintptr", "[4096]guintptr"},
	{"runtime/proc.go", "batch *[256]guintptr", "batch *[4096]guintptr"},
	// A mutex hands itself over when a goroutine has waited for long: by the bubble's clock.
	{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n", `func internal_sync_nanotime() int64 {
	if bubble := getg().bubble; bubble != nil {
		return bubble.now
	}
`},
}
