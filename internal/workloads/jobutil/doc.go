// Package jobutil answers questions about Jobs and their pods. All functions are pure.
//
// [Finished] returns the condition with which a Job has ended, and [Tracked] reports whether a pod has not been counted yet. The others
// read a field of the spec or the status, with its default.
package jobutil
