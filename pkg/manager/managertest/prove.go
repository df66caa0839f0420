package managertest

import (
	"context"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Prove does with an observation what a running controller does before a plan is carried out: it reads live what the
// plan asks for, which is of built-in kinds, puts that into the observation, and plans again, until the plan asks for
// nothing more. It is for tests of Observe, Prove and Plan without a controller. The error is that of a read which has
// failed, and which the plan still asks for.
func Prove[S, M any](ctx context.Context, reader client.Reader, now time.Time, seen reconcile.Observation[S, M],
	prove func(reconcile.Observation[S, M], reconcile.Proof) reconcile.Observation[S, M], decide func(S) plan.Plan,
) (reconcile.Observation[S, M], plan.Plan, error) {
	o, p := seen, decide(seen.Snapshot)
	proof := reconcile.Proof{Now: now, Read: map[plan.Ref]reconcile.Reading{}}
	for {
		refs, err := proof.Lacks(p)
		if err != nil || len(refs) == 0 {
			return o, p, err
		}
		for _, ref := range refs {
			m, err := client.BuiltIns{}.Mapping(ctx, ref.Kind)
			if err != nil {
				return o, p, err
			}
			read := reconcile.Reading{Began: time.Now()}
			read.Objects, read.Err = client.Read(ctx, reader, m, ref)
			if read.Ended = time.Now(); read.Err != nil {
				proof.Failed = read.Ended
			}
			proof.Read[ref] = read
		}
		o = prove(seen, proof)
		p = decide(o.Snapshot)
	}
}
