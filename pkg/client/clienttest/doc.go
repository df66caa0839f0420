// Package clienttest is an API server in memory, for tests. It runs in virtual time (testing/synctest).
//
// A test makes a [Server], puts objects into it, hands it to a controller as its client and its caches, and looks at
// what it has then. Package managertest does most of this.
package clienttest
