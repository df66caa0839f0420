package statefulset

import (
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// TestEvents: tools and people look for these texts.
func TestEvents(t *testing.T) {
	set := web(1)
	for _, c := range []struct {
		name string
		got  plan.Event
		want string
	}{
		{"STS-70", podEvents(set, creation).Done, "Normal SuccessfulCreate: Create Pod {name} in StatefulSet web successful"},
		{"STS-70", podEvents(set, change).Done, "Normal SuccessfulUpdate: Update Pod {name} in StatefulSet web successful"},
		{"STS-70", podEvents(set, deletion).Done, "Normal SuccessfulDelete: Delete Pod {name} in StatefulSet web successful"},
		{"STS-71", podEvents(set, creation).Failed, "Warning FailedCreate: Create Pod {name} in StatefulSet web failed error: {error}"},
		{"STS-71", podEvents(set, change).Failed, "Warning FailedUpdate: Update Pod {name} in StatefulSet web failed error: {error}"},
		{"STS-71", podEvents(set, deletion).Failed, "Warning FailedDelete: Delete Pod {name} in StatefulSet web failed error: {error}"},
		{"STS-71 not tried", podNotCreated(set, "web-0", "no room"),
			"Warning FailedCreate: Create Pod web-0 in StatefulSet web failed error: no room"},
		{"STS-72", claimEvents(set, "web-0").Done, "Normal SuccessfulCreate: Create Claim {name} Pod web-0 in StatefulSet web success"},
		{"STS-73", claimEvents(set, "web-0").Failed,
			"Warning FailedCreate: Create Claim {name} for Pod web-0 in StatefulSet web failed error: {error}"},
		{
			"STS-74", conflictEvent(set, "data-web-0"),
			"Warning ConflictingController: PersistentVolumeClaim data-web-0 is controlled by another owner: the retention policy of " +
				"StatefulSet web is ignored for it",
		},
	} {
		if got := line(plan.RecordEvent{Object: set, Event: c.got}); got != c.want {
			t.Errorf("%s\n%s, want\n%s", c.name, got, c.want)
		}
	}
}
