package devicetainteviction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOptions(t *testing.T) { // DTE-1
	for workers, want := range map[int32]int{1: 0, 8: 0, 0: 1, -1: 1} {
		o := Options{Workers: workers}
		errs := o.Validate()
		if len(errs) != want || want > 0 && !strings.Contains(errs[0].Error(), "concurrent-device-taint-eviction-syncs") {
			t.Errorf("%d workers: %v", workers, errs)
		}
	}
	o := Options{Workers: 7}
	section, fields := o.Configz()
	if diff := cmp.Diff(struct{ ConcurrentSyncs int32 }{7}, fields); diff != "" || section != "DeviceTaintEvictionController" {
		t.Errorf("%s: %s", section, diff)
	}
}
