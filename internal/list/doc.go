// Package list is a linked list whose elements are parts of what they stand for, so that a list of many costs little:
// [container/list] makes an object of its own for each.
//
// What is to be listed has an [Element] that points back at it. An element is in one list at most.
package list
