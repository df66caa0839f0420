package garbagecollector

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the garbage collector (GC-1). Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers, o.enabled = cmp.Or(o.Workers, 20), true
	return manager.Controller{
		Name:        "garbage-collector-controller",
		Alias:       "garbagecollector",
		Account:     "generic-garbage-collector",
		Beside:      true,
		EventSource: "garbage-collector-controller",
		Flags:       &o,
		Rights:      Rights,
		Init:        o.init,
	}
}

// explainName is that of the collector where people ask about it.
const explainName = "garbage_collector"

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	if !o.enabled {
		return nil, manager.Off{Why: "--enable-garbage-collector=false"}
	}
	clients, err := c.Clients.Faster(2, 1) // twice the requests, as the original may make
	if err != nil {
		return nil, err
	}
	r := &runner{
		client: clients.Client(), shared: c.Shared, access: c.Access, mapper: c.Shared.Mapper,
		events: c.Access.Events, records: explain.NewRecords(nil), brake: c.Brake, metadata: c.Metadata,
		resources: c.Clients.Mapper().PreferredResources, workers: int(o.Workers), syncErrors: newSyncErrors(),
	}
	r.access.Client = r.client
	c.RegisterMetrics(r.syncErrors)
	return r, nil
}

// lasting is after how many tries a failure is not just a moment too early.
const lasting = 10

// The controllers of which the collector consists: of objects that are decided about, of owners that no watch has
// shown, of namespaces in which objects wait to learn whether they have dependents, and of kinds of owners that are
// not found.
type (
	objects    = reconcile.TypedController[*node, snapshot, decision, struct{}]
	owners     = reconcile.TypedController[statedOwner, ownerSnapshot, ownerDecision, ownerMemory]
	namespaces = reconcile.TypedController[string, unlistedSnapshot, unlistedDecision, struct{}]
	absences   = reconcile.TypedController[schema.GroupKind, absenceSnapshot, absenceDecision, absenceMemory]
)

// queues are what runs them for one term: for objects that may have to be deleted, and for those whose dependents are
// to be orphaned, there is one each.
type queues struct {
	remove, orphan *reconcile.TypedRunner[*node, snapshot, decision, struct{}]
	verify         *reconcile.TypedRunner[statedOwner, ownerSnapshot, ownerDecision, ownerMemory]
	ask            *reconcile.TypedRunner[string, unlistedSnapshot, unlistedDecision, struct{}]
	prove          *reconcile.TypedRunner[schema.GroupKind, absenceSnapshot, absenceDecision, absenceMemory]
}

func (r *runner) newQueues() queues {
	remove := objects{
		Name: explainName, QueueName: "garbage_collector_attempt_to_delete", KeyName: (*node).key,
		RecordName: r.recorded, RecordStore: r.records, Owner: func(s snapshot) plan.Object { return s.object },
		Observe: r.observeObject, Plan: planObject, Prove: proveObject,
		Planned: r.commitDecision, Applied: r.commitOutcome,
	}
	orphan := remove
	orphan.Name, orphan.QueueName = "garbage_collector_attempt_to_orphan", ""
	orphan.Plan = planOrphan
	return queues{
		remove: newPart(r, remove),
		orphan: newPart(r, orphan),
		verify: newPart(r, owners{
			Name: "garbage_collector_verify_owner", KeyName: statedOwner.key,
			Observe: r.observeOwner, Plan: planOwner, Planned: r.commitOwner,
			Subject:  func(s ownerSnapshot) types.UID { return s.owner.uid },
			Remember: reconcile.Always[ownerSnapshot, ownerDecision, ownerMemory],
		}),
		ask: newPart(r, namespaces{
			Name:    "garbage_collector_list_dependents",
			KeyName: func(namespace string) plan.Key { return plan.Key{Namespace: namespace} },
			Observe: r.observeUnlisted, Plan: planUnlisted, Planned: r.commitUnlisted,
		}),
		prove: newPart(r, absences{
			Name:    "garbage_collector_prove_absence",
			KeyName: func(kind schema.GroupKind) plan.Key { return plan.Key{Name: kind.String()} },
			Observe: r.observeAbsence, Plan: planAbsence, Planned: r.commitAbsence,
			Remember: reconcile.Always[absenceSnapshot, absenceDecision, absenceMemory], // whatever was decided
		}),
	}
}

// newPart returns what runs one of the controllers. None has caches. Records are of objects only, and watches
// enqueue nothing before all parts work.
func newPart[K comparable, S, D, M any](
	r *runner, c reconcile.TypedController[K, S, D, M],
) *reconcile.TypedRunner[K, S, D, M] {
	starting := r.starting
	starting.Add(1)
	c.Source = func(context.Context, func(K)) { starting.Done() }
	if c.RecordName == nil {
		c.RecordName = func(K, *explain.Record) (name plan.Key, ok bool) { return name, false }
	}
	c.Workers, c.LogAfter, c.SkipVerification = r.workers, lasting, true
	return reconcile.NewTyped(r.shared, r.access, c)
}

// parts returns the queues in the order in which people see them.
func (q queues) parts() reconcile.Part {
	return reconcile.Together(q.remove, q.orphan, q.verify, q.ask, q.prove)
}
