package listwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// versionReader reads consistently at which version a resource is.
type versionReader = func(ctx context.Context) (version string, err error)

// readBy sets how the version of the resource is read.
func (a *Activity) readBy(read versionReader) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read = read
}

// listed notes the version of a list.
func (a *Activity) listed(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version = version
}

// Continuous waits until the API server is known to be where the watches have left it, and is to be called before each
// write. After a watch was cut, the next server that answers may be one whose storage was restored from a backup: what
// was planned before is then wrong, and a watch that is opened anew shows it only after its pause. One consistent read
// shows it at once. It returns nil without a request while no watch was cut, the error of the read if nobody answers.
// If the server has gone back, it waits for the end of the term.
func (c *Client) Continuous(ctx context.Context) error {
	l := c.liveness
	if l.proved.Load() == l.cuts.Load() {
		return nil
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	cuts := l.cuts.Load()
	if l.proved.Load() == cuts { // by the one who had the turn before
		return nil
	}
	if time.Since(l.unsureAt) < proofPause {
		return l.unsure
	}
	if err := l.prove(ctx, &c.Rollbacks); err != nil {
		return err
	}
	l.proved.Store(cuts)
	return nil
}

// proofTimeout is how long the read of one resource may take before another one is read.
const proofTimeout = 3 * time.Second

// proofPause is for how long writes are told that nothing was proved before it is tried again.
const proofPause = time.Second

// prove compares the version that was reached last with where the server is. A resource that cannot be read is no
// proof, so the next one is asked. If none can, and one of them may be later, nothing is proved.
func (l *Liveness) prove(ctx context.Context, r *Rollbacks) error {
	var unsure error
	for _, s := range l.reached() {
		limited, cancel := context.WithTimeout(ctx, proofTimeout)
		now, err := s.read(limited)
		silent := err != nil && limited.Err() != nil && ctx.Err() == nil
		cancel()
		var answer apierrors.APIStatus
		switch {
		case silent || errors.As(err, &answer):
			if !apierrors.IsForbidden(err) {
				unsure = err
			}
			continue
		case err != nil:
			return fmt.Errorf("whether the API server has gone back: %w", err)
		case before(now, s.version):
			if report := r.handler.Load(); report != nil {
				(*report)(fmt.Errorf("%s were at version %s and are at %s now", s.resource, s.version, now))
			}
			<-ctx.Done() // the term ends
			return ctx.Err()
		}
		return nil
	}
	if unsure != nil { // not wrapped: it is no answer to the write that waits, to which a 404 would mean absence
		l.unsure = fmt.Errorf("whether the API server has gone back: %v", unsure)
		l.unsureAt = time.Now()
		return l.unsure
	}
	return nil
}

// reached are the resources that were read, those with the latest versions first.
func (l *Liveness) reached() (all []position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for resource, a := range l.byResource {
		a.mu.Lock()
		if a.read != nil && a.version != "" && a.version != "0" {
			all = append(all, position{resource, a.version, a.read})
		}
		a.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b position) int {
		switch {
		case before(b.version, a.version):
			return -1
		case before(a.version, b.version):
			return 1
		}
		return cmp.Compare(a.resource, b.resource)
	})
	return all
}

// position is the version that a resource has reached as far as this process has seen.
type position struct {
	resource, version string
	read              versionReader
}
