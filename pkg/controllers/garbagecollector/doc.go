// Package garbagecollector is the garbage collector. It deletes objects whose owners are gone, and carries out
// deletions in the foreground and deletions that orphan dependents.
//
// A program passes what garbagecollector.New(garbagecollector.Options{}) returns to manager.New. For users,
// docs/garbagecollector.md says what the controller does.
//
// It watches the metadata of everything that can be deleted, and keeps a graph of owners and dependents. Whatever
// changes in it is decided about in its own time, one object after the other. A deletion needs proof that no owner is
// left: a watch has shown the deletion of the owner, or a live read has not found it. That the graph lacks an owner
// proves nothing (GC-15).
package garbagecollector
