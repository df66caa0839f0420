// Package nodes answers questions about Nodes that more than one controller asks. All functions are pure and leave
// their arguments alone.
//
// Questions read as questions: nodes.Ready(n), nodes.OutOfService(n).
package nodes
