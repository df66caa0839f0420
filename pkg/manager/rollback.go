package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// ErrRolledBack says that the API server has gone back to an earlier state: its storage was restored from a backup,
// or it reads from a replica that lacks the latest writes. Resource versions and uids that this process remembers
// mean something else now, or nothing.
var ErrRolledBack = errors.New("the API server has gone back to an earlier state")

// rolledBack ends the manager because its API server has gone back. All work stops at once: what is planned rests on
// what is no longer so.
func (m *instance) rolledBack(err error) {
	if stop := m.stop.Load(); stop != nil {
		(*stop)(fmt.Errorf("%w: %w", ErrRolledBack, err))
	}
}

// Two rollbacks that follow one another this closely have a pause between them, because an API server that reads from
// several replicas may go back again and again, and each time everything is listed anew.
const (
	closeRollbacks = time.Minute
	rollbackPause  = 10 * time.Second
)

// supervise runs the manager. When its API server goes back to an earlier state, it builds everything anew, so that
// nothing is left of what was remembered, and runs that.
func (m *Manager) supervise(ctx context.Context) error {
	var last time.Time // when it last went back
	for {
		err := m.current.Load().Run(ctx)
		if !errors.Is(err, ErrRolledBack) {
			return err
		}
		klog.FromContext(ctx).Error(err, "Forgets everything and begins anew")
		if time.Since(last) < closeRollbacks {
			select {
			case <-time.After(rollbackPause):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		last = time.Now()
		if err := m.build(ctx); err != nil {
			return err
		}
	}
}
