// Package podutil answers questions about pods that more than one controller asks. All functions are pure and leave
// their arguments alone.
//
// Questions read as questions: podutil.Ready(p), podutil.Active(p), podutil.Finished(p).
package podutil
