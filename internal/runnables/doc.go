// Package runnables runs the controllers of a manager together.
//
// [Run] starts all at once, or one after the other, and returns when all have ended: because their context has, or because one of them has failed.
package runnables
