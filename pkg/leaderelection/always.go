package leaderelection

import "context"

// Always leads without a lease: --leader-elect=false (LE-1a).
type Always struct{}

var _ Leadership = Always{}

// Run calls lead at once.
func (Always) Run(ctx context.Context, lead func(ctx context.Context) error) error { return lead(ctx) }

// Held is always true.
func (Always) Held() bool { return true }

// Check never fails.
func (Always) Check() error { return nil }
