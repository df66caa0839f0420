// Package executor carries out plans (see package plan). It is the one place that writes for the controllers.
//
// A process has an [Executor] for each controller, made by New. For each reconcile, Begin returns what Apply carries out the steps of plans with;
// the outcome says what became of each write.
package executor
