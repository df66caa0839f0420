package leaderelection

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// OnLoss is what to do when the lease is lost.
type OnLoss string

const (
	// Exit makes Run return [ErrLost]: the process is to end, with exit code 1 (CLI-61). It is the default.
	Exit OnLoss = "exit"
	// Standby makes Run compete again, once the work has ended.
	Standby OnLoss = "standby"
)

// Config says which lease is held, and how.
type Config struct {
	// after the last renewal that another process has seen, it may take the lease; written in whole seconds
	LeaseDuration time.Duration
	RenewDeadline time.Duration // after the last renewal that succeeded, the lease counts as lost
	RetryPeriod   time.Duration // between attempts to take or to renew the lease
	ResourceLock  string        // must be "leases"
	Name          string        // of the Lease object
	Namespace     string        // of the Lease object
	OnLoss        OnLoss        // empty means Exit

	// ShutdownTimeout bounds the wait for the work to end, once its context has ended. Zero means 10s.
	ShutdownTimeout time.Duration
}

// Defaults returns the values of LE-1.
func Defaults() Config {
	return Config{
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ResourceLock:    resourcelock.LeasesResourceLock,
		Name:            "kube-controller-manager",
		Namespace:       "kube-system",
		OnLoss:          Exit,
		ShutdownTimeout: 10 * time.Second,
	}
}

// WithDefaults returns the configuration with the values of [Defaults] where it has none.
func (c Config) WithDefaults() Config {
	d := Defaults()
	return Config{
		LeaseDuration:   cmp.Or(c.LeaseDuration, d.LeaseDuration),
		RenewDeadline:   cmp.Or(c.RenewDeadline, d.RenewDeadline),
		RetryPeriod:     cmp.Or(c.RetryPeriod, d.RetryPeriod),
		ResourceLock:    cmp.Or(c.ResourceLock, d.ResourceLock),
		Name:            cmp.Or(c.Name, d.Name),
		Namespace:       cmp.Or(c.Namespace, d.Namespace),
		OnLoss:          cmp.Or(c.OnLoss, d.OnLoss),
		ShutdownTimeout: cmp.Or(c.ShutdownTimeout, d.ShutdownTimeout),
	}
}

// Validate returns what is wrong with the configuration, naming the flags (LE-1e, LE-4).
func (c Config) Validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	durations := []struct {
		flag  string
		value time.Duration
	}{
		{"--leader-elect-lease-duration", c.LeaseDuration},
		{"--leader-elect-renew-deadline", c.RenewDeadline},
		{"--leader-elect-retry-period", c.RetryPeriod},
	}
	for _, d := range durations {
		if d.value <= 0 {
			bad("%s must be greater than zero, not %v", d.flag, d.value)
		}
	}
	if c.LeaseDuration > 0 && c.LeaseDuration < 2*time.Second {
		// Others see a renewal when the second of its time changes: they would take a lease of 1s from a healthy
		// holder.
		bad("--leader-elect-lease-duration must be at least 2s, not %v: a lease has whole seconds", c.LeaseDuration)
	}
	if c.LeaseDuration <= c.RenewDeadline {
		bad("--leader-elect-lease-duration (%v) must be greater than --leader-elect-renew-deadline (%v)",
			c.LeaseDuration, c.RenewDeadline)
	}
	if least := time.Duration(leaderelection.JitterFactor * float64(c.RetryPeriod)); c.RenewDeadline <= least {
		bad("--leader-elect-renew-deadline (%v) must be greater than %v times --leader-elect-retry-period (%v)",
			c.RenewDeadline, leaderelection.JitterFactor, c.RetryPeriod)
	}
	if c.ResourceLock != resourcelock.LeasesResourceLock {
		bad("--leader-elect-resource-lock=%q: resourceLock value must be %q", c.ResourceLock,
			resourcelock.LeasesResourceLock)
	}
	switch wrong := validation.IsDNS1123Subdomain(c.Name); {
	case c.Name == "":
		bad("--leader-elect-resource-name must not be empty")
	case len(wrong) > 0:
		bad("--leader-elect-resource-name=%q is no name of a Lease: %s", c.Name, wrong[0])
	}
	switch wrong := validation.IsDNS1123Label(c.Namespace); {
	case c.Namespace == "":
		bad("--leader-elect-resource-namespace must not be empty")
	case len(wrong) > 0:
		bad("--leader-elect-resource-namespace=%q is no namespace: %s", c.Namespace, wrong[0])
	}
	if c.OnLoss != "" && c.OnLoss != Exit && c.OnLoss != Standby {
		bad("--leader-elect-on-loss=%q: must be %q or %q", c.OnLoss, Exit, Standby)
	}
	if c.ShutdownTimeout < 0 {
		bad("the shutdown timeout must not be negative: %v", c.ShutdownTimeout)
	}
	return errs
}

// Identity returns a new name for a holder of leases: `<hostname>_<random UUID>` (LE-3).
func Identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("leader election needs the host's name: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// written is the lease duration as others read it: whole seconds.
func (c Config) written() time.Duration { return c.LeaseDuration.Truncate(time.Second) }

// requestTimeout bounds one request about the lease (LE-5).
func (c Config) requestTimeout() time.Duration { return max(time.Second, c.RenewDeadline/2) }

// shutdownTimeout is how long work may take to end; zero stands for the default.
func (c Config) shutdownTimeout() time.Duration {
	if c.ShutdownTimeout == 0 {
		return 10 * time.Second
	}
	return c.ShutdownTimeout
}

// ErrLost says that the lease was lost: it could not be renewed in time, or somebody else has it.
var ErrLost = errors.New("leaderelection lost/stopped")

// ErrStuck says that the work went on after it was asked to stop, for longer than the shutdown timeout. The lease was
// not released; others wait until it expires.
var ErrStuck = errors.New("the work did not stop in time")
