package garbagecollector

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

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

// The names of queues of objects (GC-2), and that of the collector where people ask about it.
const (
	explainName = "garbage_collector"
	deleteQueue = "garbage_collector_attempt_to_delete"
	orphanQueue = "garbage_collector_attempt_to_orphan"
)

// lasting is after how many tries a failure is not just a moment too early.
const lasting = 10

// objects is the controller of objects that are decided about, and objectRequest and objectObservation are those of it.
type (
	objects           = reconcile.TypedController[*node, snapshot, decision, struct{}]
	objectRequest     = reconcile.TypedRequest[*node, struct{}]
	objectObservation = reconcile.Observation[snapshot, struct{}]
)

// newObjects returns what decides about objects for one term: about those whose owners may be gone, or about those that
// are deleted without their dependents.
func (r *runner) newObjects(
	name, queue string, decide func(time.Time, snapshot) (decision, plan.Plan),
) *reconcile.TypedRunner[*node, snapshot, decision, struct{}] {
	return reconcile.NewTyped(r.shared, r.access, objects{
		Name:             name,
		QueueName:        queue,
		Workers:          r.workers,
		KeyName:          (*node).key,
		Recorded:         r.recorded,
		SharedRecords:    r.records,
		Observe:          r.observeObject,
		Plan:             decide,
		Prove:            proveObject,
		Planned:          r.noteDecision,
		Applied:          r.noteOutcome,
		Owner:            func(s snapshot) plan.Object { return s.object },
		Source:           begun[*node](r.starting),
		Lasting:          lasting,
		SkipVerification: true, // it has no caches
	})
}

// owners is the controller of owners that no watch has shown.
type owners = reconcile.TypedController[statedOwner, ownerSnapshot, ownerDecision, struct{}]

// newOwners returns what looks up owners for one term. People are told of their dependents.
func (r *runner) newOwners() *reconcile.TypedRunner[statedOwner, ownerSnapshot, ownerDecision, struct{}] {
	return reconcile.NewTyped(r.shared, r.access, owners{
		Name:             "garbage_collector_verify_owner",
		Workers:          r.workers,
		KeyName:          func(c statedOwner) plan.Key { return plan.Key{Namespace: c.namespace, Name: c.name} },
		Recorded:         unrecorded[statedOwner],
		Observe:          r.observeOwner,
		Plan:             planOwner,
		Planned:          r.noteOwner,
		Source:           begun[statedOwner](r.starting),
		Lasting:          lasting,
		SkipVerification: true, // it has no caches
	})
}

// namespaces is the controller of those in which objects wait to learn whether they have dependents.
type namespaces = reconcile.TypedController[string, unlistedSnapshot, unlistedDecision, struct{}]

// newUnlisted returns what lists namespaces for one term.
func (r *runner) newUnlisted() *reconcile.TypedRunner[string, unlistedSnapshot, unlistedDecision, struct{}] {
	return reconcile.NewTyped(r.shared, r.access, namespaces{
		Name:             "garbage_collector_list_dependents",
		Workers:          r.workers,
		KeyName:          func(namespace string) plan.Key { return plan.Key{Namespace: namespace} },
		Recorded:         unrecorded[string],
		Observe:          r.observeUnlisted,
		Plan:             planUnlisted,
		Planned:          r.noteUnlisted,
		Source:           begun[string](r.starting),
		Lasting:          lasting,
		SkipVerification: true, // it has no caches
	})
}

// unrecorded records nothing.
func unrecorded[K any](K, *explain.Record) (name plan.Key, ok bool) { return name, false }

// absences is the controller of what is not found: its keys are kinds of owners.
type absences = reconcile.TypedController[schema.GroupKind, absenceSnapshot, absenceDecision, absenceMemory]

// newProofs returns what looks for proof, for one term, that owners of a kind are gone.
func (r *runner) newProofs() *reconcile.TypedRunner[schema.GroupKind, absenceSnapshot, absenceDecision, absenceMemory] {
	return reconcile.NewTyped(r.shared, r.access, absences{
		Name:             "garbage_collector_prove_absence",
		Workers:          r.workers,
		KeyName:          func(kind schema.GroupKind) plan.Key { return plan.Key{Name: kind.String()} },
		Observe:          r.observeAbsence,
		Plan:             planAbsence,
		Remember:         reconcile.Always[absenceSnapshot, absenceDecision, absenceMemory], // whatever was decided
		Planned:          r.noteAbsence,
		Source:           begun[schema.GroupKind](r.starting),
		SkipVerification: true, // it has no caches
	})
}

// noteAbsence tells the term what was decided.
func (r *runner) noteAbsence(s absenceSnapshot, d absenceDecision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term.noteAbsence(time.Now(), s, d)
	return nil
}
