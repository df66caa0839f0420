package deployment

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
)

// DEP-42: the ReplicaSet controller of this process has deleted the only new pod that is ready, and the cache does not show that
// yet. The old pod must stay.
func TestPodsDeletedByThisProcess(t *testing.T) {
	s := snapshotWith(web(1, moves("1", "0")), rs{image: "v1", size: 1, ready: 1}, rs{image: "v2", size: 1, ready: 1})
	cached := s.Pods["uid-web-v2"]
	if len(cached) != 1 {
		t.Fatalf("pods of the scene: %v", s.Pods)
	}
	tracker := freshness.NewTracker()
	steps := func() []string {
		s.Pods["uid-web-v2"] = markDeleted(slices.Clone(cached), tracker, now)
		return lines(rolledOut(now, s).Steps)
	}
	if got := steps(); len(got) != 1 || got[0] != "web-v1: 1 -> 0 [Normal ScalingReplicaSet: Scaled down replica set web-v1 from 1 to 0]" {
		t.Errorf("nothing was deleted: %q", got)
	}
	tracker.Deleted(corev1.SchemeGroupVersion.WithKind("Pod"), cached[0])
	if got := steps(); len(got) != 0 {
		t.Errorf("the new pod was deleted: %q", got)
	}
	if cached[0].DeletionTimestamp != nil {
		t.Error("an object of the cache was changed")
	}
}
