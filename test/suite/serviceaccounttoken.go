package suite

import (
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func serviceAccountTokenEntry() Entry {
	return Entry{
		Controller: "serviceaccount-token-controller",
		Operations: map[string]Operation{
			"token": token, // NAME account=; do=delete, clear, homeless
		},
		Choices: []workload.Choice{{Weight: 2, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "account default %s%s", app, workload.Pick(g, "", "", " delete=true"))
			g.Add(at, "token %s-%d account=%s", app, g.IntN(3), app)
			g.Add(soon, "token %s-%d do=%s", app, g.IntN(3), workload.Pick(g, "delete", "clear", "homeless"))
			if g.IntN(2) == 0 { // another one of the name
				g.Add(soon+g.Early(), "account default %s delete=true", app)
				g.Add(soon+g.Early(), "account default %s", app)
			}
		}}},
		Settled:   tokensSettled,
		Scenarios: tokenScenarios,
		Malformed: map[string]string{
			"secrets/nobodys-token": `{"apiVersion":"v1","kind":"Secret","metadata":${META},"type":"kubernetes.io/service-account-token"}`,
			"secrets/odd-token": `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubernetes.io/service-account.name":"../..",
				"kubernetes.io/service-account.uid":""},${META}},"data":{"":"","token":""},"type":"kubernetes.io/service-account-token"}`,
		},
		Mutants: tokenMutants,
		Budgets: tokenBudgets,
	}
}

// tokenSecret is a Secret that asks for a token of a ServiceAccount.
func tokenSecret(name, account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

func token(u *User, l script.Line) error {
	do, _ := l.Get("do")
	switch do {
	case "delete":
		return remove[*corev1.Secret](u, l.Arg(0))
	case "clear", "homeless":
		return edit(u, l.Arg(0), func(s *corev1.Secret) {
			delete(s.Data, corev1.ServiceAccountNamespaceKey)
			if do == "clear" {
				s.Data = nil
			}
		})
	}
	account, _ := l.Get("account")
	return create(u, tokenSecret(l.Arg(0), account))
}

// tokensSettled says which Secrets for tokens are not as they should be, and which should not be there or should be there still.
func tokensSettled(s *View) (wrong []string) {
	bundle, err := os.ReadFile(s.Authority())
	if err != nil {
		return []string{err.Error()}
	}
	for _, secret := range subjects[*corev1.Secret](s) {
		if secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil {
			continue
		}
		if !slices.ContainsFunc(all[*corev1.ServiceAccount](s), func(a *corev1.ServiceAccount) bool { return names(secret, a) }) { // TOK-12
			wrong = append(wrong, fmt.Sprintf("the Secret %s has no ServiceAccount", secret.Name))
		}
		// TOK-15
		if len(secret.Data["token"]) == 0 || string(secret.Data["namespace"]) != secret.Namespace ||
			string(secret.Data["ca.crt"]) != string(bundle) {
			wrong = append(wrong, fmt.Sprintf("the Secret %s is not complete", secret.Name))
		}
	}
	for _, e := range s.writes("secrets") {
		wrong = append(wrong, tokenWrite(s, e)...)
	}
	return wrong
}

// names reports whether the Secret is for this very ServiceAccount.
func names(secret *corev1.Secret, a *corev1.ServiceAccount) bool {
	uid := secret.Annotations[corev1.ServiceAccountUIDKey]
	return a.Namespace == secret.Namespace && a.Name == secret.Annotations[corev1.ServiceAccountNameKey] &&
		(uid == "" || uid == string(a.UID))
}

// tokenWrite says what is wrong with a write of the manager: it has replaced a token (TOK-13), or deleted a Secret whose ServiceAccount had
// been there for so long that the manager must have seen it (TOK-12).
func tokenWrite(s *View, e Change) (wrong []string) {
	before, _ := e.Before.(*corev1.Secret)
	after, _ := e.Object.(*corev1.Secret)
	if before == nil || after == nil || before.Labels[invalidSince] != "" {
		return nil // the legacy token cleaner's
	}
	if !e.Deleted {
		if old := before.Data["token"]; len(old) > 0 && string(old) != string(after.Data["token"]) {
			wrong = append(wrong, fmt.Sprintf("the token of %s was replaced", after.Name))
		}
		return wrong
	}
	for _, o := range s.past("serviceaccounts", e.Version) {
		a := o.(*corev1.ServiceAccount)
		if names(before, a) && e.Time.Sub(a.CreationTimestamp.Time) > time.Minute {
			wrong = append(wrong, fmt.Sprintf("the Secret %s was deleted, though there was its ServiceAccount", after.Name))
		}
	}
	return wrong
}

const beginToken = withoutElection + `
			at 5s   account default builder
			at 10s  token t account=builder`

var tokenMutants = []Mutant{
	{
		Name: "Secrets with tokens stay when their ServiceAccount is gone",
		Edits: []Edit{{"pkg/controllers/serviceaccounttoken/enqueue.go", "	case after == nil:\n		account = before\n",
			"	case after == nil:\n		return nil\n"}},
		Script: beginToken + "\n\t\t\tat 20s  account default builder delete=true",
		Oracle: SettledOracle,
	},
	{
		Name: "Secrets lack the namespace",
		Edits: []Edit{{"pkg/controllers/serviceaccounttoken/plan.go", "if len(data[corev1.ServiceAccountNamespaceKey]) == 0 {",
			"if false {"}},
		Script: beginToken,
		Oracle: SettledOracle,
	},
	{
		Name: "data that users remove from a Secret with a token stay away",
		Edits: []Edit{{"pkg/controllers/serviceaccounttoken/enqueue.go", "	o := cmp.Or(after, before)\n",
			"	if before != nil && after != nil {\n		return nil\n	}\n	o := cmp.Or(after, before)\n"}},
		Script: beginToken + "\n\t\t\tat 20s  token t do=clear",
		Oracle: SettledOracle,
	},
	{
		Name: "a token is replaced",
		Edits: []Edit{{"pkg/controllers/serviceaccounttoken/plan.go", "if len(data[corev1.ServiceAccountTokenKey]) == 0 {",
			"if len(data[corev1.ServiceAccountTokenKey]) == 0 || len(data[corev1.ServiceAccountNamespaceKey]) == 0 {"}},
		Script: beginToken + "\n\t\t\tat 20s  token t do=homeless",
		Oracle: SettledOracle,
	},
	{
		Name: "a Secret is taken for one of a later ServiceAccount",
		Edits: []Edit{{"pkg/controllers/serviceaccounttoken/plan.go", "(accountUID(s) == \"\" || accountUID(s) == a.UID)",
			"a.UID != \"\""}},
		Script: beginToken +
			"\n\t\t\tat 20s  fault m0 freeze serviceaccounts for=20s\n\t\t\tat 21s  account default builder delete=true\n\t\t\tat 22s  " +
			"account default builder",
		Oracle: SettledOracle,
	},
	{
		Name:  "a Secret is deleted without a live look at the ServiceAccount",
		Edits: []Edit{{"pkg/controllers/serviceaccounttoken/plan.go", "Proof: []plan.Ref{accountOf(s.Secret)},", "Proof: nil,"}},
		Script: withoutElection + `
			at 4s   fault m0 freeze serviceaccounts for=100s
			at 5s   account default builder
			at 80s  token t account=builder`,
		Oracle: SettledOracle,
	},
}

// makeToken creates a ServiceAccount and a Secret for a token of it, both of that name.
func (u *User) makeToken(name string) {
	u.Helper()
	u.Create(newAccount(name))
	u.Create(tokenSecret(name, name))
}

func (u *User) waitToken(name string) {
	u.Helper()
	Await(u, name, func(s *corev1.Secret) error {
		return unless(len(s.Data["token"]) > 0 && len(s.Data["ca.crt"]) > 0 && string(s.Data["namespace"]) == u.Namespace, len(s.Data))
	})
}

// deleteWithToken deletes a ServiceAccount and waits until its Secret is gone.
func (u *User) deleteWithToken(name string) {
	u.Helper()
	Remove[*corev1.ServiceAccount](u, name)
	AwaitGone[*corev1.Secret](u, name)
}

var tokenScenarios = []Scenario{
	{Name: "Secrets with tokens come and go", Play: func(u *User) {
		for i := range 3 {
			name := fmt.Sprint("builder-", i)
			u.makeToken(name)
			u.waitToken(name)
			Patch[*corev1.Secret](u, name, `{"data":null}`)
			u.waitToken(name)
			if i > 0 {
				u.deleteWithToken(name)
			}
		}
	}},
}

var tokenBudgets = []Budget{{
	Name: "20 Secrets with tokens come and go", Floor: floor.Writes{Other: 40},
	Do: func(u *User) {
		for i := range 20 {
			name := fmt.Sprint("builder-", i)
			u.makeToken(name)
			u.waitToken(name)
			u.deleteWithToken(name)
		}
	},
}}
