//go:build unix

package serving

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// share sets the options of the socket (CLI-34).
func share(address, port bool) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var errs []error
		err := c.Control(func(socket uintptr) {
			if address {
				errs = append(errs, unix.SetsockoptInt(int(socket), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
			}
			if port {
				errs = append(errs, unix.SetsockoptInt(int(socket), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
			}
		})
		return errors.Join(append(errs, err)...)
	}
}
