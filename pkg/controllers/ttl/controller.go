// Package ttl is the node TTL controller: an annotation of each node says for how many seconds its kubelet may cache Secrets and
// ConfigMaps, which is the longer the more nodes there are.
package ttl

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many nodes are reconciled at the same time.
const workers = 5

// Controller returns the entry of the node TTL controller in the registry.
func Controller() manager.Controller {
	return manager.Controller{
		Name:    "ttl-controller",
		Alias:   "ttl",
		Account: "ttl-controller",
		Rights:  Rights,
		Fields:  cached(),
		Init:    initialize,
	}
}

func kind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Node") }

// cached are the fields that the controller reads.
func cached() projection.Fields {
	return projection.Fields{Kinds: map[schema.GroupVersionKind][]string{
		kind(): {"metadata.annotations[" + annotation + "]"},
	}}
}

func initialize(c manager.Context) (manager.Runner, error) {
	nodes, err := informers.Nodes(c.Informers)
	if err != nil {
		return nil, err
	}
	k := &caches{nodes: nodes, size: newSize()}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:    "ttlcontroller", // of the queue
		Workers: workers,
		Kinds:   []string{kind().Kind},
		Watches: []reconcile.Watch{{Kind: kind(), Informer: nodes.Informer(), Enqueues: k.enqueuedByNode, Resync: true}},
		Source:  k.follow,
		Observe: k.observe,
		Plan:    reconcile.PlanOnly(planAnnotation),
		Owner: func(s snapshot) plan.Object {
			if s.Node == nil {
				return nil
			}
			return s.Node
		},
		SkipVerification: true, // what is written does not depend on what was written before, so nothing need be read before it
	}), nil
}
