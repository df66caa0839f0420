//go:build unix

package costs

import "testing"

func TestSlowness(t *testing.T) {
	if s := Slowness(); s < 0.1 || s > slowest {
		t.Errorf("this machine is %v times as slow", s)
	}
}
