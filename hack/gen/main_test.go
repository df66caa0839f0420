package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

func TestFilesAreCurrent(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	if err := run(true); err != nil {
		t.Error(err)
	}
}

func TestCheckSeesWhatIsOutOfDate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f := file{path, func([]byte) ([]byte, error) { return []byte("new"), nil }}
	if err := f.update(true); err == nil {
		t.Error("a missing file passes")
	}
	if err := f.update(false); err != nil {
		t.Fatal(err)
	}
	if err := f.update(true); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.update(true); err == nil {
		t.Error("an old file passes")
	}
}

// mayTouchSecrets are the roles that have rights on Secrets, and what they may do. The caches and the serviceaccount-token controller have
// the root identity; the API server cannot narrow a right to Secrets of one type.
var mayTouchSecrets = map[string][]string{
	account: {"list watch", "update delete"},
	account + ":legacy-service-account-token-cleaner": {"patch delete"},
	account + ":token-cleaner":                        {"delete"}, // in one namespace
}

// mayTouchEverything are the roles that have rights on objects of every kind, and what they may do: any object can have an owner, and
// most are in a namespace (GC-58, NS-41).
var mayTouchEverything = map[string]string{
	account:                                "* * list watch",
	account + ":generic-garbage-collector": "* * get patch delete",
	account + ":namespace-controller":      "* * list delete deletecollection",
	account + ":disruption-controller":     "* */scale get", // of whatever owns pods (DIS-20e)
	// objects of any kind may have to be stored anew (SVM-8)
	account + ":storage-version-migrator-controller": "* * list patch",
}

// mayReadMetrics are the wildcards of the autoscaler, which scales whatever has a scale by metrics whose names are those of resources
// (HPA-65).
var mayReadMetrics = []string{"* */scale get update", "custom.metrics.k8s.io * get", "external.metrics.k8s.io * list"}

func TestNoRoleIsWiderThanNeedBe(t *testing.T) {
	for _, r := range roles(manager.Rights(controllers.Registry())) {
		if len(r.Rules) == 0 {
			t.Errorf("%s has no rules", r.Name)
		}
		for _, rule := range r.Rules {
			all := strings.Join(append(append([]string{rule.Group, rule.Resource}, rule.Verbs...), rule.Names...), " ")
			verbs := strings.Join(rule.Verbs, " ")
			switch {
			case r.Name == account+":horizontal-pod-autoscaler" && slices.Contains(mayReadMetrics, all):
			case strings.Contains(all, "*") && all != mayTouchEverything[r.Name]:
				t.Errorf("%s has a wildcard: %s", r.Name, all)
			case rule.Resource == "secrets" && !slices.Contains(mayTouchSecrets[r.Name], verbs) ||
				strings.HasPrefix(rule.Resource, "serviceaccounts/token") && len(rule.Names) == 0:
				t.Errorf("%s is a way to everything: %s", r.Name, all)
			case rule.For == "":
				t.Errorf("%s does not say what for: %s", r.Name, all)
			}
		}
	}
}

func TestRulesInYAML(t *testing.T) {
	out, err := render([]role{{Name: "r", Namespace: "n", Account: "a",
		Rules: []rbac.Rule{{Resource: "pods/status", Verbs: []string{"get", "patch"}, Names: []string{"x", "y"}, For: "a test"}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := "kind: Role\nmetadata:\n  name: r\n  namespace: n\nrules:\n# a test\n- apiGroups: [\"\"]\n  resources: [pods/status]\n  " +
		"resourceNames: [x, y]\n  verbs: [get, patch]\n---\n"
	if !strings.Contains(string(out), want) {
		t.Errorf("got\n%s", out)
	}
	out, err = render([]role{{Name: "r", Account: "a",
		Rules: []rbac.Rule{{Group: "*", Resource: "*/scale", Verbs: []string{"*"}, For: "a test"}}}})
	if want := "- apiGroups: [\"*\"]\n  resources: [\"*/scale\"]\n  verbs: [\"*\"]\n"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("wildcards: got\n%s", out)
	}
}

func TestRolesOfANamespace(t *testing.T) {
	rights := map[string]rbac.Rights{"signer": {In: map[string][]rbac.Rule{"kube-public": {{Resource: "configmaps", Verbs: []string{"get"},
		For: "a test"}}}}}
	var found int
	for _, r := range roles(rights) {
		if r.Account == "signer" && r.Namespace == "kube-public" && len(r.Rules) == 1 {
			found++
		}
	}
	if found != 1 || !strings.Contains(table(rights), "| signer | kube-public | configmaps | get | a test |") {
		t.Errorf("%d roles; table:\n%s", found, table(rights))
	}
}

func TestTableNeedsItsMarks(t *testing.T) {
	if _, err := replaceTable([]byte("no marks"), "x"); err == nil {
		t.Error("no error")
	}
	out, err := replaceTable([]byte("before\n"+tableBegin+"old\n"+tableEnd+"after\n"), "new\n")
	if want := "before\n" + tableBegin + "new\n" + tableEnd + "after\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestAlertsOfAnotherJob(t *testing.T) {
	out, err := withJob("# a comment\ngroups:\n- expr: up{job=\"kube-controller-manager\",a=\"b\"}\n", "x")
	if want := besideHeader + "groups:\n- expr: up{job=\"x\",a=\"b\"}\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v", out, err)
	}
	for _, rules := range []string{"", "groups:\n- expr: up\n"} {
		if _, err := withJob(rules, "x"); err == nil {
			t.Errorf("%q: no error", rules)
		}
	}
}

// TestOverlaysHaveTheRolesOfTheirControllers: what only others than its controllers need is in no role of an overlay.
func TestOverlaysHaveTheRolesOfTheirControllers(t *testing.T) {
	for set, absent := range map[string][]string{
		"default": {"account of Secrets update delete", "signers sign", "kube-public"},
		"beside": {"account of Secrets update delete", "signers sign", "kube-public", "signers approve", "clusterroles escalate",
			"secrets delete"},
	} {
		i := slices.IndexFunc(roleSets, func(s roleSet) bool { return s.name == set })
		has := whatRolesHave(roles(rightsOf(controllers.Registry(), roleSets[i])))
		all := whatRolesHave(roles(manager.Rights(controllers.Registry())))
		for _, what := range absent {
			if has[what] || !all[what] {
				t.Errorf("%s: %s: %t, and in all roles: %t", set, what, has[what], all[what])
			}
		}
	}
}

// whatRolesHave names some of the rights that are a way to everything.
func whatRolesHave(all []role) map[string]bool {
	has := map[string]bool{}
	for _, r := range all {
		has[r.Namespace] = true
		for _, rule := range r.Rules {
			verbs := strings.Join(rule.Verbs, " ")
			if r.Name == account && rule.Resource == "secrets" {
				has["account of Secrets "+verbs] = true
			}
			for _, verb := range rule.Verbs {
				has[rule.Resource+" "+verb] = true
			}
		}
	}
	return has
}

func TestListControllers(t *testing.T) {
	registry := []manager.Controller{
		{Name: "web-controller", Alias: "web", Beside: true}, {Name: "app", Beside: true},
		{Name: "db-controller", Alias: "db", Beside: true},
		{Name: "off", OffByDefault: true}, {Name: "signer-controller", Alias: "signer"},
	}
	for _, c := range []struct{ name, page, want string }{
		{"what the original leaves", "start it with `--controllers=*,-web,-db` first",
			"start it with `--controllers=*,-app,-db,-web` first"},
		{"after what kubeadm sets", "--controllers=*,bootstrapsigner,tokencleaner,-web,-db",
			"--controllers=*,bootstrapsigner,tokencleaner,-app,-db,-web"},
		{"after what k3s sets", "controllers=*,tokencleaner,-service,-route,-cloud-node-lifecycle,-web,-db",
			"controllers=*,tokencleaner,-service,-route,-cloud-node-lifecycle,-app,-db,-web"},
		{"as a value", `value: "*,bootstrapsigner,tokencleaner,-web,-db"`, `value: "*,bootstrapsigner,tokencleaner,-app,-db,-web"`},
		{"what this manager takes", "--controllers=web,db", "--controllers=app,db,web"},
		{"one name is no list", "--controllers=*,-web; --controllers=web", "--controllers=*,-web; --controllers=web"},
	} {
		if got := string(listControllers([]byte(c.page), registry)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
