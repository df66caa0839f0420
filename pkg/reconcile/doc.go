// Package reconcile runs controllers that are written as observe, plan, report (see package plan). It reconciles
// one key after the other, and owns everything that controllers have in common: retries, the freshness of the
// caches, what is remembered of a key from one reconcile to the next, when a report is written, and what is kept to
// explain it. The writing itself is the executor's.
//
// A controller fills in a [Controller] and passes it to [New], which returns a runner for the manager:
//
//	reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
//		Name: "website", Workers: 2, Explained: []string{"Website"},
//		Watches: []reconcile.Watch{sites.Watch(informers.Itself)},
//		Observe: observe,
//		Plan:    reconcile.PlanOnly(planDeployment),
//		Report:  reconcile.ReportOnly[snapshot, struct{}](reportStatus),
//	})
//
// Observe finds what there is, Plan decides what to write, and Report, knowing what became of that, decides about the
// status. A plan that destroys something asks for proof: it names what is read live before it is carried out, and Prove
// puts that into what was observed. What a plan leaves alone because so much of it is out of the ordinary, it holds
// (plan.Hold), and the brake of the controller records events.
package reconcile
