// Package brake has controllers that delete, evict, detach or mark many objects of others stop for proof when they
// are about to do so with a number out of the ordinary.
//
// A controller has one [Brake], which it finds in manager.Context. All brakes of a manager have one [Budget]. The
// controller says how many objects it is about to remove, and of how many, and asks whether that [Brake.Trips] the
// brake. If it does, it looks for proof. While it has none, its plan leaves the objects alone and says so (plan.Hold):
// package reconcile then calls [Brake.Hold], and [Brake.Release] when no plan says so any more. The manager makes an
// event, a metric and an explanation of what is held, and notes in the brake when an operator releases it.
//
// What a user has asked for by name needs no brake: the deletion of an owner that a watch has shown, of a namespace
// or of a custom resource definition.
package brake
