package resourcequota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// written returns the status that a plan writes; nil if it writes nothing.
func written(p plan.Plan) *corev1.ResourceQuotaStatus {
	if p.Empty() {
		return nil
	}
	c := p.Steps[0].(plan.Change)
	if c.Subresource != plan.Status || !c.CheckVersion {
		panic("not a status with a precondition") // RQ-40
	}
	return &c.New.(*corev1.ResourceQuota).Status
}

func reserving(l corev1.ResourceList) memory {
	return memory{Reserved: []increase{{Version: 1, At: epoch, Usage: l}}}
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	five := amounts("pods", 5)
	for _, c := range []struct {
		name string
		snapshot
		want    corev1.ResourceList // that is written; nil for nothing
		requeue time.Duration
	}{
		{"RQ-6 it is gone", snapshot{}, nil, 0},
		{"RQ-4 a new quota", snapshot{Quota: quotaOf(five), Counted: amounts("pods", 2)}, amounts("pods", 2), 0},
		{"RQ-44 nothing is used", snapshot{Quota: quotaOf(five), Counted: amounts("pods", 0)}, amounts("pods", 0), 0},
		{"RQ-43 it is as it should be", snapshot{Quota: quotaOf(five, said(amounts("pods", 2))), Counted: amounts("pods", 2)}, nil, 0},
		{"RQ-39 the same number", snapshot{Quota: quotaOf(five, said(amounts("pods", "2000m"))), Counted: amounts("pods", 2)}, nil, 0},
		{"RQ-39 another limit",
			snapshot{Quota: quotaOf(five, said(amounts("pods", 2)), func(q *corev1.ResourceQuota) { q.Spec.Hard = amounts("pods", 1) }),
				Counted: amounts("pods", 2)}, amounts("pods", 2), 0},
		{"RQ-38 a limit is gone", snapshot{Quota: quotaOf(five, said(amounts("pods", 2, "cpu", 1))), Counted: amounts("pods", 2)},
			amounts("pods", 2), 0},
		{"RQ-38 what nobody counts keeps its value",
			snapshot{Quota: quotaOf(amounts("pods", 5, "beer", 9), said(amounts("pods", 1, "beer", 3))), Counted: amounts("pods", 2)},
			amounts("pods", 2, "beer", 3), 0},
		{"RQ-42 what cannot be listed keeps its value",
			snapshot{Quota: quotaOf(amounts("pods", 5, "secrets", 9), said(amounts("pods", 1, "secrets", 3))), Counted: amounts("pods", 2),
				Failing: []string{"secrets"}}, amounts("pods", 2, "secrets", 3), lookAgain},
		{"RQ-17 a list is under way", snapshot{Quota: quotaOf(five), Waiting: []string{"pods"}}, nil, lookAgain},
		{"a watch is late", snapshot{Quota: quotaOf(five), Late: []string{"pods"}}, nil, time.Second},
		{"RQ-38 a list is under way, and the rest was counted before",
			snapshot{Quota: quotaOf(amounts("pods", 5, "secrets", 9), said(amounts("pods", 3, "secrets", 3))), Counted: amounts("pods", 2),
				Waiting: []string{"secrets"}}, amounts("pods", 2, "secrets", 3), lookAgain},
		{"RQ-38 a watch is late, and the rest was counted before",
			snapshot{Quota: quotaOf(amounts("pods", 5, "secrets", 9), said(amounts("pods", 3))), Counted: amounts("pods", 2),
				Late: []string{"secrets"}}, amounts("pods", 2), time.Second},
		{"RQ-49 a new quota does not wait for ever",
			snapshot{Quota: quotaOf(amounts("pods", 5, "secrets", 9)), Counted: amounts("pods", 2), Late: []string{"secrets"},
				Waited: true}, amounts("pods", 2), lookAgain},
		{"RQ-58 scopes that mean nothing", snapshot{Quota: quotaOf(five), Error: "?"}, nil, 0},
		{"RQ-45 more than the limit", snapshot{Quota: quotaOf(five, said(amounts("pods", 5))), Counted: amounts("pods", 7)},
			amounts("pods", 7), 0},
		{"RQ-38 less", snapshot{Quota: quotaOf(five, said(amounts("pods", 4))), Counted: amounts("pods", 2)}, amounts("pods", 2), 0},
		{"RQ-57 less, but for what is reserved",
			snapshot{Quota: quotaOf(five, said(amounts("pods", 4))), Counted: amounts("pods", 2), Memory: reserving(amounts("pods", 1))},
			amounts("pods", 3), reservedFor},
		{"RQ-57 all is reserved",
			snapshot{Quota: quotaOf(five, said(amounts("pods", 4))), Counted: amounts("pods", 2), Memory: reserving(amounts("pods", 9))},
			nil, reservedFor},
		{"RQ-57 reservations raise nothing",
			snapshot{Quota: quotaOf(five, said(amounts("pods", 1))), Counted: amounts("pods", 2), Memory: reserving(amounts("pods", 1))},
			amounts("pods", 2), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planUsage(epoch, c.snapshot)
			got := written(p)
			switch {
			case (got == nil) != (c.want == nil):
				t.Errorf("%s: writes %+v, want %+v", p.Why, got, c.want)
			case got != nil && (!quota.Equal(got.Used, c.want) || !quota.Equal(got.Hard, c.Quota.Spec.Hard)):
				t.Errorf("%s: writes %+v, want %+v", p.Why, got, c.want)
			}
			if p.Requeue != c.requeue || p.Why == "" {
				t.Errorf("%q looks again after %v, want %v", p.Why, p.Requeue, c.requeue)
			}
		})
	}
}

// A row is a sentence: what is reserved after versions of the quota and objects were seen. Version 10 said that two are used, and two were
// counted.
func TestReservations(t *testing.T) {
	known := memory{Seen: 10, Used: amounts("pods", 2), Known: []corev1.ResourceName{"pods"}}
	at := func(v, after uint64, used int) version { return version{v, after, amounts("pods", used)} }
	came := func(v uint64) increase { return increase{Version: v, Usage: amounts("pods", 1)} }
	for _, c := range []struct {
		name    string
		memory  memory
		seen    []version
		arrived []increase
		want    string
		early   int
	}{
		{"nothing happens", known, []version{at(10, 0, 2)}, nil, "0", 0},
		{"one is added", known, []version{at(11, 10, 3)}, nil, "1", 0},
		{"and comes", known, []version{at(11, 10, 3)}, []increase{came(12)}, "0", 0},
		{"what came before is not what was added", known, []version{at(11, 10, 3)}, []increase{came(9)}, "1", 0},
		{"two are added, one comes", known, []version{at(11, 10, 3), at(13, 11, 4)}, []increase{came(12)}, "1", 0},
		{"the watch has skipped a version", known, []version{at(13, 0, 4)}, []increase{came(12), came(14)}, "0", 0},
		{"the object comes first", known, []version{at(10, 0, 2)}, []increase{came(12)}, "0", 1},
		{"what comes from another etcd, whose versions are lower",
			memory{Seen: farApart + 10, Used: amounts("pods", 2), Known: known.Known}, []version{at(farApart+20, farApart+10, 3)},
			[]increase{came(9)}, "0", 0},
		{"what comes from another etcd, whose versions are higher", known, []version{at(11, 10, 4)}, []increase{came(farApart + 20)}, "1",
			0},
		{"an old version", known, []version{at(9, 8, 7)}, nil, "0", 0},
		{"the usage was lowered, and raised again", known, []version{at(11, 10, 1), at(12, 11, 2)}, nil, "1", 0},
		{"a quota that was not known uses more than is counted", memory{}, []version{at(11, 10, 3)}, nil, "3", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			last := c.seen[len(c.seen)-1]
			q := quotaOf(amounts("pods", 9), said(last.Used))
			q.ResourceVersion = fmt.Sprint(max(last.Version, 10))
			m := c.memory.advance(epoch, q, amounts("pods", 0), c.seen, c.arrived)
			sum, _ := m.reserved()
			if got := sum["pods"]; got.String() != c.want || len(m.Unmatched) != c.early {
				t.Errorf("%s are reserved, and %d have come early; want %s and %d", got.String(), len(m.Unmatched), c.want, c.early)
			}
		})
	}
}

// An object that has come before the increase was seen settles it later. A reservation ends after a minute.
func TestReservationsLater(t *testing.T) {
	m := memory{Seen: 10, Used: amounts("pods", 2), Known: []corev1.ResourceName{"pods"}}
	q := quotaOf(amounts("pods", 9), said(amounts("pods", 2)), func(q *corev1.ResourceQuota) { q.ResourceVersion = "10" })
	m = m.advance(epoch, q, amounts("pods", 3), []version{{10, 0, q.Status.Used}}, []increase{{Version: 12, Usage: amounts("pods", 1)}})
	q = quotaOf(amounts("pods", 9), said(amounts("pods", 4)), func(q *corev1.ResourceQuota) { q.ResourceVersion = "13" })
	m = m.advance(epoch, q, amounts("pods", 3), []version{{11, 10, amounts("pods", 3)}, {13, 11, amounts("pods", 4)}}, nil)
	if sum, ends := m.reserved(); !quota.Equal(sum, amounts("pods", 1)) || !ends.Equal(epoch.Add(reservedFor)) || len(m.Unmatched) != 0 {
		t.Errorf("%+v", m)
	}
	m = m.advance(epoch.Add(reservedFor), q, amounts("pods", 3), nil, nil)
	if len(m.Reserved) != 0 {
		t.Errorf("%+v", m.Reserved)
	}
	m = m.advance(epoch, q, amounts("pods", 3), nil, []increase{{Version: 1 << 60, Usage: amounts("pods", 1)}})
	if len(m.Unmatched) != 1 {
		t.Errorf("%+v", m.Unmatched)
	}
	if m = m.advance(epoch.Add(reservedFor), q, amounts("pods", 3), nil, nil); len(m.Unmatched) != 0 {
		t.Errorf("of a version that never comes, %+v is remembered", m.Unmatched)
	}
	if other := m.under("x"); other.Reserved != nil {
		t.Errorf("RQ-59 under other scopes, %+v is reserved", other.Reserved)
	}
}

// What others have counted before is counted as if for the first time: nobody knows what the new source has missed.
func TestReservationsOfOtherSources(t *testing.T) {
	m := reserving(amounts("pods", 3, "cpu", 2))
	m.Seen, m.Used, m.Known = 10, amounts("pods", 4, "cpu", 2), []corev1.ResourceName{"cpu", "pods"}
	m.AtRest = true
	m = m.from(map[corev1.ResourceName]string{"pods": "1,", "cpu": "1,"})
	q := quotaOf(amounts("pods", 9, "cpu", 9), said(amounts("pods", 4, "cpu", 2)),
		func(q *corev1.ResourceQuota) { q.ResourceVersion = "10" })
	for _, c := range []struct {
		name    string
		sources map[corev1.ResourceName]string
		want    corev1.ResourceList
	}{
		{"the same source", map[corev1.ResourceName]string{"pods": "1,"}, amounts("pods", 3, "cpu", 2)},
		{"another source of one name", map[corev1.ResourceName]string{"pods": "2,", "cpu": "1,"}, amounts("cpu", 2)},
	} {
		next := m.from(c.sources).advance(epoch, q, amounts("pods", 2), nil, nil)
		kept, _ := next.reserved()
		for _, r := range next.Reserved {
			if r.At.Before(epoch) { // it ends sooner
				quota.Subtract(kept, r.Usage)
				if !quota.Equal(r.Usage, amounts("pods", 2)) {
					t.Errorf("%s: %+v ends sooner", c.name, r.Usage)
				}
			}
		}
		if len(quota.Over(kept, c.want))+len(quota.Over(c.want, kept)) > 0 {
			t.Errorf("%s: %+v are reserved, want %+v", c.name, kept, c.want)
		}
	}
	if sum, _ := m.reserved(); !quota.Equal(sum, amounts("pods", 3, "cpu", 2)) {
		t.Errorf("the older memory has changed: %+v", sum)
	}
}

// Own writes are no raises, also if nobody knows whether they were carried out.
func TestOwnWrites(t *testing.T) {
	q := quotaOf(amounts("pods", 9), said(amounts("pods", 3)))
	s := snapshot{Quota: q, Memory: memory{Seen: 100, Used: amounts("pods", 5), Known: []corev1.ResourceName{"pods"}}}
	for _, c := range []struct {
		name string
		plan.Result
		seen uint64
		used int
	}{
		{"done", plan.Result{Object: q, Version: "101"}, 101, 3},
		{"refused", plan.Result{Object: q, Err: fmt.Errorf("%w: conflict", plan.ErrStale)}, 100, 5},
		{"not answered", plan.Result{Object: q, Err: errors.New("timeout")}, 100, 3},
	} {
		m := remember(epoch, s, struct{}{}, plan.Outcome{Results: []plan.Result{c.Result}})
		if m.Seen != c.seen || !quota.Equal(m.Used, amounts("pods", c.used)) {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
}

// RQ-57: whatever happens in whatever order, while objects come and go and the watches show that late, there is never more admitted
// than the limit, and in the end all is as it should be.
func TestNeverLowersTooFar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const hard = 4
		now, version := epoch, uint64(100)
		stored, shownObjects, shownQuota := map[uint64]bool{}, 0, 0
		type event struct {
			version uint64
			gone    bool
		}
		var objects []event
		quotas := []*corev1.ResourceQuota{quotaOf(amounts("pods", hard), said(amounts("pods", 0)))}
		m := memory{Seen: 100, Used: amounts("pods", 0), Known: []corev1.ResourceName{"pods"}}
		counted := 0
		var arrived []increase
		sync := func() {
			q := quotas[shownQuota]
			s := snapshot{Quota: q, Counted: amounts("pods", counted)}
			s.Memory = m.advance(now, q, s.Counted, versionsOf(quotas[:shownQuota+1]), arrived)
			arrived = nil
			m = s.Memory
			p := planUsage(now, s)
			status := written(p)
			if status == nil || q != quotas[len(quotas)-1] { // or a conflict
				return
			}
			version++
			next := q.DeepCopy()
			next.Status, next.ResourceVersion = *status, fmt.Sprint(version)
			quotas = append(quotas, next)
			m = *remember(now, s, struct{}{}, plan.Outcome{Results: []plan.Result{{Object: next, Version: next.ResourceVersion}}})
		}
		show := func(n int) {
			for ; n > 0 && shownObjects < len(objects); n-- {
				e := objects[shownObjects]
				shownObjects++
				if e.gone {
					counted--
					continue
				}
				counted++
				arrived = append(arrived, increase{Version: e.version, Usage: amounts("pods", 1)})
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Second / 2)
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0: // admission
				last := quotas[len(quotas)-1]
				if used := last.Status.Used["pods"]; used.Value() < hard {
					version++
					next := last.DeepCopy()
					next.Status.Used, next.ResourceVersion = amounts("pods", used.Value()+1), fmt.Sprint(version)
					quotas = append(quotas, next)
					version++
					stored[version] = true
					objects = append(objects, event{version: version})
				}
			case 1:
				if len(stored) > 0 {
					version++
					id := slices.Min(slices.Collect(maps.Keys(stored)))
					delete(stored, id)
					objects = append(objects, event{version: version, gone: true})
				}
			case 2:
				show(rapid.IntRange(1, 3).Draw(t, "objects"))
			case 3:
				shownQuota = min(shownQuota+rapid.IntRange(1, 3).Draw(t, "quotas"), len(quotas)-1)
			case 4:
				sync()
			}
			if len(stored) > hard {
				t.Fatalf("%d of %d are admitted", len(stored), hard)
			}
		}
		for range 5 {
			now = now.Add(reservedFor)
			show(len(objects))
			shownQuota = len(quotas) - 1
			sync()
		}
		if used := quotas[len(quotas)-1].Status.Used["pods"]; int(used.Value()) != len(stored) {
			t.Errorf("in the end %s are used, and there are %d", used.String(), len(stored))
		}
	})
}

// versionsOf returns what all versions of a quota said.
func versionsOf(quotas []*corev1.ResourceQuota) (all []version) {
	last := uint64(0)
	for _, q := range quotas {
		all = append(all, version{quota.Version(q), last, q.Status.Used})
		last = quota.Version(q)
	}
	return all
}

// Of a quota all is cached but managedFields, by which no status is computed. What is counted is projected by internal/quota/usage, which
// has a test of that.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		q := quotaOf(amounts("pods", rapid.IntRange(0, 5).Draw(t, "hard")), said(amounts("pods", rapid.IntRange(0, 5).Draw(t, "used"))))
		if rapid.Bool().Draw(t, "anything") {
			plantest.Anything(rapid.Int64().Draw(t, "seed"))(q)
			q.Namespace, q.Name, q.UID = "shop", "some", "q"
		}
		s := snapshot{Quota: q, Counted: corev1.ResourceList{},
			Memory: reserving(amounts("pods", rapid.IntRange(0, 5).Draw(t, "reserved")))}
		for name := range q.Spec.Hard {
			s.Counted[name] = resource.MustParse(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "counted")))
		}
		q.ManagedFields = nil
		cached := s
		cached.Quota = plantest.Kept(t, kept, q)
		plantest.Same(t, planUsage(epoch, s), planUsage(epoch, cached))
	})
}

// TestSnapshotsCanBeStored: the same is planned from a snapshot that was stored.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(label string) int { return rapid.IntRange(0, 5).Draw(t, label) }
		s := snapshot{
			Quota: quotaOf(amounts("pods", n("hard")), said(amounts("pods", n("used")))), Counted: amounts("pods", n("counted")),
			Memory: reserving(amounts("pods", n("reserved"))),
		}
		if rapid.Bool().Draw(t, "failing") {
			s.Failing = []string{"secrets"}
		}
		a, b := planUsage(epoch, s), planUsage(epoch, plantest.Restored(t, s))
		if a.Why != b.Why || a.Requeue != b.Requeue || fmt.Sprint(written(a)) != fmt.Sprint(written(b)) {
			t.Errorf("%+v, and from the stored snapshot %+v", a, b)
		}
	})
}
