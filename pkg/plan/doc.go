// Package plan is the vocabulary in which controllers say what they want written.
//
//	plan.Plan{Why: "there is no Deployment", Steps: []plan.Step{plan.Create{Object: deployment}}}
//
// is what a planner returns.
//
// A controller reads the state of the cluster (observe), decides (plan), and leaves the writing to one executor
// (apply). What it decided is a [Plan]: plain data, with its reasons in words. Nothing in this package reads a
// clock, talks to a server or starts a goroutine, so a plan can be compared in a test, printed in a dry run, and
// kept for an explanation.
package plan
