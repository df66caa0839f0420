// Package history keeps the earlier templates of StatefulSets and DaemonSets in ControllerRevisions, with the
// contents, hashes and names by which kubectl rollout history and undo, and a controller that takes over, find them.
// All functions are pure and leave their arguments alone.
//
// [Data] is what a revision keeps of a template, [Hash] and [Name] are how it is called.
package history
