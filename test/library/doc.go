// Package library has no code: its tests are the examples of docs/library.md, which run on an API server in memory.
package library
