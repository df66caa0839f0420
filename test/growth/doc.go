// Package growth has no code: its tests grow objects as tenants may, and measure what that costs a manager with all controllers.
//
// Of each kind that is cached, each list and map that somebody can fill is grown to a megabyte, alone: the object comes, one element
// changes, and it goes. All handlers, indexes, Observes, plans and reports are those of the real manager, on an API server in memory.
package growth
