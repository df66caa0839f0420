package flagutil

import (
	"testing"
	"time"
)

func TestFlagValues(t *testing.T) {
	for _, c := range []struct {
		name string
		errs []error
		bad  bool
	}{
		{"CLI-18 one worker", Workers("concurrent-x-syncs", 1), false},
		{"CLI-18 no worker", Workers("concurrent-x-syncs", 0), true},
		{"CLI-18 fewer than none", Workers("concurrent-x-syncs", -1), true},
		{"as many workers as there may be", Workers("concurrent-x-syncs", mostWorkers), false},
		{"a slip of the finger", Workers("concurrent-x-syncs", 5_000_000), true},
		{"within limits", Between("x", 50, 1, 50), false},
		{"EPS-10 below the limits", Between("x", 0, 1, 50), true},
		{"EPS-10 above the limits", Between("x", 51, 1, 50), true},
		{"no time", NotNegative("x-period", 0), false},
		{"some time", NotNegative("x-period", time.Second), false},
		{"CLI-39 no list", NoneBlank("x", nil), false},
		{"CLI-39 a list", NoneBlank("x", []string{"a", " b"}), false},
		{"CLI-39 an empty item", NoneBlank("x", []string{"a", ""}), true},
		{"CLI-39 a blank item", NoneBlank("x", []string{" \t"}), true},
		{"less than no time", NotNegative("x-period", -time.Second), true},
	} {
		if bad := len(c.errs) > 0; bad != c.bad {
			t.Errorf("%s: %v", c.name, c.errs)
		}
	}
}

func TestDefault(t *testing.T) {
	if Default(time.Duration(0), time.Minute) != time.Minute || Default(-time.Second, time.Minute) != 0 || Default(0.3, 0.5) != 0.3 {
		t.Error("zero is the default, a negative value zero, and any other value itself")
	}
}
