package agreement

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Bounds of what is remembered. What is beyond them is counted as dropped.
const (
	mostKeys          = 20_000
	mostBytes         = 64 << 20 // of planned writes
	mostDisagreements = 200      // the last ones, for people
	mostSeen          = 4096     // objects that have come or gone lately
	mostSuspects      = 1000     // writes that are not done, and whose reason is looked for
)

const (
	// notDoneAfter is how long a write is planned before it counts as not done. A plan that nobody carries out is made
	// again a minute later, by a timer that begins before the first one is known here, or before it is judged.
	notDoneAfter = 50 * time.Second
	// settledAfter is how long a write is planned before another one in its place is a disagreement: before, whoever
	// leads may have decided by what was there shortly before, or shortly after.
	settledAfter = 2 * time.Second
	// forgottenAfter is the time after which a key is not expected to be planned again: its object is gone.
	forgottenAfter = 3 * time.Minute
	seenFor        = 90 * time.Second // how long is remembered what has come and gone
	sweepEvery     = 10 * time.Second
)

// Verdict says what became of a planned write.
type Verdict string

// The verdicts.
const (
	Agreed      Verdict = "agreed"      // it was done
	Superseded  Verdict = "superseded"  // what it was planned for has changed before it was done
	Hindered    Verdict = "hindered"    // it is not done because the API server refuses it, or because nobody leads
	Unseen      Verdict = "unseen"      // it is planned no more, and no cache shows what was done
	Explained   Verdict = "explained"   // something else was done, or nothing, as a row of docs/parity.md says
	Unexplained Verdict = "unexplained" // something else was done, or nothing, and no row says why
)

// Verdicts lists all verdicts.
func Verdicts() []Verdict {
	return []Verdict{Agreed, Superseded, Hindered, Unseen, Explained, Unexplained}
}

// Cached looks up an object as the caches have it. It is not known if no cache tells whether there is one.
type Cached func(kind schema.GroupVersionKind, key plan.Key) (o plan.Object, known bool)

// Options say whom a comparison tells, and whom it asks.
type Options struct {
	Count   func(controller string, v Verdict, n int) // may be nil
	Now     func() time.Time                          // nil: time.Now
	Cached  Cached                                    // nil: what is given to [Comparison.Follow]
	Project func(plan.Object) plan.Object             // what caches keep of an object; nil: all
	// Hindrance is asked by [Comparison.Run] about disagreements. It may be nil: then nothing excuses one.
	Hindrance Hindrance
}

// Comparison holds plans against what was written. Its methods may be called by several goroutines.
type Comparison struct {
	Options

	mu       sync.Mutex
	began    time.Time
	swept    time.Time
	keys     map[keyID]*keyState
	bytes    int // of all items
	dropped  int // writes that were not compared
	counts   map[string]map[Verdict]int
	last     []Disagreement // the last ones, oldest first
	rows     map[string]int // disagreements that a row explains
	come     sightings
	gone     sightings
	suspects []suspect // nobody has been asked about them
	asking   []suspect // [Comparison.Judge] is asking about them
}

// keyID is a key of a controller.
type keyID struct {
	controller string
	key        plan.Key
}

// keyState is what is planned for a key.
type keyState struct {
	owner   types.UID // of the object of the key; empty if that is not known
	about   plan.Key
	planned time.Time
	items   map[string]*item
}

// New returns a comparison of nothing yet.
func New(o Options) *Comparison {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Count == nil {
		o.Count = func(string, Verdict, int) {}
	}
	if o.Cached == nil {
		o.Cached = func(schema.GroupVersionKind, plan.Key) (plan.Object, bool) { return nil, false }
	}
	if o.Project == nil {
		o.Project = func(o plan.Object) plan.Object { return o }
	}
	return &Comparison{Options: o, began: o.Now(), swept: o.Now(), keys: map[keyID]*keyState{},
		counts: map[string]map[Verdict]int{}, rows: map[string]int{}}
}

// Hooks returns the hooks of a controller, with the comparison told its plans.
func (c *Comparison) Hooks(controller string, h reconcile.Hooks) reconcile.Hooks {
	return h.AlsoDecided(func(d reconcile.Decision) { c.Planned(controller, d) })
}

// Planned tells what was planned last for a key.
func (c *Comparison) Planned(controller string, d reconcile.Decision) {
	c.mu.Lock()
	project := c.Project
	c.mu.Unlock()
	items := itemsOf(d.Steps, project)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	defer c.sweep(now) // before the lock is given back
	id := keyID{controller, d.Key}
	k := c.keys[id]
	switch {
	case k != nil:
	case len(items) == 0:
		return
	case len(c.keys) >= mostKeys:
		c.dropped += len(items)
		return
	default:
		k = &keyState{items: map[string]*item{}}
		c.keys[id] = k
	}
	if k.planned = now; d.Owner != nil {
		k.owner = d.Owner.GetUID()
	}
	k.about = d.Key
	for _, old := range slices.Sorted(maps.Keys(k.items)) {
		if next := items[old]; next != nil {
			c.stillPlanned(id, k, old, next, now)
		} else {
			c.settle(id, k, old, items, now)
		}
	}
	for _, new := range slices.Sorted(maps.Keys(items)) {
		c.add(id, k, new, items[new], now)
	}
	if len(k.items) == 0 {
		delete(c.keys, id)
	}
}

// add begins to wait for a write, unless it is waited for. One that takes the place of another, which was not done, has
// been waited for since then.
func (c *Comparison) add(id keyID, k *keyState, at string, i *item, now time.Time) {
	if k.items[at] != nil {
		return
	}
	if c.bytes+i.size > mostBytes {
		c.dropped++
		return
	}
	if i.planned = now; i.since.IsZero() {
		i.since = now
	}
	k.items[at] = i
	c.bytes += i.size
	c.overdue(id, k, at, now)
}

// stillPlanned is told that a write is planned again. Of several alike, some may have been done.
func (c *Comparison) stillPlanned(id keyID, k *keyState, at string, next *item, now time.Time) {
	i := k.items[at]
	if i.generated {
		done := min(c.matching(i), i.count)
		fewer := max(i.count-done-next.count, 0)
		c.count(id.controller, Agreed, done)
		c.count(id.controller, Superseded, fewer)
		if i.count = next.count; done > 0 || fewer > 0 {
			i.since, i.judged = now, false
		}
	}
	i.planned = now
	c.overdue(id, k, at, now)
}

// overdue judges a write that is planned for long.
func (c *Comparison) overdue(id keyID, k *keyState, at string, now time.Time) {
	i := k.items[at]
	if now.Sub(i.since) < notDoneAfter || i.judged {
		return
	}
	i.judged = true
	d := c.disagreement(id, i, now)
	d.Rule = NotDone
	if have, known := c.Cached(i.kind, plan.Key{Namespace: i.namespace, Name: i.name}); known && have != nil {
		d.aboutLeft(i, leaves(tree(have)))
	}
	c.suspect(suspect{Disagreement: d, id: id, at: at,
		Question: Question{About: k.about, Owner: k.owner, Since: i.since}})
}

// aboutLeft names the first field that is not as planned and that no row explains; the last one, if rows explain all.
func (d *Disagreement) aboutLeft(i *item, present map[string]string) {
	for _, f := range i.want {
		if has := valueAt(present, f.path); !same(f.value, has) {
			if d.about(i, f.path, f.value, has); rowOf(*d) == "" {
				return
			}
		}
	}
}

// suspect has [Comparison.Judge] ask whether there is a reason for a disagreement. More than can be asked are not
// compared.
func (c *Comparison) suspect(s suspect) {
	switch {
	case c.Hindrance == nil:
		c.disagree(s.Disagreement)
	case len(c.suspects) >= mostSuspects:
		c.dropped++
	default:
		c.suspects = append(c.suspects, s)
	}
}

// count adds to the verdicts of a controller.
func (c *Comparison) count(controller string, v Verdict, n int) {
	if n <= 0 {
		return
	}
	if c.counts[controller] == nil {
		c.counts[controller] = map[Verdict]int{}
	}
	c.counts[controller][v] += n
	c.Count(controller, v, n)
}

// disagree keeps a disagreement, with the row that explains it.
func (c *Comparison) disagree(d Disagreement) {
	verdict := Explained
	if d.Row = rowOf(d); d.Row == "" {
		d.Row, verdict = noRow, Unexplained
	} else {
		c.rows[d.Row]++
	}
	c.count(d.Controller, verdict, 1)
	if c.last = append(c.last, d); len(c.last) > mostDisagreements {
		// One that nobody explains stays as long as there is one that a row explains.
		at := max(slices.IndexFunc(c.last, func(d Disagreement) bool { return d.Row != noRow }), 0)
		c.last = slices.Delete(c.last, at, at+1)
	}
}

// sweep settles what is done, and what is planned no more because its key is not planned any more either.
func (c *Comparison) sweep(now time.Time) {
	if now.Sub(c.swept) < sweepEvery {
		return
	}
	c.swept = now
	c.come.expire(now)
	c.gone.expire(now)
	for id, k := range c.keys {
		if now.Sub(k.planned) < sweepEvery {
			continue
		}
		for _, old := range slices.Sorted(maps.Keys(k.items)) {
			if now.Sub(k.planned) >= forgottenAfter || c.done(k.items[old]) {
				c.settle(id, k, old, nil, now)
			}
		}
		if len(k.items) == 0 {
			delete(c.keys, id)
		}
	}
}
