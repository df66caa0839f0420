// Package tenants is a controller of somebody else's that deletes something dangerous: namespaces whose tenant is gone. Before it does, it
// has the tenant read live, and it holds back when the tenants of unusually many namespaces are gone.
package tenants

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// annotation of a namespace names its tenant: a ConfigMap in the namespace tenants.
const annotation = "example.com/tenant"

// New returns the controller that deletes the namespaces of tenants that are gone.
func New() manager.Controller {
	return manager.Controller{Name: "tenant-controller", Account: "tenant-controller", Rights: rights, Init: initialize}
}

func rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "namespaces"}, {Name: "configmaps"}},
		Own: []rbac.Rule{
			{Resource: "configmaps", Verbs: []string{"get"}, For: "a live read before a namespace is deleted"},
			{Resource: "namespaces", Verbs: []string{"delete"}, For: "namespaces of tenants that are gone"},
		},
	}
}

type observation = reconcile.Observation[snapshot, struct{}]

func initialize(c manager.Context) (manager.Runner, error) {
	namespaces, err1 := informers.IndexedObjects(c.Informers, "tenant", func(n *corev1.Namespace) []string {
		return []string{n.Annotations[annotation]}
	})
	tenants, err2 := informers.Objects[*corev1.ConfigMap](c.Informers)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	// tooMany counts namespaces anew each time: those whose tenants have gone together count together.
	tooMany := func() string {
		gone, all := 0, 0
		for n := range namespaces.All() {
			if name := n.Annotations[annotation]; name != "" {
				if all++; tenants.Get("tenants", name) == nil {
					gone++
				}
			}
		}
		if !c.Brake.Trips(gone, all) {
			return ""
		}
		return fmt.Sprintf("the tenants of %d of %d namespaces are gone", gone, all)
	}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "tenant",
		Workers:   2,
		Explained: []string{"Namespace"},
		Watches: []reconcile.Watch{
			namespaces.Watch(informers.Itself),
			tenants.Watch(func(before, after plan.Object) (keys []plan.Key) {
				if after != nil || before.GetNamespace() != "tenants" {
					return nil
				}
				for _, n := range namespaces.By(before.GetName()) {
					keys = append(keys, plan.KeyOf(n))
				}
				return keys
			}),
		},
		Observe: func(_ context.Context, r reconcile.Request[struct{}]) (o observation, err error) {
			n := namespaces.Get("", r.Key.Name)
			if o.Exists = n != nil; !o.Exists {
				return o, nil
			}
			o.Snapshot = snapshot{Namespace: n, Tenant: tenants.Get("tenants", n.Annotations[annotation])}
			if o.Snapshot.Tenant == nil {
				o.Snapshot.TooMany = tooMany()
			}
			return o, nil
		},
		Plan:  reconcile.PlanOnly(planNamespace),
		Prove: prove,
		Brake: c.Brake,
	}), nil
}

// prove puts the tenant as it was read live in the place of what the cache has shown.
func prove(o observation, proof reconcile.Proof) observation {
	if tenant, ok, _ := reconcile.Found[*corev1.ConfigMap](proof, tenantOf(o.Snapshot.Namespace)); ok {
		o.Snapshot.Tenant = tenant
	}
	return o
}
