package validatingadmissionpolicystatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOptions(t *testing.T) {
	for workers, want := range map[int32]int{1: 0, 5: 0, 0: 1, -1: 1} {
		o := Options{Workers: workers}
		if errs := o.Validate(); len(errs) != want {
			t.Errorf("%d workers: %v", workers, errs)
		}
	}
	o := Options{Workers: 7}
	section, fields := o.Configz()
	if diff := cmp.Diff(struct{ ConcurrentPolicySyncs int32 }{7}, fields); diff != "" ||
		section != "ValidatingAdmissionPolicyStatusController" {
		t.Errorf("%s: %s", section, diff)
	}
}
