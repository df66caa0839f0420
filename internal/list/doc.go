// Package list is a doubly linked list whose elements are fields of the values that it links, so
// that a long list costs no allocations. [container/list] allocates each element.
//
// A value that is to be listed has an [Element] as a field, whose Value refers back to it. An
// element is in one list at most.
package list
