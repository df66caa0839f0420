// Package cowmap has a map that is copied on write, so that many versions of it share most of their contents. What
// controllers remember of an object with many pods is kept in one: a new version costs what has changed, and not what
// there is.
//
// [Of] makes a [Map]. A new version is a Clone, and then changed.
package cowmap
