package explain

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// A key that has failed and then has nothing to tell must not be shown as failing for ever.
func TestARecordOfAFailureIsReplaced(t *testing.T) {
	r, key := NewRecords(nil), plan.Key{Name: "a"}
	r.Put(key, Record{})
	if _, ok := r.Get(key); ok {
		t.Error("a record that says nothing was kept")
	}
	r.Put(key, Record{Error: "no"})
	r.Put(key, Record{})
	if rec, ok := r.Get(key); !ok || rec.Error != "" {
		t.Errorf("%+v, %v", rec, ok)
	}
	if h := r.History(key); len(h) != 1 || h[0].Error != "no" {
		t.Errorf("%+v", h)
	}
	r.Clear()
	if _, ok := r.Get(key); ok || r.History(key) != nil {
		t.Error("a record has outlived its term")
	}
}

func TestRecordsThatSayTheSameAreCounted(t *testing.T) {
	r, key := NewRecords(nil), plan.Key{Name: "a"}
	for i := range 5 {
		r.Put(key, Record{Time: at(i), Error: "no", Retries: i + 1, Version: fmt.Sprint(i)})
	}
	rec, _ := r.Get(key)
	if !rec.Time.Equal(at(4)) || !rec.Since.Equal(at(0)) || rec.Alike != 4 || rec.Retries != 5 || rec.Version != "4" ||
		r.History(key) != nil {
		t.Errorf("%+v, %+v", rec, r.History(key))
	}
	r.Put(key, Record{Time: at(5), Error: "no", Steps: []string{"create Pod a/b"}})
	if rec, _ := r.Get(key); rec.Alike != 0 || !rec.Since.IsZero() || len(r.History(key)) != 1 {
		t.Errorf("%+v, %+v", rec, r.History(key))
	}
}

// A wait for a cache is shown as long as it lasts, and is not worth a place in the history.
func TestWaitsAreNoHistory(t *testing.T) {
	r, key := NewRecords(nil), plan.Key{Name: "a"}
	for i := range 4 {
		r.Put(key, Record{Why: fmt.Sprintf("create pod %d", i), Wrote: 1})
		r.Put(key, Record{Why: "waiting", Waiting: "Pod"})
	}
	if rec, _ := r.Get(key); rec.Waiting == "" {
		t.Errorf("%+v", rec)
	}
	h := r.History(key)
	if len(h) != 4 || h[0].Why != "create pod 3" || h[3].Why != "create pod 0" {
		t.Errorf("%+v", h)
	}
}

func TestFailing(t *testing.T) {
	r := NewRecords(nil)
	for _, name := range []string{"c", "a", "b"} {
		r.Put(plan.Key{Namespace: "x", Name: name}, Record{Error: "no"})
	}
	r.Put(plan.Key{Namespace: "w", Name: "z"}, Record{Waiting: "Pod"})
	r.Put(plan.Key{Name: "fine"}, Record{Why: "fine"})
	found, total := r.Failing(3)
	if total != 4 || len(found) != 3 || found[0].Key.Name != "z" || found[1].Key.Name != "a" || found[2].Key.Name != "b" {
		t.Errorf("%d, %+v", total, found)
	}
}

// Whatever happens, the bounds hold, and what is shown is what was put last, in order.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRecords(nil)
		put := map[plan.Key][]int{} // what was put since the key was last forgotten
		name := rapid.Custom(func(t *rapid.T) plan.Key { return plan.Key{Name: fmt.Sprint(rapid.IntRange(0, 400).Draw(t, "key"))} })
		for i := range rapid.IntRange(0, 4000).Draw(t, "records") {
			key := plan.Key{Name: fmt.Sprint((i * 7919) % 401)}
			if i%50 == 0 {
				key = name.Draw(t, "gone")
				r.Forget(key)
				delete(put, key)
				continue
			}
			r.Put(key, Record{Time: at(i), Why: fmt.Sprint(i)})
			put[key] = append(put[key], i)
		}
		earlier := 0
		for key, all := range put {
			rec, ok := r.Get(key)
			if !ok || rec.Why != fmt.Sprint(all[len(all)-1]) {
				t.Fatalf("%s: %+v", key, rec)
			}
			h := r.History(key)
			earlier += len(h)
			if len(h) > mostOfKey-1 {
				t.Fatalf("%s: %d records", key, len(h))
			}
			for i, rec := range h {
				if rec.Why != fmt.Sprint(all[len(all)-2-i]) {
					t.Fatalf("%s: %d is %+v", key, i, rec)
				}
			}
		}
		if earlier > mostEarlier || earlier != r.earlier.Len() || r.last.Len() != len(r.keys) || len(r.keys) != len(put) {
			t.Fatalf("%d records before the last ones, %d counted, of %d keys, %d of %d", earlier, r.earlier.Len(), len(r.keys),
				r.last.Len(), len(put))
		}
	})
}

// Keys that nobody forgets do not fill the memory.
func TestKeysAreBounded(t *testing.T) {
	r := NewRecords(nil)
	for i := range mostKeys + 10 {
		r.Put(plan.Key{Name: fmt.Sprint(i)}, Record{Why: "x"})
	}
	if _, ok := r.Get(plan.Key{Name: "9"}); ok || len(r.keys) != mostKeys {
		t.Errorf("%d keys", len(r.keys))
	}
	if _, ok := r.Get(plan.Key{Name: "10"}); !ok {
		t.Error("a newer one was dropped")
	}
}

func TestTextsAreBounded(t *testing.T) {
	r, key := NewRecords(nil), plan.Key{Name: "a"}
	r.Put(key, Record{Why: strings.Repeat("ä", mostText), Error: strings.Repeat("x", 1<<20)})
	if rec, _ := r.Get(key); len(rec.Why) > mostText+10 || len(rec.Error) > mostText+10 || !strings.HasSuffix(rec.Why, "ä ...") {
		t.Errorf("%d, %d", len(rec.Why), len(rec.Error))
	}
}

// BenchmarkPut puts records of 20,000 keys: none new, all new, and new ones with a write. It reports what is then held for each key.
func BenchmarkPut(b *testing.B) {
	step := []plan.Step{plan.Create{Object: pod("web-1"), Count: 2, Why: "replicas are missing"}}
	did := plan.Outcome{Results: []plan.Result{{Verb: plan.Created, Object: pod("web-1"), Name: "web-1"},
		{Verb: plan.Created, Object: pod("web-2"), Name: "web-2"}}}
	for what, make := range map[string]func(i int) Record{
		"alike": func(i int) Record { return Record{Time: at(i), Why: "3 of 3 pods are available", Version: "17"} },
		"new": func(i int) Record {
			return Record{Time: at(i), Why: fmt.Sprintf("%d of 3 pods are available", i%4), Version: "17"}
		},
		"writes": func(i int) Record {
			rec := Record{Time: at(i), Why: fmt.Sprintf("%d of 3 pods are available", i%4), Version: "17", Wrote: len(did.Results)}
			rec.Planned(step)
			rec.Did(did)
			return rec
		},
	} {
		b.Run(what, func(b *testing.B) {
			keys := make20000()
			before := held()
			r := NewRecords(nil)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				r.Put(keys[i%len(keys)], make(i+i/len(keys)))
				i++
			}
			if i > 2*len(keys) {
				b.ReportMetric(float64(held()-before)/float64(len(keys)), "held-B/key")
			}
			runtime.KeepAlive(r)
			runtime.KeepAlive(keys)
		})
	}
}

func make20000() (keys []plan.Key) {
	for i := range 20_000 {
		keys = append(keys, plan.Key{Namespace: "shop", Name: fmt.Sprintf("web-%d", i)})
	}
	return keys
}

func held() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
