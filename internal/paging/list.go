package paging

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// MostPages is how many pages a list has at most. In pages of 500, that is five million objects.
const MostPages = 10_000

// ErrEndless says that a server makes a list go on without an end. What it has returned so far is no list.
var ErrEndless = errors.New("the server continues the list without an end")

// List follows one list. The zero value has seen no page.
type List struct {
	pages int
	seen  map[[sha256.Size]byte]bool // tokens, by their sums: a server may make them long
}

// Next notes the token with which a page ends; empty for the last one. It returns an error if the list is not to be
// followed any further: the token is one of those before, or there were too many pages.
func (l *List) Next(token string) error {
	if l.pages++; token == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	switch {
	case l.seen[sum]:
		return fmt.Errorf("%w: page %d ends as one before has ended", ErrEndless, l.pages)
	case l.pages >= MostPages:
		return fmt.Errorf("%w: there are %d pages", ErrEndless, l.pages)
	case l.seen == nil:
		l.seen = map[[sha256.Size]byte]bool{}
	}
	l.seen[sum] = true
	return nil
}
