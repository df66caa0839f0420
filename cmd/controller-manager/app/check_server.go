package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// clockSkew is by how much two clocks may differ before leases and tokens suffer.
const clockSkew = 2 * time.Second

// answerWithin is how long a request of a check may take.
const answerWithin = 10 * time.Second

// server asks the API server for its version and its time, and reports whether it has answered.
func (c *checker) server(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	v, date, err := askVersion(ctx, c.Client)
	if err != nil {
		c.note("API server", fails, "%s does not answer: %v", c.Client.Host, err)
		return false
	}
	c.note("API server", passes, "%s answers, and is of %s", c.Client.Host, v)
	if own := kubernetesVersion().GitVersion; unsupported(v, own) != "" {
		c.note("version", warns, "%s", unsupported(v, own))
	} else {
		c.note("version", passes, "the manager is of %s", own)
	}
	if date.IsZero() {
		return true
	}
	if ahead := time.Since(date); ahead.Abs() > clockSkew+time.Second { // the header has no fractions
		c.note("clock", warns, "it differs from that of the API server by %s", ahead.Abs().Round(time.Second))
	} else {
		c.note("clock", passes, "it agrees with that of the API server")
	}
	return true
}

// leases says who leads.
func (c *checker) leases(ctx context.Context, client kubernetes.Interface) {
	own := c.Manager.LeaderElection.WithDefaults()
	names := []string{own.Name}
	if original := "kube-controller-manager"; own.Name != original {
		names = append(names, original)
	}
	for _, name := range names {
		l, err := client.CoordinationV1().Leases(own.Namespace).Get(ctx, name, metav1.GetOptions{})
		what := fmt.Sprintf("%s/%s", own.Namespace, name)
		switch {
		case apierrors.IsNotFound(err):
			c.note("lease", passes, "%s: nobody has it", what)
		case err != nil:
			c.note("lease", warns, "%s: %v", what, err)
		case ptr.Deref(l.Spec.HolderIdentity, "") == "" || l.Spec.RenewTime == nil:
			c.note("lease", passes, "%s: nobody has it", what)
		default:
			c.note("lease", passes, "%s: %s has it, and has renewed it %s ago", what, *l.Spec.HolderIdentity,
				c.now.Sub(l.Spec.RenewTime.Time).Round(time.Second))
		}
	}
}

// served names the APIs that controllers need and the API server does not serve.
func (c *checker) served(client kubernetes.Interface) {
	has := map[string]map[string]bool{}
	missing := map[string][]string{}
	for _, entry := range running(c.Config) {
		for _, r := range entry.Needs {
			group := r.GroupVersion().String()
			if has[group] == nil {
				has[group] = map[string]bool{}
				list, err := client.Discovery().ServerResourcesForGroupVersion(group)
				switch {
				case apierrors.IsNotFound(err):
				case err != nil:
					c.note("APIs", warns, "%s: %v", group, err)
				default:
					for _, resource := range list.APIResources {
						has[group][resource.Name] = true
					}
				}
			}
			if !has[group][r.Resource] {
				missing[entry.Name] = append(missing[entry.Name], r.Resource+" of "+group)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		c.note("APIs", warns, "%s waits, as the API server does not serve %s", name, strings.Join(missing[name], ", "))
	}
	if len(missing) == 0 {
		c.note("APIs", passes, "all that controllers need is served")
	}
}

// rights asks which rights the manager and the accounts of its controllers lack.
func (c *checker) rights(ctx context.Context, client kubernetes.Interface) {
	declared := manager.Rights(running(c.Config))
	for account, rights := range declared {
		declared[account] = rights.With(c.Manager.Enabled)
	}
	root := rbac.Manager(declared)
	own, at := root.Cluster, map[string][]rbac.Rule{rbac.Home: root.Home}
	if c.Manager.LeaderElect {
		l := c.Manager.LeaderElection.WithDefaults()
		at[l.Namespace] = append(at[l.Namespace], rbac.Lease(l.Name)...)
	}
	accounts := slices.DeleteFunc(slices.Sorted(maps.Keys(declared)),
		func(name string) bool { return name == rbac.Root })
	if !c.Manager.ServiceAccounts { // the manager does all of it itself
		for _, account := range accounts {
			own = append(own, declared[account].Own...)
		}
		accounts = nil
	}
	c.allowed(ctx, "the manager", own, at, selfReview(client))
	for _, account := range accounts {
		c.allowed(ctx, "account "+account, declared[account].Own, declared[account].In, accountReview(client, account))
	}
}

// review asks whether somebody may do something.
type review func(ctx context.Context, what *authorizationv1.ResourceAttributes) (bool, error)

func selfReview(client kubernetes.Interface) review {
	return func(ctx context.Context, what *authorizationv1.ResourceAttributes) (bool, error) {
		r, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: what}}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return r.Status.Allowed, nil
	}
}

func accountReview(client kubernetes.Interface, account string) review {
	return func(ctx context.Context, what *authorizationv1.ResourceAttributes) (bool, error) {
		r, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: what, User: "system:serviceaccount:" + rbac.Home + ":" + account,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + rbac.Home,
					"system:authenticated"},
			}}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return r.Status.Allowed, nil
	}
}

// allowed notes which rules somebody lacks: those in all namespaces, and those in some.
func (c *checker) allowed(ctx context.Context, who string, everywhere []rbac.Rule, in map[string][]rbac.Rule,
	ask review) {
	var lacks []string
	asked := 0
	for _, namespace := range append([]string{""}, slices.Sorted(maps.Keys(in))...) {
		rules := in[namespace]
		if namespace == "" {
			rules = everywhere
		}
		for _, what := range requests(namespace, rules) {
			asked++
			ok, err := ask(ctx, what)
			if err != nil {
				c.note("rights", warns, "%s: cannot be asked for: %v", who, err)
				return
			}
			if !ok {
				lacks = append(lacks, rightText(what))
			}
		}
	}
	if len(lacks) == 0 {
		c.note("rights", passes, "%s has all of its %d", who, asked)
		return
	}
	slices.Sort(lacks)
	c.note("rights", fails, "%s may not %s", who, strings.Join(slices.Compact(lacks), ", "))
}

// requests are what rules allow, one by one.
func requests(namespace string, rules []rbac.Rule) (all []*authorizationv1.ResourceAttributes) {
	for _, r := range rules {
		resource, subresource, _ := strings.Cut(r.Resource, "/")
		for _, verb := range r.Verbs {
			for _, name := range append(slices.Clone(r.Names), "")[:max(1, len(r.Names))] {
				all = append(all, &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: r.Group,
					Resource: resource, Subresource: subresource, Name: name})
			}
		}
	}
	return all
}

// rightText names a request as people read it, such as "patch deployments.apps/status in shop".
func rightText(a *authorizationv1.ResourceAttributes) string {
	text := a.Verb + " " + a.Resource
	if a.Group != "" {
		text += "." + a.Group
	}
	if a.Subresource != "" {
		text += "/" + a.Subresource
	}
	if a.Name != "" {
		text += " " + a.Name
	}
	if a.Namespace != "" {
		text += " in " + a.Namespace
	}
	return text
}
