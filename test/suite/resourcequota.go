package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func resourceQuotaEntry() Entry {
	return Entry{
		Controller: "resourcequota-controller",
		Operations: map[string]Operation{
			"resourcequota": limitNamespace, // NAME pods= configmaps= jobs=; delete=true; * lift=true: all quotas have room for everything
			"fill":          fill,           // NAME n=: ConfigMaps, one after the other; delete=true
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "resourcequota %s %s=%d", app, workload.Pick(g, "pods", "configmaps", "configmaps", "jobs"), g.IntN(12))
			g.Add(at, "fill %s n=%d", app, g.IntN(8))
			if g.IntN(2) == 0 {
				g.Add(soon, "fill %s delete=true", app)
			}
			g.Add(soon, "resourcequota %s %s", app, workload.Pick(g, "lift=true", "delete=true", "configmaps=5"))
			g.Add(soon, "fill more-%s n=%d", app, g.IntN(8))
		}}},
		Settled: settledQuotas,
		Scenarios: []Scenario{{Name: "a quota that is used up and freed", Play: func(u *User) {
			u.Create(newQuota("some", configMaps(8)))
			u.waitUsed("some", 1)
			for i := range 5 {
				u.Create(filled(fmt.Sprint("filled-", i)))
			}
			u.waitUsed("some", 6)
			for i := range 3 {
				Remove[*corev1.ConfigMap](u, fmt.Sprint("filled-", i))
			}
			u.waitUsed("some", 3)
		}}},
		Malformed: map[string]string{
			"resourcequotas/empty": `{"apiVersion":"v1","kind":"ResourceQuota","metadata":${META}}`,
			"resourcequotas/absurd": `{"apiVersion":"v1","kind":"ResourceQuota","metadata":${META},
				"spec":{"hard":{"":"1","count/":"-1","count/..":"1","count/x.example.com":"9999999999999999999999","requests./":"1","requests.a/":"0",
					".deviceclass.resource.k8s.io/devices":"1"}},
				"status":{"hard":{"":"-1"},"used":{"":"-99999999999999999999999999999999999"}}}`,
			"resourcequotas/negative": `{"apiVersion":"v1","kind":"ResourceQuota","metadata":${META},
				"spec":{"hard":{"example.com/widgets":"-5","requests.example.com/widgets":"-5"},"scopes":["Unknown"]},
				"status":{"hard":{"pods":"-1"},"used":{"pods":"-7","x":"1E400"}}}`,
		},
		Mutants: quotaMutants,
		Budgets: []Budget{{
			Name: "20 quotas are counted", Floor: floor.Writes{Status: 20},
			Do: func(u *User) {
				u.Each(20, func(i int) error { return create(u, newQuota(fmt.Sprint("some-", i), configMaps(100))) })
				for i := range 20 {
					u.waitUsed(fmt.Sprint("some-", i), 1)
				}
			},
		}},
	}
}

func newQuota(name string, hard corev1.ResourceList) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
}

// configMaps limits the ConfigMaps of a namespace.
func configMaps(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceConfigMaps: *resource.NewQuantity(n, resource.DecimalSI)}
}

// waitUsed waits until the status of a quota says how many ConfigMaps there are; the one with authorities is among them.
func (u *User) waitUsed(name string, want int64) {
	u.Helper()
	Await(u, name, func(q *corev1.ResourceQuota) error {
		used, ok := q.Status.Used[corev1.ResourceConfigMaps]
		return unless(ok && used.Value() == want, q.Status)
	})
}

// limited are the names that scripts limit, and what is counted under them.
var limited = map[string]corev1.ResourceName{"pods": corev1.ResourcePods, "configmaps": corev1.ResourceConfigMaps,
	"jobs": "count/jobs.batch"}

// limitNamespace makes, changes or deletes a quota.
func limitNamespace(u *User, l script.Line) error {
	name := l.Arg(0)
	switch {
	case says(l, "delete"):
		return removeAsToldBy[*corev1.ResourceQuota](u, name, l)
	case says(l, "lift") && name == "*":
		all, err := list[*corev1.ResourceQuota](u)
		for _, q := range all {
			err = errors.Join(err, edit(u, q.Name, liftQuota))
		}
		return err
	case says(l, "lift"):
		return edit(u, name, liftQuota)
	}
	hard := corev1.ResourceList{}
	for word, limit := range limited {
		if n, ok := l.Int(word); ok {
			hard[limit] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		}
	}
	return apply(u, newQuota(name, hard), func(q *corev1.ResourceQuota) { q.Spec.Hard = hard })
}

func liftQuota(q *corev1.ResourceQuota) {
	for limit := range q.Spec.Hard {
		q.Spec.Hard[limit] = resource.MustParse("100000")
	}
}

// fill makes ConfigMaps, or deletes them.
func fill(u *User, l script.Line) error {
	prefix := "filled-" + l.Arg(0) + "-"
	if says(l, "delete") {
		all, err := list[*corev1.ConfigMap](u)
		for _, m := range all {
			if err == nil && strings.HasPrefix(m.Name, prefix) {
				err = remove[*corev1.ConfigMap](u, m.Name)
			}
		}
		return err
	}
	n, _ := l.Int("n")
	for i := range n {
		if err := create(u, filled(fmt.Sprint(prefix, i))); err != nil {
			return err
		}
	}
	return nil
}

// filled is a ConfigMap that counts.
func filled(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// settledQuotas says which statuses are wrong.
func settledQuotas(server *View) (wrong []string) {
	for _, q := range subjects[*corev1.ResourceQuota](server) {
		for limit, hard := range q.Spec.Hard {
			if enforced, ok := q.Status.Hard[limit]; !ok || enforced.Cmp(hard) != 0 {
				wrong = append(wrong,
					fmt.Sprintf("the status of quota %s limits %s to %s, its spec to %s", q.Name, limit, enforced.String(), hard.String()))
			}
			used, ok := q.Status.Used[limit]
			if n := countLimited(server, q.Namespace, limit); !ok || used.Value() != int64(n) {
				wrong = append(wrong,
					fmt.Sprintf("the status of quota %s says that %s %s are used, and there are %d", q.Name, used.String(), limit, n))
			}
		}
		if len(q.Status.Used) != len(q.Spec.Hard) {
			wrong = append(wrong, fmt.Sprintf("the status of quota %s says %v, its spec %v", q.Name, q.Status.Used, q.Spec.Hard))
		}
	}
	slices.Sort(wrong)
	return wrong
}

func countLimited(server *View, namespace string, limit corev1.ResourceName) (n int) {
	switch limit {
	case corev1.ResourcePods:
		for _, p := range all[*corev1.Pod](server) {
			if p.Namespace == namespace && !ended(p) && !overdue(p) {
				n++
			}
		}
	case corev1.ResourceConfigMaps:
		for _, m := range all[*corev1.ConfigMap](server) {
			if m.Namespace == namespace {
				n++
			}
		}
	default:
		for _, j := range all[*batchv1.Job](server) {
			if j.Namespace == namespace {
				n++
			}
		}
	}
	return n
}

// overdue reports whether a pod should have ended long ago.
func overdue(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil &&
		time.Since(p.DeletionTimestamp.Time) > time.Duration(*p.DeletionGracePeriodSeconds)*time.Second
}

const (
	quotaPlan = "pkg/controllers/resourcequota/plan.go"
	quotaSums = "internal/quota/sums/sums.go"
)

var quotaMutants = []Mutant{
	{
		Name:  "the usage is lowered to what the cache shows",
		Edits: []Edit{{quotaPlan, "both.Add(reserved[name]); both.Cmp(before) > 0", "both.Cmp(before) > 0"}},
		Script: withoutElection + `
			at 1s   resourcequota q configmaps=4
			at 30s  fault m0 freeze configmaps for=30s
			at 32s  fill a n=3
			at 40s  fill b n=3`,
		Oracle: "S25",
	},
	{
		Name:  "a new quota is counted from a watch that is late",
		Edits: []Edit{{"internal/quota/usage/compare.go", "return Late", "return Verified"}},
		Script: withoutElection + `
			at 1s   resourcequota first configmaps=100
			at 30s  fault m0 freeze configmaps for=60s
			at 32s  fill a n=3
			at 40s  resourcequota q configmaps=4
			at 60s  fill b n=3`,
		Oracle: "S25",
	},
	{
		Name:  "a quota is not told of objects that go",
		Edits: []Edit{{quotaSums, "s.replace(namespace, of, before, nil)\n\ts.release(before)", "s.release(before)"}},
		Script: withoutElection + `
			at 1s   resourcequota q configmaps=9
			at 20s  fill a n=3
			at 40s  fill a delete=true`,
		Oracle: SettledOracle,
	},
	{
		Name: "a new limit is not enforced",
		Edits: []Edit{{quotaPlan, "quota.Equal(q.Spec.Hard, q.Status.Hard) && quota.Equal(used, q.Status.Used)",
			"len(q.Status.Hard) > 0 && quota.Equal(used, q.Status.Used)"}},
		Script: withoutElection + `
			at 1s   resourcequota q configmaps=9
			at 20s  resourcequota q configmaps=5`,
		Oracle: SettledOracle,
	},
	{
		Name: "what was reserved for an object that did not come stays reserved",
		Edits: []Edit{{"pkg/controllers/resourcequota/plan_reserve.go", "if now.Sub(r.At) < reservedFor {",
			"if now.Sub(r.At) < 1000*reservedFor {"}},
		Script: withoutElection + `
			at 1s   resourcequota q configmaps=9
			at 20s  fill a n=1
			at 30s  fill a n=1`,
		Oracle: SettledOracle,
	},
}
