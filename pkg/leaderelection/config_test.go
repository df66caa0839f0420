package leaderelection

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestIdentityLE3(t *testing.T) {
	a, err := Identity()
	b, _ := Identity()
	if err != nil || a == b {
		t.Errorf("%q %q %v", a, b, err)
	}
	if i := strings.LastIndex(a, "_"); i < 1 || len(a[i+1:]) != 36 {
		t.Errorf("LE-3: %q", a)
	}
}

func TestValidateLE4(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"LE-1: the defaults are valid": {func(c *Config) {}, ""},
		"lease not above deadline": {func(c *Config) { c.LeaseDuration = 10 * time.Second },
			"--leader-elect-lease-duration (10s) must be greater than --leader-elect-renew-deadline (10s)"},
		"deadline not above 1.2 period": {func(c *Config) { c.RetryPeriod = 9 * time.Second },
			"--leader-elect-renew-deadline (10s) must be greater than 1.2 times --leader-elect-retry-period (9s)"},
		"zero period": {func(c *Config) { c.RetryPeriod = 0 }, "--leader-elect-retry-period must be greater than zero, not 0s"},
		"below a second": {func(c *Config) { c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = 900e6, 500e6, 100e6 },
			"--leader-elect-lease-duration must be at least 2s, not 900ms: a lease has whole seconds"},
		"LE-1e: another lock": {func(c *Config) { c.ResourceLock = "configmaps" },
			`--leader-elect-resource-lock="configmaps": resourceLock value must be "leases"`},
		"no name":          {func(c *Config) { c.Name = "" }, "--leader-elect-resource-name must not be empty"},
		"no namespace":     {func(c *Config) { c.Namespace = "" }, "--leader-elect-resource-namespace must not be empty"},
		"unknown reaction": {func(c *Config) { c.OnLoss = "x" }, `--leader-elect-on-loss="x": must be "exit" or "standby"`},
		"negative timeout": {func(c *Config) { c.ShutdownTimeout = -1 }, "the shutdown timeout must not be negative: -1ns"},
	} {
		config := Defaults()
		c.change(&config)
		got := fmt.Sprint(config.Validate())
		if want := "[" + c.want + "]"; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if _, err := New(config, "a", nil, nil); (err != nil) != (c.want != "") {
			t.Errorf("%s: New returned %v", name, err)
		}
	}
	if _, err := New(Defaults(), "", nil, nil); err == nil {
		t.Error("no identity")
	}
}

func TestWrittenDurationLE1b(t *testing.T) {
	c := Defaults()
	c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = 11900*time.Millisecond, 11800*time.Millisecond, time.Second
	tm := newTerm(nil, c, nil, &lastHolder{}, nil)
	if got := tm.left(0, 0); got != 11*time.Second {
		t.Errorf("others wait for the whole seconds that they read, and we count on %v", got)
	}
	c = Defaults()
	tm = newTerm(nil, c, nil, &lastHolder{}, nil)
	if got := tm.left(0, 0); got != 12*time.Second {
		t.Errorf("LE-14: %v", got)
	}
}
