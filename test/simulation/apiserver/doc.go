// Package apiserver is a Kubernetes API server in memory, with the semantics that controllers and their environment rely on,
// and clients that reach it without a network. It tells the time by the time package, so that in a bubble of testing/synctest
// it lives in virtual time.
//
// It serves all kinds of client-go's scheme that a real server stores, each in the version that its group prefers, and
// custom resources that are defined with [Server.Define]. What is special about a kind is in one table, see rules.go.
//
// What it does like the real one is compared with the real one by the tests named SameAsRealServer in the parent folder:
// versions, conflicts, preconditions, generations, subresources, patches, server-side apply, dry runs, graceful deletion,
// finalizers, deletion of collections, generated names, defaults, the rules for owner references, lists, pages, selectors,
// watches and discovery. A network can make it a server whose caches lag behind, see [Lagging].
//
// What it leaves out: authentication and authorization, admission plugins (a test can refuse what it likes, see [Server]),
// other versions of a kind, tables, most validation. It records managed fields only of objects that were applied, because
// nothing else reads them.
package apiserver
