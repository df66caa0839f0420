package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options/selection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// account is the service account that the Deployment runs as; roles are called after it.
const account = "controller-manager"

// original is the lease of kube-controller-manager, and the job that its metrics have (MH-39).
const original = "kube-controller-manager"

// beside is the lease of a manager that runs beside the original, and the job that its metrics have. With the original's lease
// the two would exclude each other (CLI-82); with its job, the original would satisfy alerts for a manager that is away.
const beside = "standalone-controller-manager"

// overlays are the ways to install, and the lease that each competes for.
var overlays = []struct{ name, lease string }{
	{"standalone", original},
	{"beside-upstream", beside},
	{"minimal", original},
}

// needKeys are the controllers that do nothing without key files, which a Deployment does not have.
var needKeys = []string{"certificatesigningrequest-signing-controller", "serviceaccount-token-controller"}

type roleSet struct {
	name    string
	has     func(manager.Controller) bool
	enabled func(gate string) bool
}

// roleSets are the folders with roles, and whose roles they have.
var roleSets = []roleSet{
	{"all", func(manager.Controller) bool { return true }, func(string) bool { return true }},
	{"default", func(c manager.Controller) bool { return c.OnByDefault() && !slices.Contains(needKeys, c.Name) },
		manager.Options{}.Enabled},
	{"beside", func(c manager.Controller) bool { return c.Beside }, manager.Options{}.Enabled},
}

// rightsOf returns the rights of the controllers of a registry that a set has.
func rightsOf(registry []manager.Controller, set roleSet) map[string]rbac.Rights {
	rights := manager.Rights(slices.DeleteFunc(slices.Clone(registry), func(c manager.Controller) bool { return !set.has(c) }))
	for account, r := range rights {
		rights[account] = r.With(set.enabled)
	}
	return rights
}

func files(registry []manager.Controller) []file {
	controllers := manager.Rights(registry)
	var all []file
	for _, set := range roleSets {
		all = append(all, file{"deploy/kustomize/roles/" + set.name + "/rbac.yaml", func([]byte) ([]byte, error) {
			return render(roles(rightsOf(registry, set)))
		}})
	}
	all = append(all, []file{
		{"docs/security.md", func(before []byte) ([]byte, error) { return replaceTable(before, table(controllers)) }},
		{"deploy/monitoring/alerts-beside-upstream.yaml", alertsBeside},
		{controllersPage, func(before []byte) ([]byte, error) {
			pages, err := pagesOfControllers(filepath.Dir(controllersPage), registry)
			if err != nil {
				return nil, err
			}
			return markControllers(before, registry, selection.Upstream(), pages)
		}},
	}...)
	all = append(all, file{"deploy/observer.yaml", func(before []byte) ([]byte, error) { return observerRoles(before, registry) }})
	for _, path := range listed {
		all = append(all, file{path, func(before []byte) ([]byte, error) { return listControllers(before, registry), nil }})
	}
	for _, o := range overlays {
		all = append(all, file{"deploy/kustomize/overlays/" + o.name + "/lease.yaml", func([]byte) ([]byte, error) {
			return render([]role{{Name: account + ":leader-election", Namespace: rbac.Home, Account: account, Rules: rbac.Lease(o.lease)}})
		}})
	}
	return append(all, chart(registry)...)
}

// role is a ClusterRole, or in a namespace a Role, and its binding to an account.
type role struct {
	Name, Namespace, Account string
	Rules                    []rbac.Rule
}

func (r role) Prefix() string {
	if r.Namespace == "" {
		return "Cluster"
	}
	return ""
}

// accounts are those that controllers have of their own.
func accounts(controllers map[string]rbac.Rights) []string {
	all := slices.Sorted(maps.Keys(controllers))
	return slices.DeleteFunc(all, func(account string) bool { return account == rbac.Root })
}

func roles(controllers map[string]rbac.Rights) []role {
	root := rbac.Manager(controllers)
	all := []role{
		{Name: account, Account: account, Rules: root.Cluster},
		{Name: account, Namespace: rbac.Home, Account: account, Rules: root.Home},
	}
	for _, name := range accounts(controllers) {
		rights := controllers[name]
		if len(rights.Own) > 0 {
			all = append(all, role{Name: account + ":" + name, Account: name, Rules: rights.Own})
		}
		for _, namespace := range slices.Sorted(maps.Keys(rights.In)) {
			all = append(all, role{Name: account + ":" + name, Namespace: namespace, Account: name, Rules: rights.In[namespace]})
		}
	}
	return all
}

var roleTemplate = template.Must(template.New("").Funcs(template.FuncMap{
	"group": func(r rbac.Rule) string { return cmp.Or(quoted(r.Group), `""`) },
	"quote": quoted,
	"list": func(words []string) string {
		all := make([]string, len(words))
		for i, word := range words {
			all[i] = quoted(word)
		}
		return strings.Join(all, ", ")
	},
}).Parse(`# Made by "go run ./hack/gen" from what the code declares. Do not edit.
{{- range . }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .Prefix }}Role
metadata:
  name: {{ .Name }}
{{- with .Namespace }}
  namespace: {{ . }}
{{- end }}
rules:
{{- range .Rules }}
# {{ .For }}
- apiGroups: [{{ group . }}]
  resources: [{{ quote .Resource }}]
{{- with .Names }}
  resourceNames: [{{ list . }}]
{{- end }}
  verbs: [{{ list .Verbs }}]
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .Prefix }}RoleBinding
metadata:
  name: {{ .Name }}
{{- with .Namespace }}
  namespace: {{ . }}
{{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .Prefix }}Role
  name: {{ .Name }}
subjects:
- kind: ServiceAccount
  name: {{ .Account }}
  namespace: kube-system
{{- end }}
`))

// quoted returns a word as it stands in YAML, where an asterisk at the beginning means something else.
func quoted(word string) string {
	if strings.HasPrefix(word, "*") {
		return `"` + word + `"`
	}
	return word
}

func render(roles []role) ([]byte, error) {
	var out bytes.Buffer
	err := roleTemplate.Execute(&out, roles)
	return out.Bytes(), err
}

const (
	tableBegin = "<!-- rights: made by hack/gen -->\n"
	tableEnd   = "<!-- end of rights -->\n"
)

// table shows the rights of all identities, in Markdown.
func table(controllers map[string]rbac.Rights) string {
	var out strings.Builder
	fmt.Fprint(&out, "| identity | where | what | verbs | for |\n|---|---|---|---|---|\n")
	rows := func(identity, where string, rules []rbac.Rule) {
		for _, r := range rules {
			resource := r.Resource
			if r.Group != "" {
				resource += "." + r.Group
			}
			if len(r.Names) > 0 {
				resource += " " + strings.Join(r.Names, ", ")
			}
			if r.Implied {
				r.For += " (asked by admission)"
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", identity, where, resource, strings.Join(r.Verbs, ", "), r.For)
		}
	}
	root := rbac.Manager(controllers)
	rows(account, "everywhere", root.Cluster)
	rows(account, rbac.Home, append(rbac.Lease("(its lease)"), root.Home...))
	for _, name := range accounts(controllers) {
		rights := controllers[name]
		rows(name, "everywhere", rights.Own)
		for _, namespace := range slices.Sorted(maps.Keys(rights.In)) {
			rows(name, namespace, rights.In[namespace])
		}
	}
	return out.String()
}

// replaceTable puts the table between the marks in a document.
func replaceTable(document []byte, table string) ([]byte, error) {
	head, rest, ok1 := strings.Cut(string(document), tableBegin)
	_, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		return nil, errors.New("the marks around the table of rights are missing")
	}
	return []byte(head + tableBegin + table + tableEnd + tail), nil
}
