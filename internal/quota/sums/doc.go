// Package sums adds up what the objects of each namespace are charged with in quotas. What comes, changes and goes is
// put into the sums one by one, so that a sum costs the same however many objects there are.
//
// [New] makes [Sums]. SetQuota says what is limited, Put and Remove what there is, and Count returns a sum.
package sums
