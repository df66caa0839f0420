// Package caches tells how the caches of a process do, for health checks and metrics.
//
// [Caches] is told when a factory of informers has been started ([Caches.SetStarted]). Its checks and states then cover the caches of objects whose
// APIs are served, and the resources of which nothing but metadata is cached.
package caches
