package client

import "errors"

// ErrNotLeading says that a write was not sent, because this process does not hold the leader lease by the local clock
// (LE-14). It is known not to have been carried out.
var ErrNotLeading = errors.New("write not sent: this process does not hold the leader lease")

// ErrReadOnly says that a write was not sent, because this process only observes.
var ErrReadOnly = errors.New("write not sent: this process only observes")
