package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// running is a recorder that writes until stop is called.
func running(t *testing.T, dir string, most int64) (r *Recorder, stop func()) {
	return runs(t, Options{Dir: dir, Most: most})
}

func runs(t *testing.T, o Options) (r *Recorder, stop func()) {
	r = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	return r, func() { cancel(); <-ended }
}

func entry(name string) Entry {
	return Entry{Time: at, Verb: Deleted, Object: Ref{Kind: "Pod", Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}, Rule: "too many"}
}

func names(t *testing.T, dir, name string) (all []string) {
	t.Helper()
	found, err := read(t.Context(), dir, Ref{Kind: "pod", Namespace: "shop", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		if e.Verb != Lost {
			all = append(all, e.Object.Name)
		}
	}
	return all
}

// Whatever was recorded is there after a restart, also behind a line that a process did not end.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "it")
	r, stop := running(t, dir, Least)
	for i := range 100 {
		r.record(entry(fmt.Sprintf("a-%d", i)))
	}
	stop()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"verb":"deleted","object":{"kind":"Pod","namespace":"shop","name":"torn`)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, stop = running(t, dir, Least)
	r.record(entry("b"))
	stop()
	for _, name := range []string{"a-0", "a-99", "b"} {
		if got := names(t, dir, name); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if again, _ := filepath.Glob(filepath.Join(dir, "*"+suffix)); !slices.Equal(again, files) {
		t.Errorf("a restart began a file: %v", again)
	}
	if got := names(t, dir, "torn"); len(got) != 0 {
		t.Errorf("of a line without an end: %v", got)
	}
}

// The bound holds after each write, over a restart too, and nearly all of it is used by what is newest.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	const most = 64 << 10
	line := append(bytes.Repeat([]byte("x"), 499), '\n')
	newest := ""
	for i := range 1000 {
		if i%100 != 0 {
			continue
		}
		r, err := openRing(dir, most)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 100 {
			newest = fmt.Sprintf("%06d", i+n)
			copy(line, newest)
			if err := r.append(line); err != nil {
				t.Fatal(err)
			}
			if size := sizeOf(t, dir); size > most {
				t.Fatalf("%d bytes", size)
			}
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
	}
	lines := 0
	if err := scan(t.Context(), dir, [][]byte{[]byte("x")}, func(l []byte) {
		lines++
		newest = string(l[:6])
	}); err != nil || newest != "000999" || lines < most*(segments-2)/segments/500 {
		t.Errorf("%d lines, the last is %s, %v", lines, newest, err)
	}
}

func sizeOf(t *testing.T, dir string) (sum int64) {
	t.Helper()
	all, err := segmentsIn(dir)
	for _, s := range all {
		sum += s.size
	}
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Of two processes with one folder, the second one says what is wrong, and takes over when the first one has ended.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	first, err := openRing(dir, Least)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openRing(dir, Least); !errors.Is(err, errLocked) {
		t.Errorf("the second process: %v", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openRing(dir, Least)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.close(); err != nil {
		t.Error(err)
	}
}

// A folder that cannot be had stops nobody. What was recorded meanwhile is written when it can be had.
func TestNoFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "history")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r, stop := running(t, dir, Least)
		synctest.Wait()
		r.record(entry("a"))
		if _, err := r.About(t.Context(), Ref{Kind: "Pod", Name: "a"}); err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("before there is a folder: %v", err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(openAgainAfter + time.Second)
		synctest.Wait()
		if found, err := r.About(t.Context(), Ref{Kind: "Pod", Namespace: "shop", Name: "a"}); err != nil || len(found) != 1 {
			t.Errorf("%v, %v", found, err)
		}
		stop()
	})
}

// What a controller is about to delete is in a file before the controller goes on. It does not wait for what was said before, and for
// a disk that takes nothing only once.
func TestApplying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r, stop := running(t, dir, Least)
		p, q := pod("a"), pod("b")
		each := plan.Each{Sequences: [][]plan.Step{{plan.Create{Object: set(1)}}, {plan.Delete{Objects: []plan.Object{q}, Evict: true}}}}
		r.Applying("c")(t.Context(), decision([]plan.Step{plan.Delete{Objects: []plan.Object{p}}, each}))
		for _, name := range []string{"a", "b"} {
			found, err := read(t.Context(), dir, Ref{Kind: "Pod", Namespace: "shop", Name: name})
			if err != nil || len(found) != 1 || found[0].Verb != Deleting {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
		}
		stop()
		for i, c := range []struct {
			of   plan.Step
			wait time.Duration
		}{
			{plan.Delete{Objects: []plan.Object{p}}, 0}, {plan.Create{Object: p}, 0},
			{plan.Delete{Objects: []plan.Object{pod("c")}}, waitForDisk}, {plan.Delete{Objects: []plan.Object{pod("d")}}, 0},
		} {
			began := time.Now()
			if r.Applying("c")(t.Context(), decision([]plan.Step{c.of})); time.Since(began) != c.wait {
				t.Errorf("%d waits for %v, want %v", i, time.Since(began), c.wait)
			}
		}
	})
}

// Each try to delete is kept before it is made, until one fails in the same way as the last. What was not asked for after all is told.
func TestTries(t *testing.T) {
	dir := t.TempDir()
	r, stop := running(t, dir, Least)
	p := pod("a")
	failed := done(plan.Deleted, p)
	failed.Err = errors.New("a webhook says no")
	steps := []plan.Step{plan.Delete{Objects: []plan.Object{p}, Why: "too many"}}
	for range 4 {
		r.Applying("c")(t.Context(), decision(steps))
		r.Decided("c")(decision(steps, failed))
	}
	r.Applying("c")(t.Context(), decision([]plan.Step{plan.Delete{Objects: []plan.Object{pod("b")}}}))
	r.Decided("c")(decision([]plan.Step{plan.Delete{Objects: []plan.Object{pod("b")}}}))
	r.Decided("c")(decision([]plan.Step{plan.Delete{Objects: []plan.Object{pod("c")}}}))
	stop()
	for name, want := range map[string][]Verb{"a": {Deleting, Deleted, Deleting}, "b": {Deleting, Spared}, "c": nil} {
		found, err := read(t.Context(), dir, Ref{Kind: "Pod", Namespace: "shop", Name: name})
		var got []Verb
		for _, e := range found {
			got = append(got, e.Verb)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// What is said again when an entry was lost is kept.
func TestLostIsNotSaid(t *testing.T) {
	r := New(Options{})
	planned := entry("a")
	planned.Inferred = true
	for range mostQueued {
		r.record(entry("x"))
	}
	if r.record(planned) {
		t.Error("there is room in a full queue")
	}
	<-r.queue
	if !r.record(planned) {
		t.Error("a plan that was lost is not kept when it is made again")
	}
}

// A full queue holds a deletion up for a moment, once, and the others not at all. What is lost is counted, and told when there is room.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := map[Verb]int{}
		r := New(Options{Dir: filepath.Join(t.TempDir(), "history"), Most: 16 * Least, Count: func(v Verb, result string, n int) {
			if result == Dropped {
				lost[v] += n
			}
		}})
		for i := range mostQueued {
			r.record(entry(fmt.Sprint(i)))
		}
		other := entry("x")
		other.Verb = Created
		for _, c := range []struct {
			e    Entry
			wait time.Duration
		}{{other, 0}, {entry("y"), waitForDisk}, {entry("z"), 0}} {
			began := time.Now()
			if r.record(c.e); time.Since(began) != c.wait {
				t.Errorf("%s waits for %v, want %v", c.e.Object, time.Since(began), c.wait)
			}
		}
		if lost[Created] != 1 || lost[Deleted] != 2 {
			t.Errorf("lost: %v", lost)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		synctest.Wait()
		cancel()
		<-ended
		told := 0
		if err := scan(t.Context(), r.Dir, [][]byte{[]byte(`"verb":"lost"`)}, func(line []byte) {
			var e Entry
			if err := json.Unmarshal(line, &e); err != nil {
				t.Error(err)
			}
			told += e.Count
		}); err != nil || told != 3 {
			t.Errorf("%d entries are told to be lost, %v", told, err)
		}
		if got := names(t, r.Dir, fmt.Sprint(mostQueued-1)); len(got) != 1 {
			t.Errorf("the last in the queue: %v", got)
		}
	})
}

// What a disk does not take is lost and counted, and the next write begins a line.
func TestFailedWrite(t *testing.T) {
	r := New(Options{})
	ring, err := openRing(t.TempDir(), Least)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.write(ring, queued{Entry: entry("a")}); err != nil {
		t.Fatal(err)
	}
	whole := ring.file
	if ring.file, err = os.Open(whole.Name()); err != nil { // it cannot be written to
		t.Fatal(err)
	}
	if err := r.write(ring, queued{Entry: entry("b")}); err == nil || r.lost.Load() != 1 {
		t.Errorf("%v, %d lost", err, r.lost.Load())
	}
	if err := errors.Join(ring.file.Close(), r.write(ring, queued{Entry: entry("c")})); err == nil || r.lost.Load() != 2 {
		t.Errorf("%v, %d lost", err, r.lost.Load())
	}
	ring.file = whole
	if err := errors.Join(r.write(ring, queued{Entry: entry("d")}), ring.close()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"a": 1, "b": 0, "c": 0, "d": 1} {
		if got := names(t, ring.dir, name); len(got) != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if r.lost.Load() != 0 {
		t.Errorf("%d are not told of", r.lost.Load())
	}
}

// A plan that is repeated, and a failure, are kept once; deletions that were carried out always are.
func TestRepetitions(t *testing.T) {
	r := New(Options{})
	planned, failed := entry("a"), entry("a")
	planned.Inferred, failed.Error = true, "no"
	other := failed
	other.Error = "still no"
	for _, e := range []Entry{planned, planned, failed, failed, other, entry("a"), entry("a")} {
		r.record(e)
	}
	if len(r.queue) != 5 {
		t.Errorf("%d entries", len(r.queue))
	}
	for i := range 3 * mostSaid {
		one := planned
		one.Object.Name = fmt.Sprint(i)
		r.repeats(one)
	}
	if len(r.said) > mostSaid {
		t.Errorf("%d are remembered", len(r.said))
	}
}

// FuzzRead: whatever is in the files, reading ends without a panic, and finds nothing that is not about the object.
func FuzzRead(f *testing.F) {
	line, err := json.Marshal(entry("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, '\n'))
	f.Add(append(append(line[:len(line)/2:len(line)/2], '\n'), line...))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "000000000001"+suffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
		about := Ref{Kind: "Pod", Namespace: "shop", Name: "a"}
		found, err := read(t.Context(), dir, about)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := Tell(about, found); ok {
			s.WriteText(&bytes.Buffer{})
		}
	})
}

// A decision that deletes one pod, as it is recorded by a worker.
func BenchmarkDecided(b *testing.B) {
	p := pod("a")
	d := decision([]plan.Step{plan.Delete{Objects: []plan.Object{p}, Why: "too many"}}, done(plan.Deleted, p))
	r, quiet := New(Options{}), decision(nil)
	b.Run("deletion", func(b *testing.B) {
		decided := r.Decided("replicaset-controller")
		b.ReportAllocs()
		for b.Loop() {
			decided(d)
			<-r.queue
		}
	})
	b.Run("nothing to keep", func(b *testing.B) {
		decided := r.Decided("replicaset-controller")
		b.ReportAllocs()
		for b.Loop() {
			decided(quiet)
		}
	})
	b.Run("written", func(b *testing.B) {
		ring, err := openRing(b.TempDir(), 64<<20)
		if err != nil {
			b.Fatal(err)
		}
		decided := r.Decided("replicaset-controller")
		b.ReportAllocs()
		for b.Loop() {
			decided(d)
			if err := r.write(ring, <-r.queue); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if err := ring.close(); err != nil {
			b.Fatal(err)
		}
	})
}
