//go:build linux || darwin

package history

import (
	"errors"
	"os"
	"syscall"
)

// lock takes a lock on a file that ends with the process, however that ends.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
