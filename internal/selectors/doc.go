// Package selectors finds by an index what a label selector matches, and which selectors match a set of labels.
//
// An index function returns the [Value] of an object for a set of keys; a lookup computes the same value from what is looked for.
// [Split] turns a label selector into alternatives of equality, which an index finds, and a rest, which is checked label by label.
// [KeySets] remembers the sets of keys of selectors, so that the selectors of a pod are found by a few lookups.
package selectors
