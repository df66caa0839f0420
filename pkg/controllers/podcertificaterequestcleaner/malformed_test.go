package podcertificaterequestcleaner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Whatever a request is, planning does not panic or change it.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t)
		before := r.DeepCopy()
		p := planDeletion(epoch, snapshot{r})
		if diff := cmp.Diff(before, r); diff != "" || p.Why == "" || p.Requeue < 0 {
			t.Errorf("%q, again in %v, changed: %s", p.Why, p.Requeue, diff)
		}
	})
}
