package suite

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func serviceAccountEntry() Entry {
	return Entry{
		Controller: "serviceaccount-controller",
		Operations: map[string]Operation{
			"namespace": namespace, // NAME; delete=true
			"account":   account,   // NAMESPACE NAME; delete=true
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "namespace %s", app)
			if g.IntN(2) == 0 {
				g.Add(at, "account %s a-%s", metav1.NamespaceDefault, app)
			}
			g.Add(soon, "account %s default delete=true", workload.Pick(g, app, metav1.NamespaceDefault))
			if g.IntN(3) == 0 {
				g.Add(soon+g.Early(), "namespace %s delete=true", app)
			}
		}}},
		Settled:   accountsSettled,
		Scenarios: serviceAccountScenarios,
		Malformed: map[string]string{
			"serviceaccounts/default": `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"annotations":null,"finalizers":[""],${META}},
				"secrets":[{},{"name":""},{"name":"x","namespace":"elsewhere"}],"imagePullSecrets":[{}]}`,
		},
		Mutants: serviceAccountMutants,
		Budgets: serviceAccountBudgets,
	}
}

// namespace creates a namespace, or deletes it.
func namespace(u *User, l script.Line) error {
	name := u.namespaceOf(l.Arg(0))
	if says(l, "delete") {
		return remove[*corev1.Namespace](u, name)
	}
	return create(u, newNamespace(name))
}

// namespaceOf is the namespace that scripts call so.
func (u *User) namespaceOf(word string) string {
	switch word {
	case metav1.NamespaceDefault:
		return u.Namespace
	case metav1.NamespaceSystem:
		return word
	}
	return u.unique(word)
}

// account creates a ServiceAccount, or deletes it.
func account(u *User, l script.Line) error {
	inside := u.in(u.namespaceOf(l.Arg(0)))
	if says(l, "delete") {
		return remove[*corev1.ServiceAccount](inside, l.Arg(1))
	}
	return create(inside, newAccount(l.Arg(1)))
}

func newAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// active are the namespaces that are not being deleted.
func active(s *View) (names []string) {
	for _, n := range all[*corev1.Namespace](s) {
		if n.Status.Phase == corev1.NamespaceActive {
			names = append(names, n.Name)
		}
	}
	return names
}

// accountsSettled says which namespaces lack a ServiceAccount, and which have one that should not be there (SA-1, SA-3).
func accountsSettled(s *View) (wrong []string) {
	for _, name := range active(s) {
		if one[*corev1.ServiceAccount](s, name, "default") == nil {
			wrong = append(wrong, fmt.Sprintf("the namespace %s has no ServiceAccount default", name))
		}
	}
	for _, a := range subjects[*corev1.ServiceAccount](s) {
		if a.Name == "default" && len(a.Labels)+len(a.Secrets)+len(a.OwnerReferences) > 0 { // SA-5
			wrong = append(wrong, fmt.Sprintf("the ServiceAccount default of %s has more than a name", a.Namespace))
		}
	}
	for _, e := range s.writes("serviceaccounts") {
		if e.Object.GetName() != "default" && e.Before == nil {
			wrong = append(wrong, fmt.Sprintf("the manager has created the ServiceAccount %s", e.Object.GetName()))
		}
	}
	return wrong
}

var serviceAccountMutants = []Mutant{
	{
		Name: "a ServiceAccount that is deleted does not come back",
		Edits: []Edit{{"pkg/controllers/serviceaccount/enqueue.go", "if after != nil || before.GetName() != defaultName {",
			"if after != nil || before.GetName() == defaultName {"}},
		Script: withoutElection + "\n\t\t\tat 10s  account default default delete=true",
		Oracle: SettledOracle,
	},
	{
		Name: "new namespaces get no ServiceAccount",
		Edits: []Edit{{"pkg/controllers/serviceaccount/controller.go", "namespaces.Watch(informers.Existing)",
			"namespaces.Watch(informers.None)"}},
		Script: withoutElection + "\n\t\t\tat 10s  namespace web",
		Oracle: SettledOracle,
	},
	{
		Name: "the ServiceAccount has another name",
		Edits: []Edit{{"pkg/controllers/serviceaccount/plan.go", "\t\t\t\tName: defaultName",
			"\t\t\t\tName: defaultName + \"s\""}},
		Script: withoutElection + "\n\t\t\tat 10s  namespace web",
		Oracle: SettledOracle,
	},
	{
		Name: "the ServiceAccount has labels",
		Edits: []Edit{{"pkg/controllers/serviceaccount/plan.go", "\t\t\t\tName: defaultName",
			"Labels: map[string]string{\"x\": \"y\"}, Name: defaultName"}},
		Script: withoutElection + "\n\t\t\tat 10s  namespace web",
		Oracle: SettledOracle,
	},
	{
		Name: "a ServiceAccount that is not default is enough",
		Edits: []Edit{{"pkg/controllers/serviceaccount/observe.go", "k.accounts.Get(r.Key.Name, defaultName),",
			"append(k.accounts.In(r.Key.Name), nil)[0],"}},
		Script: withoutElection + "\n\t\t\tat 10s  account default other\n\t\t\tat 20s  account default default delete=true",
		Oracle: SettledOracle,
	},
}

// deleteAccount deletes the ServiceAccount default and waits until there is another one.
func (u *User) deleteAccount() {
	u.Helper()
	var before *corev1.ServiceAccount
	u.Wait("there is a ServiceAccount default", Patience, func() (err error) {
		before, err = get[*corev1.ServiceAccount](u, "default")
		return err
	})
	u.Try("delete the ServiceAccount default", func() error {
		err := remove[*corev1.ServiceAccount](u, "default", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &before.UID}})
		if apierrors.IsConflict(err) {
			return nil
		}
		return ignoreNotFound(err)
	})
	Await(u, "default", func(a *corev1.ServiceAccount) error {
		return unless(a.UID != before.UID, "it is still the one of before")
	})
}

var serviceAccountScenarios = []Scenario{
	{Name: "the ServiceAccount default is deleted again and again", Play: func(u *User) {
		for range 4 {
			u.deleteAccount()
		}
	}},
}

var serviceAccountBudgets = []Budget{{
	Name: "the ServiceAccount default is deleted 20 times", Floor: floor.Writes{Other: 20},
	Do: func(u *User) {
		for range 20 {
			u.deleteAccount()
		}
	},
}}
