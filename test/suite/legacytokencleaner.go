package suite

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const (
	lastUsed      = "kubernetes.io/legacy-token-last-used"
	invalidSince  = "kubernetes.io/legacy-token-invalid-since"
	tokenTracking = "kube-apiserver-legacy-service-account-token-tracking"

	// LegacyTokenPeriod is the clean-up period of managers in simulations and crash tests: what was used yesterday is unused.
	LegacyTokenPeriod = "1s"
)

// byHand is the label of Secrets in simulations that their ServiceAccount does not list, mounted of those that a pod uses.
const byHand, mounted = "by-hand", "mounted"

func legacyTokenCleanerEntry() Entry {
	return Entry{
		Controller: "legacy-serviceaccount-token-cleaner-controller",
		Operations: map[string]Operation{
			"legacytoken": legacyToken, // NAME used=, marked= as days ago; kind=by-hand, mounted
			"tracking":    tracking,    // days=, ago
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "tracking days=%d", g.IntN(4))
			g.Add(at, "legacytoken legacy-%d used=%d marked=%d kind=%s", g.IntN(9), g.IntN(3), g.IntN(3),
				workload.Pick(g, "any", "any", byHand, mounted))
			g.Add(soon, "fault m0 stop back=1s") // it works when it begins to lead, and then once a day
		}}},
		Settled:   legacyTokensSettled,
		Scenarios: legacyTokenScenarios,
		Malformed: map[string]string{
			"secrets/old-token": `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubernetes.io/service-account.name":""},
				"labels":{"kubernetes.io/legacy-token-last-used":"never","kubernetes.io/legacy-token-invalid-since":"0000-00-00"},${META}},"type":"kubernetes.io/service-account-token"}`,
		},
		Mutants: legacyTokenMutants,
		Budgets: legacyTokenBudgets,
	}
}

func daysAgo(n int) string { return time.Now().UTC().AddDate(0, 0, -n).Format(time.DateOnly) }

// legacyToken makes a Secret as early versions of Kubernetes did.
func legacyToken(u *User, l script.Line) error {
	_ = create(u, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "legacy"}}) // unless it is there
	s := tokenSecret(l.Arg(0), "legacy")
	s.Labels = map[string]string{}
	for key, label := range map[string]string{"used": lastUsed, "marked": invalidSince} {
		if n, _ := l.Int(key); n > 0 {
			s.Labels[label] = daysAgo(n - 1)
		}
	}
	kind, _ := l.Get("kind")
	s.Labels["kind"] = kind
	if kind == mounted {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
		p.Spec = corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "good:1"}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: s.Name}}}
		if err := create(u, p); err != nil {
			return err
		}
	}
	if kind != byHand {
		list := func(a *corev1.ServiceAccount) { a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: s.Name}) }
		if err := edit(u, "legacy", list); err != nil {
			return err
		}
	}
	return create(u, s)
}

// tracking says since when the API server tracks the use of tokens.
func tracking(u *User, l script.Line) error {
	days, _ := l.Int("days")
	since := TokenTracking(days)
	return apply(u.in(metav1.NamespaceSystem), since, func(m *corev1.ConfigMap) { m.Data = since.Data })
}

// TokenTracking is the ConfigMap in which API servers note since when they track the use of tokens.
func TokenTracking(days int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: tokenTracking},
		Data:       map[string]string{"since": daysAgo(days)},
	}
}

// legacyTokensSettled says which tokens were marked or deleted, and should not have been: each write of the manager is compared with what
// there was at the time.
func legacyTokensSettled(s *View) (wrong []string) {
	for _, e := range s.writes("secrets") {
		before, _ := e.Before.(*corev1.Secret)
		after, _ := e.Object.(*corev1.Secret)
		if before == nil || after == nil || before.Labels["kind"] == "" {
			continue
		}
		deleted, today := e.Deleted, e.Time.UTC().Format(time.DateOnly)
		if !deleted && before.Labels[invalidSince] == after.Labels[invalidSince] {
			continue // it was filled
		}
		since := ""
		for _, o := range s.past("configmaps", e.Version) {
			if o.GetName() == tokenTracking {
				since = o.(*corev1.ConfigMap).Data["since"]
			}
		}
		tell := func(what string) {
			wrong = append(wrong, fmt.Sprintf("the token %s was retired: %s", after.Name, what))
		}
		if today <= since || since == "" {
			tell("its use was not tracked") // LTC-3; nobody tracks for a shorter time later, but by an edit right before
		}
		if !slices.ContainsFunc(s.past("serviceaccounts", e.Version), lists(after)) {
			tell("no ServiceAccount lists it") // LTC-6
		}
		if before.Labels["kind"] == mounted && slices.ContainsFunc(s.past("pods", e.Version), uses(after)) {
			tell("a pod uses it") // LTC-7
		}
		if before.Labels[lastUsed] >= today {
			tell("it was used") // LTC-5
		}
		if mark := before.Labels[invalidSince]; deleted && (mark == "" || mark >= today) {
			tell("it was not marked before") // LTC-9
		}
	}
	return wrong
}

// lists returns whether a ServiceAccount lists the Secret.
func lists(secret *corev1.Secret) func(Object) bool {
	return func(o Object) bool {
		a := o.(*corev1.ServiceAccount)
		return a.Namespace == secret.Namespace &&
			slices.ContainsFunc(a.Secrets, func(r corev1.ObjectReference) bool { return r.Name == secret.Name })
	}
}

// uses returns whether a pod pulls its images with the Secret.
func uses(secret *corev1.Secret) func(Object) bool {
	return func(o Object) bool {
		p := o.(*corev1.Pod)
		return p.Namespace == secret.Namespace && slices.Contains(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret.Name})
	}
}

const cleaner = "pkg/controllers/legacyserviceaccounttokencleaner/"

// legacyScript has a token, and a manager that begins to lead afterwards.
func legacyScript(tokens string) string {
	return withoutElection + `
			at 1s   tracking days=5
			at 5s   legacytoken legacy-1 ` + tokens + `
			at 20s  fault m0 stop back=1s`
}

var legacyTokenMutants = []Mutant{
	{
		Name:   "tokens that are used are marked as invalid",
		Edits:  []Edit{{cleaner + "plan.go", "isDay(last) && last < day(begins)", "isDay(last) && last <= day(now)"}},
		Script: legacyScript("used=1 kind=any"),
		Oracle: SettledOracle,
	},
	{
		Name: "tokens that users have made are marked as invalid",
		Edits: []Edit{{cleaner + "plan.go",
			"slices.ContainsFunc(a.Secrets, func(r corev1.ObjectReference) bool { return r.Name == secret.Name })", "a.Name != \"\""}},
		Script: legacyScript("kind=by-hand"),
		Oracle: SettledOracle,
	},
	{
		Name:   "tokens that pods use are marked as invalid",
		Edits:  []Edit{{cleaner + "plan_pods.go", "range p.Spec.ImagePullSecrets {", "range p.Spec.ImagePullSecrets[:0] {"}},
		Script: legacyScript("kind=mounted"),
		Oracle: SettledOracle,
	},
	{
		Name: "tokens are marked as invalid before their use was tracked",
		Edits: []Edit{{cleaner + "plan.go", "return err == nil && !now.Before(first.AddDate(0, 0, 1).Add(period))",
			"return err == nil && !now.Before(first)"}},
		Script: withoutElection +
			"\n\t\t\tat 1s   tracking days=0\n\t\t\tat 5s   legacytoken legacy-1 kind=any\n\t\t\tat 20s  fault m0 stop back=1s",
		Oracle: SettledOracle,
	},
	{
		Name:   "tokens are deleted on the day on which they were marked",
		Edits:  []Edit{{cleaner + "plan.go", "if marked < day(now.Add(-period)) {", "if marked <= day(now) {"}},
		Script: legacyScript("marked=1 kind=any"),
		Oracle: SettledOracle,
	},
}

// oldTokens makes two tokens that nobody uses: one was marked as invalid yesterday.
func (u *User) oldTokens() {
	u.Helper()
	u.Try("have the use of tokens tracked since long ago", func() error {
		return edit(u.in(metav1.NamespaceSystem), tokenTracking, func(m *corev1.ConfigMap) { m.Data = TokenTracking(1000).Data })
	})
	u.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "legacy"},
		Secrets: []corev1.ObjectReference{{Name: "unused"}, {Name: "marked"}}})
	for name, labels := range map[string]map[string]string{
		"unused": {lastUsed: daysAgo(500)}, "marked": {invalidSince: daysAgo(1)}, "by-hand": {lastUsed: daysAgo(500)},
	} {
		s := tokenSecret(name, "legacy")
		s.Labels = labels
		u.Create(s)
	}
	created := time.Now()
	u.Wait("the Secrets are older than the period", Patience, func() error {
		return unless(time.Since(created) >= 2*time.Second, time.Since(created))
	})
}

// waitRetired waits until one token is marked, and the other one deleted.
func (u *User) waitRetired() {
	u.Helper()
	u.Wait("unused tokens are retired", Patience, func() error {
		all, err := list[*corev1.Secret](u)
		if err != nil {
			return err
		}
		marks := map[string]string{}
		for _, s := range all {
			marks[s.Name] = s.Labels[invalidSince]
		}
		_, left := marks["marked"]
		return unless(!left && marks["unused"] == daysAgo(0) && marks["by-hand"] == "", marks)
	})
}

var legacyTokenScenarios = []Scenario{
	{Name: "legacy tokens that nobody uses", Prepare: (*User).oldTokens, Play: (*User).waitRetired},
}

var legacyTokenBudgets = []Budget{{
	Name: "an unused token between two cycles of the legacy token cleaner", Floor: floor.Writes{Other: 3}, // the three Secrets are filled
	Do: func(u *User) {
		u.oldTokens()
		for _, name := range []string{"unused", "marked", "by-hand"} {
			u.waitToken(name)
		}
	},
}}
