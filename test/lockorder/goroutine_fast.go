//go:build linux && (amd64 || arm64)

package lockorder

// goroutine tells the calling goroutine apart from others that live, by where the runtime has it. It is called for each lock.
func goroutine() uintptr
