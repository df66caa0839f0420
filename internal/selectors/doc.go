// Package selectors finds by an index what a label selector matches, and which selectors match a set of labels.
//
// [LabelIndexes] find objects by their labels, and [Selecting] finds the objects whose selectors match some labels,
// in an index of [IndexFunc]. [Split] turns a label selector into alternatives of equality, which an index finds, and
// a rest, which is checked label by label.
package selectors
