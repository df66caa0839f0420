// Package plantest helps to test planners without an API server: builders for objects, and a small world in memory
// that takes plans, keeps versions and generations as a server does, and can be looked at through caches of any age.
//
// A test makes objects with the builders, or draws them, and calls the planner of a controller; or it lets a World
// carry out what planners say, again and again.
package plantest
