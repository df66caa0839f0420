// Package health answers whether a process works: named checks, each of which can fail, behind the paths that
// kubelets and operators ask (MH-6, MH-15..18).
//
// [Handler] serves a list of checks, which is made anew for each request.
package health
