//go:build !unix

package serving

import (
	"errors"
	"syscall"
)

// share refuses what this system does not have.
func share(_, _ bool) func(network, address string, c syscall.RawConn) error {
	return func(string, string, syscall.RawConn) error {
		return errors.New("sharing an address or a port is not possible on this system")
	}
}
