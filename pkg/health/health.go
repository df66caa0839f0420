// Package health answers whether a process works: named checks, each of which can fail, behind the paths that kubelets and
// operators ask (MH-6, MH-15..18).
package health

// Check is one question about the process.
type Check struct {
	Name string
	// Err returns nil, or what is wrong. It is called often and by many at a time, and must be quick.
	Err func() error
}
