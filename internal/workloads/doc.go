// Package workloads answers questions about Jobs and their pods, which several controllers ask. All functions are pure.
//
// [JobFinished] returns the condition with which a Job has ended, and [Tracked] reports whether a pod has not been
// counted yet. The others read a field of the spec or the status, with its default. What is asked of pods is in
// podutil.
package workloads
