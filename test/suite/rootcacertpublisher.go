package suite

import (
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const (
	rootCA         = "kube-root-ca.crt"
	rootCADescribe = "kubernetes.io/description"
)

func rootCAPublisherEntry() Entry {
	return Entry{
		Controller: "root-ca-certificate-publisher-controller",
		Operations: map[string]Operation{
			"rootca": editRootCA, // NAMESPACE do=delete, edit, add, describe, label
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "rootca %s do=%s", metav1.NamespaceDefault, workload.Pick(g, "delete", "edit", "add", "describe", "label"))
			g.Add(soon, "rootca kube-system do=%s", workload.Pick(g, "delete", "edit"))
		}}},
		Settled:   rootCAsSettled,
		Scenarios: rootCAScenarios,
		Malformed: map[string]string{
			"configmaps/kube-root-ca.crt": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"":"","kubernetes.io/description":""},${META}},
				"data":{"":"","..":"x","ca.crt":"x"},"binaryData":{"":""}}`,
		},
		Mutants: rootCAMutants,
		Budgets: rootCABudgets,
	}
}

// editRootCA does to the ConfigMap of a namespace what users should not.
func editRootCA(u *User, l script.Line) error {
	inside := u.in(u.namespaceOf(l.Arg(0)))
	do, _ := l.Get("do")
	if do == "delete" {
		return remove[*corev1.ConfigMap](inside, rootCA)
	}
	return edit(inside, rootCA, func(m *corev1.ConfigMap) {
		switch do {
		case "edit":
			m.Data = map[string]string{"ca.crt": "mine"}
		case "add":
			m.Data = map[string]string{"ca.crt": m.Data["ca.crt"], "more": "x"}
		case "describe":
			m.Annotations = nil
		case "label":
			m.Labels = map[string]string{"mine": "x"}
		}
	})
}

// rootCAsSettled says which namespaces lack the ConfigMap, and where it is not as it should be (RCA-1, RCA-2, RCA-6).
func rootCAsSettled(s *View) (wrong []string) {
	bundle, err := os.ReadFile(s.Authority())
	if err != nil {
		return []string{err.Error()}
	}
	for _, namespace := range active(s) {
		m := one[*corev1.ConfigMap](s, namespace, rootCA)
		if m == nil {
			wrong = append(wrong, fmt.Sprintf("the namespace %s has no ConfigMap %s", namespace, rootCA))
			continue
		}
		s.Looked++
		if len(m.Data) != 1 || m.Data["ca.crt"] != string(bundle) || m.Annotations[rootCADescribe] == "" {
			wrong = append(wrong,
				fmt.Sprintf("the ConfigMap of %s is not as it should be: %d data, described %q", namespace, len(m.Data),
					m.Annotations[rootCADescribe]))
		}
	}
	for _, e := range s.writes("configmaps") {
		if e.Before != nil && len(e.Before.GetLabels()) > len(e.Object.GetLabels()) { // RCA-6
			wrong = append(wrong, fmt.Sprintf("the manager has taken labels off the ConfigMap of %s", e.Object.GetNamespace()))
		}
	}
	return wrong
}

var rootCAMutants = []Mutant{
	{
		Name: "the ConfigMap with authorities does not come back",
		Edits: []Edit{{"pkg/controllers/rootcacertpublisher/enqueue.go", "before.GetName() != configMapName",
			"before.GetName() == configMapName"}},
		Script: withoutElection + "\n\t\t\tat 10s  rootca default do=delete",
		Oracle: SettledOracle,
	},
	{
		Name: "edits of the authorities stay",
		Edits: []Edit{{"pkg/controllers/rootcacertpublisher/plan.go", "same := maps.Equal(s.ConfigMap.Data, data)",
			"same := len(s.ConfigMap.Data) == 1 || maps.Equal(s.ConfigMap.Data, data)"}},
		Script: withoutElection + "\n\t\t\tat 10s  rootca default do=edit",
		Oracle: SettledOracle,
	},
	{
		Name: "additions to the authorities stay",
		Edits: []Edit{{"pkg/controllers/rootcacertpublisher/plan.go", "same := maps.Equal(s.ConfigMap.Data, data)",
			"same := maps.Equal(map[string]string{dataKey: s.ConfigMap.Data[dataKey]}, data)"}},
		Script: withoutElection + "\n\t\t\tat 10s  rootca default do=add",
		Oracle: SettledOracle,
	},
	{
		Name:   "a missing description stays missing",
		Edits:  []Edit{{"pkg/controllers/rootcacertpublisher/plan.go", "if described && same {", "if (described || true) && same {"}},
		Script: withoutElection + "\n\t\t\tat 10s  rootca default do=describe",
		Oracle: SettledOracle,
	},
	{
		Name: "labels of the ConfigMap are lost",
		Edits: []Edit{{"pkg/controllers/rootcacertpublisher/plan.go", "	after.Data = data\n",
			"	after.Data, after.Labels = data, nil\n"}},
		Script: withoutElection + "\n\t\t\tat 10s  rootca default do=label\n\t\t\tat 20s  rootca default do=edit",
		Oracle: SettledOracle,
	},
}

// editPublished deletes or changes the ConfigMap, and waits until it is as it should be.
func (u *User) editPublished(do func() error) {
	u.Helper()
	u.waitPublished()
	u.Try("edit the ConfigMap "+rootCA, do)
	u.waitPublished()
}

func (u *User) waitPublished() {
	u.Helper()
	Await(u, rootCA, func(m *corev1.ConfigMap) error {
		return unless(len(m.Data) == 1 && strings.HasPrefix(m.Data["ca.crt"], "-----BEGIN CERTIFICATE-----") &&
			m.Annotations[rootCADescribe] != "", m)
	})
}

func (u *User) patchPublished(document string) func() error {
	return func() error { return patch[*corev1.ConfigMap](u, rootCA, document) }
}

var rootCAScenarios = []Scenario{
	{Name: "the ConfigMap with authorities is changed and deleted", Play: func(u *User) {
		for range 2 {
			u.editPublished(func() error { return remove[*corev1.ConfigMap](u, rootCA) })
			u.editPublished(u.patchPublished(`{"data":{"ca.crt":"mine","more":"x"}}`))
			u.editPublished(u.patchPublished(`{"metadata":{"annotations":null}}`))
		}
	}},
}

var rootCABudgets = []Budget{{
	Name: "the ConfigMap with authorities is changed 20 times", Floor: floor.Writes{Other: 20},
	Do: func(u *User) {
		for range 20 {
			u.editPublished(u.patchPublished(`{"data":{"more":"x"}}`))
		}
	},
}}
