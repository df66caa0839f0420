// Package worker knows what each worker of a controller is doing.
//
// A [Worker] is told when it begins and ends a key. Requests that are made with the context of [Worker.Into] are its progress.
package worker
