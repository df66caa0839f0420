// Package worker runs the workers of a queue, and knows what each of them is doing.
//
// A [Pool] is a queue with its workers. Each [Worker] is told when it begins and ends a key; requests that are made with the context of
// [Worker.Into] are its progress.
package worker
