// Package overlay has a map of which many versions share most of their contents. What controllers remember of an object with many pods is
// kept in one: a new version costs what has changed, and not what there is.
//
// [Of] makes a [Map]. A new version is a Clone, and then changed.
package overlay
