// Package jobutil answers questions about Jobs that several controllers ask.
//
// [Finished] returns the condition with which a Job has ended.
package jobutil
