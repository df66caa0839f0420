package deployment

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DEP-42: the ReplicaSet controller of this process has deleted the only new pod that is ready, and the cache does not show that
// yet. The old pod must stay.
func TestPodsDeletedByThisProcess(t *testing.T) {
	s := snapshotWith(web(1, moves("1", "0")), rs{image: "v1", size: 1, ready: 1}, rs{image: "v2", size: 1, ready: 1})
	newer := s.Pods["uid-web-v2"]
	if len(newer) != 1 {
		t.Fatalf("pods of the scene: %v", s.Pods)
	}
	old := func(pods []*corev1.Pod) []string {
		s.Pods["uid-web-v2"] = pods
		return lines(planRollout(now, s).Steps)
	}
	nothing := func(types.UID) bool { return false }
	if got := old(leaving(newer, nothing, now)); len(got) != 1 || got[0] != "web-v1: 1 -> 0 [Normal ScalingReplicaSet: Scaled down replica set web-v1 from 1 to 0]" {
		t.Errorf("nothing was deleted: %q", got)
	}
	cached := newer[0]
	all := func(types.UID) bool { return true }
	if got := old(leaving(newer, all, now)); len(got) != 0 {
		t.Errorf("the new pod was deleted: %q", got)
	}
	if cached.DeletionTimestamp != nil {
		t.Error("an object of the cache was changed")
	}
}
