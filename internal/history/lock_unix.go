//go:build linux || darwin

package history

import (
	"errors"
	"os"
	"syscall"
)

// errLocked says that another process has the folder.
var errLocked = errors.New("another process keeps its history there: give each a folder of its own")

// lock takes a lock on a file that ends with the process, however that ends.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
