package deployment

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name               string
		replicas           int32
		surge, unavailable string
		want               [2]int64
	}{
		{"DEP-32 surge rounds up, unavailable down", 10, "25%", "25%", [2]int64{3, 2}},
		{"DEP-32 three", 3, "25%", "25%", [2]int64{1, 0}},
		{"DEP-32 one", 1, "25%", "25%", [2]int64{1, 0}},
		{"DEP-32, DEP-30 both zero: one may be unavailable", 1, "0", "25%", [2]int64{0, 1}},
		{"DEP-32, DEP-30 the same of four", 4, "0", "10%", [2]int64{0, 1}},
		{"DEP-32, DEP-31 none", 0, "25%", "25%", [2]int64{0, 0}},
		{"DEP-29 absolute numbers", 4, "3", "2", [2]int64{3, 2}},
		{"DEP-29 more than all", 4, "200%", "0", [2]int64{8, 0}},
		{"DEP-31 unavailable is capped", 4, "1", "9", [2]int64{1, 4}},
		{"DEP-29 the largest numbers there are", math.MaxInt32, "2147483647%", "2147483647%", [2]int64{math.MaxInt32, math.MaxInt32}},
		{"DEP-29 garbage counts as zero", 4, "lots", "1%0", [2]int64{0, 1}},
		{"DEP-29 a number in text counts as zero", 4, "-1", "-1%", [2]int64{0, 1}},
		{"DEP-29 a percentage beyond all measure counts as zero", 4, "99999999999999999999%", "2", [2]int64{0, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			surge, unavailable, trouble := bounds(web(c.replicas, moves(c.surge, c.unavailable)), int64(c.replicas))
			if got := [2]int64{surge, unavailable}; got != c.want {
				t.Errorf("got %v", got)
			}
			if bad := strings.Contains(c.name, "counts as zero"); bad != strings.Contains(trouble, "counts as 0") {
				t.Errorf("trouble %q", trouble)
			}
		})
	}
	t.Run("DEP-29 missing values are zero", func(t *testing.T) {
		d := web(4, func(d *appsv1.Deployment) { d.Spec.Strategy.RollingUpdate = nil })
		if surge, unavailable, trouble := bounds(d, 4); surge != 0 || unavailable != 1 || trouble != "" {
			t.Errorf("got %d, %d, %q", surge, unavailable, trouble)
		}
	})
	t.Run("DEP-31 Recreate: both zero", func(t *testing.T) {
		if surge, unavailable, _ := bounds(web(4, recreate), 4); surge != 0 || unavailable != 0 {
			t.Errorf("got %d, %d", surge, unavailable)
		}
	})
	check(t, []row{{"DEP-29 garbage is told", snapshotWith(web(3, func(d *appsv1.Deployment) {
		d.Spec.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromString("some"))
	}), rs{image: "v2", size: 3, ready: 3}), nil, `maxSurge "some" counts as 0`}})
}

func TestScale(t *testing.T) {
	was := func(desired, most string) func(*appsv1.ReplicaSet) {
		return all(annotated(desiredAnnotation, desired), annotated(maximumAnnotation, most))
	}
	check(t, []row{
		{"DEP-33 the annotations follow the size", snapshotWith(web(5), rs{image: "v2", size: 3, ready: 3, edit: was("3", "4")}),
			[]string{"web-v2: 3 -> 5 desired-replicas=5 max-replicas=7" + up("web-v2", "3", "5")}, ""},
		{"DEP-33 they are refreshed without a change of size, without an event",
			snapshotWith(web(3), rs{image: "v2", size: 3, ready: 3, edit: was("4", "5")}),
			[]string{"web-v2: desired-replicas=3 max-replicas=4"}, ""},
		{"DEP-34 a missing annotation is no scaling event",
			snapshotWith(web(3), rs{image: "v2", size: 3, ready: 3, edit: bare(desiredAnnotation)}), nil, "available"},
		{"DEP-34 nor is one that is no number",
			snapshotWith(web(3), rs{image: "v2", size: 3, ready: 3, edit: annotated(desiredAnnotation, "9999999999")}), nil, "available"},
		{"DEP-34 nor is that of one without pods",
			snapshotWith(web(3), rs{image: "v1", edit: was("9", "9")}, rs{image: "v2", size: 3, ready: 3}), nil, "available"},
		{"DEP-35 one active: it gets all", snapshotWith(web(2), rs{image: "v1", size: 4, ready: 4, edit: was("4", "5")}, rs{image: "v2"}),
			[]string{"web-v1: 4 -> 2 desired-replicas=2 max-replicas=3" + down("web-v1", "4", "2")}, ""},
		{"DEP-35 none active: the new one gets all", snapshotWith(web(2, pausedNow), rs{image: "v1"}, rs{image: "v2"}),
			[]string{"web-v2: 0 -> 2" + up("web-v2", "0", "2")}, ""},
		{"DEP-35 none active and no new one: the newest old one", snapshotWith(web(2, pausedNow), rs{image: "v0"}, rs{image: "v1"}),
			[]string{"web-v1: 0 -> 2" + up("web-v1", "0", "2")}, ""},
		{"DEP-35, DEP-48 none active, paused in the middle of Recreate: old pods go first",
			snapshotWith(web(2, recreate, pausedNow), rs{image: "v1", terminating: 1}, rs{image: "v2"}), nil,
			"waiting for the last pods of web-v1"},
		{"DEP-35, DEP-48 when they have gone, the new one gets all",
			snapshotWith(web(2, recreate, pausedNow), rs{image: "v1"}, rs{image: "v2"}),
			[]string{"web-v2: 0 -> 2" + up("web-v2", "0", "2")}, ""},
		{"DEP-35, DEP-48 somebody else has given the new one a size: it grows when the old pods have gone",
			snapshotWith(web(5, recreate), rs{image: "v1", terminating: 1}, rs{image: "v2", size: 1, ready: 1, edit: was("3", "3")}), nil,
			"waiting for the last pods of web-v1"},
		{"DEP-35, DEP-48 it shrinks at once",
			snapshotWith(web(1, recreate), rs{image: "v1", terminating: 1}, rs{image: "v2", size: 3, ready: 3, edit: was("3", "3")}),
			[]string{"web-v2: 3 -> 1 desired-replicas=1 max-replicas=1" + down("web-v2", "3", "1")}, ""},
		{"DEP-35 none active, none wanted", snapshotWith(web(0, pausedNow), rs{image: "v1", edit: was("4", "5")}), nil, ""},
		{"DEP-36 a saturated new one: the old ones go",
			snapshotWith(web(3), rs{image: "v0", size: 1, ready: 1, edit: was("4", "5")}, rs{image: "v1", size: 2, edit: was("4", "5")},
				rs{image: "v2", size: 3, ready: 3}),
			[]string{"web-v0: 1 -> 0 desired-replicas=3 max-replicas=4" + down("web-v0", "1", "0"),
				"web-v1: 2 -> 0 desired-replicas=3 max-replicas=4" + down("web-v1", "2", "0")}, ""},
		{"DEP-36 not saturated while a pod is missing",
			snapshotWith(web(3), rs{image: "v1", size: 1, ready: 1, edit: was("4", "5")}, rs{image: "v2", size: 3, ready: 2, pending: 1}),
			[]string{"web-v1: desired-replicas=3 max-replicas=4"}, ""},
		{"DEP-37, DEP-85 in proportion",
			snapshotWith(web(15), rs{image: "v1", size: 8, ready: 8, edit: was("10", "13")},
				rs{image: "v2", size: 5, ready: 5, edit: was("10", "13")}),
			[]string{"web-v2: 5 -> 7 desired-replicas=15 max-replicas=19" + up("web-v2", "5", "7"),
				"web-v1: 8 -> 12 desired-replicas=15 max-replicas=19" + up("web-v1", "8", "12")}, ""},
		{"DEP-37 equal sizes: the newer grows first",
			snapshotWith(web(3, moves("1", "0")), rs{image: "v1", size: 1, edit: was("2", "0")},
				rs{image: "v2", size: 1, edit: was("2", "0")}),
			[]string{"web-v2: 1 -> 3 desired-replicas=3 max-replicas=4" + up("web-v2", "1", "3"),
				"web-v1: desired-replicas=3 max-replicas=4"}, ""},
		{"DEP-37 equal sizes: the older shrinks first",
			snapshotWith(web(2, moves("1", "0")), rs{image: "v1", size: 2, edit: was("4", "0")},
				rs{image: "v2", size: 2, edit: was("4", "0")}),
			[]string{"web-v2: desired-replicas=2 max-replicas=3",
				"web-v1: 2 -> 1 desired-replicas=2 max-replicas=3" + down("web-v1", "2", "1")}, ""},
		{"DEP-37 to none",
			snapshotWith(web(0), rs{image: "v1", size: 2, edit: was("3", "4")}, rs{image: "v2", size: 2, edit: was("3", "4")}),
			[]string{"web-v2: 2 -> 0 desired-replicas=0 max-replicas=0" + down("web-v2", "2", "0"),
				"web-v1: 2 -> 0 desired-replicas=0 max-replicas=0" + down("web-v1", "2", "0")}, ""},
		{"DEP-37, DEP-43 pods that are not available go instead of available ones",
			snapshotWith(web(5), rs{image: "v1", size: 8, ready: 8, edit: was("10", "13")},
				rs{image: "v2", size: 5, ready: 2, pending: 3, edit: was("10", "13")}),
			[]string{"web-v2: 5 -> 2 desired-replicas=5 max-replicas=7" + down("web-v2", "5", "2"),
				"web-v1: 8 -> 5 desired-replicas=5 max-replicas=7" + down("web-v1", "8", "5")}, ""},
		{"DEP-37, DEP-43 those of old ones before those of the new one",
			snapshotWith(web(6), rs{image: "v0", size: 4, pending: 4, edit: was("10", "13")},
				rs{image: "v1", size: 5, ready: 5, edit: was("10", "13")}, rs{image: "v2", size: 4, pending: 4, edit: was("10", "13")}),
			[]string{"web-v2: 4 -> 3 desired-replicas=6 max-replicas=8" + down("web-v2", "4", "3"),
				"web-v0: 4 -> 0 desired-replicas=6 max-replicas=8" + down("web-v0", "4", "0"), "web-v1: desired-replicas=6 max-replicas=8"},
			""},
		{"DEP-37 where none is available, the shares stay",
			snapshotWith(web(5), rs{image: "v1", size: 8, pending: 8, edit: was("10", "13")},
				rs{image: "v2", size: 5, pending: 5, edit: was("10", "13")}),
			[]string{"web-v2: 5 -> 3 desired-replicas=5 max-replicas=7" + down("web-v2", "5", "3"),
				"web-v1: 8 -> 4 desired-replicas=5 max-replicas=7" + down("web-v1", "8", "4")}, ""},
		{"DEP-37 where all are, too",
			snapshotWith(web(5), rs{image: "v1", size: 8, ready: 8, edit: was("10", "13")},
				rs{image: "v2", size: 5, ready: 5, edit: was("10", "13")}),
			[]string{"web-v2: 5 -> 3 desired-replicas=5 max-replicas=7" + down("web-v2", "5", "3"),
				"web-v1: 8 -> 4 desired-replicas=5 max-replicas=7" + down("web-v1", "8", "4")}, ""},
		{"DEP-38 the Deployment's status stands in for a missing maximum",
			snapshotWith(web(6, moves("0", "1"), func(d *appsv1.Deployment) { d.Status.Replicas = 3 }),
				rs{image: "v1", size: 2, edit: all(was("3", ""), bare(maximumAnnotation))}, rs{image: "v2", size: 1, edit: was("3", "-3")}),
			[]string{"web-v2: 1 -> 2 desired-replicas=6 max-replicas=6" + up("web-v2", "1", "2"),
				"web-v1: 2 -> 4 desired-replicas=6 max-replicas=6" + up("web-v1", "2", "4")}, ""},
		{"DEP-39 Recreate with several active: the rollout goes on instead",
			snapshotWith(web(3, recreate), rs{image: "v1", size: 2, ready: 2, edit: was("2", "2")},
				rs{image: "v2", size: 2, ready: 2, edit: was("2", "2")}),
			[]string{"web-v1: 2 -> 0 desired-replicas=3 max-replicas=3" + down("web-v1", "2", "0")}, ""},
		{"DEP-40 scaling does not roll on", snapshotWith(web(2), rs{image: "v1", size: 3, ready: 3, edit: was("3", "4")}),
			[]string{"web-v1: 3 -> 2 desired-replicas=2 max-replicas=3" + down("web-v1", "3", "2")}, ""},
		{"needs: maxSurge 0, scaled in the middle, nothing to add: the annotations are refreshed, so it does not stick",
			snapshotWith(web(3, moves("0", "1")), rs{image: "v1", size: 2, ready: 2, edit: was("4", "4")},
				rs{image: "v2", size: 1, pending: 1, edit: was("4", "4")}),
			[]string{"web-v2: desired-replicas=3 max-replicas=3", "web-v1: desired-replicas=3 max-replicas=3"}, ""},
	})
}

func TestProportional(t *testing.T) {
	for _, c := range []struct {
		name    string
		parts   []part
		allowed int64
		want    []int64
	}{
		{"DEP-85 ten to fifteen", []part{{8, 13}, {5, 13}}, 19, []int64{12, 7}},
		{"DEP-38 down", []part{{8, 13}, {5, 13}}, 7, []int64{4, 3}},
		{"DEP-38 half is rounded away from zero", []part{{1, 2}, {1, 2}}, 3, []int64{2, 1}},
		{"DEP-38 no share without a maximum, the first takes the rest", []part{{3, 0}, {2, 0}}, 9, []int64{7, 2}},
		{"DEP-38 the sum never passes what is to be added", []part{{5, 1}, {5, 1}}, 12, []int64{7, 5}},
		{"DEP-38 nor what is to be taken", []part{{5, 100}, {5, 100}}, 9, []int64{4, 5}},
		{"DEP-38 none grows while there are too many", []part{{2, 1}, {2, 1}}, 3, []int64{1, 2}},
		{"DEP-39 what rounding leaves goes to the first", []part{{3, 9}, {3, 9}, {3, 9}}, 10, []int64{4, 3, 3}},
		{"DEP-39 it does not go below zero", []part{{1, 1}, {0, 1}}, 0, []int64{0, 0}},
		{"DEP-37 nothing to add", []part{{3, 1}, {2, 9}}, 5, []int64{3, 2}},
		{"DEP-38 the largest numbers there are", []part{{math.MaxInt32, 1}, {math.MaxInt32, math.MaxInt32}}, 2 * math.MaxInt32,
			[]int64{math.MaxInt32, math.MaxInt32}},
		{"DEP-38 the smallest maximum for the largest", []part{{math.MaxInt32, 1}}, 2 * math.MaxInt32, []int64{2 * math.MaxInt32}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, proportional(c.parts, c.allowed)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestUnavailableFirst(t *testing.T) {
	for _, c := range []struct {
		name  string
		sets  []holding // in the order in which they are given up
		sizes []int64   // their shares
		want  []int64
	}{
		{"DEP-38 all are available: the shares", []holding{{8, 8}, {5, 5}}, []int64{4, 3}, []int64{4, 3}},
		{"DEP-38 none is: the shares", []holding{{8, 0}, {5, 0}}, []int64{4, 3}, []int64{4, 3}},
		{"DEP-38 nothing to take", []holding{{5, 5}, {3, 0}}, []int64{5, 3}, []int64{5, 3}},
		{"DEP-43 one that is not available goes instead", []holding{{5, 5}, {3, 0}}, []int64{4, 3}, []int64{5, 2}},
		{"DEP-43 as many as there are, the rest are available ones", []holding{{8, 8}, {5, 4}}, []int64{3, 4}, []int64{3, 4}},
		{"DEP-43 all that there are", []holding{{8, 8}, {5, 2}}, []int64{3, 4}, []int64{5, 2}},
		{"DEP-43 the first gives most, and the last gets most", []holding{{4, 1}, {4, 4}, {4, 2}, {4, 4}}, []int64{3, 3, 3, 2},
			[]int64{1, 4, 2, 4}},
		{"DEP-38 growing: no available pod goes for one that is still to come", []holding{{5, 5}, {4, 4}}, []int64{7, 3}, []int64{6, 4}},
		{"DEP-38 all go", []holding{{5, 5}, {3, 0}}, []int64{0, 0}, []int64{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, unavailableFirst(c.sets, c.sizes)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRoll(t *testing.T) {
	check(t, []row{
		{"DEP-41 a new one that is too large is cut", snapshotWith(web(3), rs{image: "v2", size: 5, ready: 5}),
			[]string{"web-v2: 5 -> 3" + down("web-v2", "5", "3")}, "scale new ReplicaSet web-v2 from 5 to 3"},
		{"DEP-41 it grows into the room", snapshotWith(web(3), rs{image: "v1", size: 2, ready: 2}, rs{image: "v2", size: 1, ready: 1}),
			[]string{"web-v2: 1 -> 2" + up("web-v2", "1", "2")}, ""},
		{"DEP-41 not beyond replicas",
			snapshotWith(web(10, moves("5", "0")), rs{image: "v1", size: 1, ready: 1}, rs{image: "v2", size: 8, ready: 8}),
			[]string{"web-v2: 8 -> 10" + up("web-v2", "8", "10")}, ""},
		{"DEP-41 no room, no growth", snapshotWith(web(3), rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 1, pending: 1}), nil,
			"waiting for 1 of 1 pods of web-v2"},
		{"DEP-42 new pods that are not available make no room",
			snapshotWith(web(4, moves("1", "1")), rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 2, pending: 2}), nil, ""},
		{"DEP-42 an available new pod lets an old one go",
			snapshotWith(web(3), rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 1, ready: 1}),
			[]string{"web-v1: 3 -> 2" + down("web-v1", "3", "2")}, ""},
		{"DEP-43 old pods that are not available go first, the oldest ReplicaSet's before others'",
			snapshotWith(web(6, moves("2", "2")), rs{image: "v0", size: 2, ready: 1, pending: 1}, rs{image: "v1", size: 4, pending: 4},
				rs{image: "v2", size: 2, ready: 2}),
			[]string{"web-v0: 2 -> 1" + down("web-v0", "2", "1"), "web-v1: 4 -> 1" + down("web-v1", "4", "1")}, ""},
		{"DEP-44 then available ones, as many as can be spared",
			snapshotWith(web(10), rs{image: "v1", size: 10, ready: 10}, rs{image: "v2", size: 3, pending: 3}),
			[]string{"web-v1: 10 -> 8" + down("web-v1", "10", "8")}, ""},
		{"DEP-44 the oldest ReplicaSet first",
			snapshotWith(web(5, moves("1", "1")), rs{image: "v0", size: 1, ready: 1}, rs{image: "v1", size: 4, ready: 4},
				rs{image: "v2", size: 1, ready: 1}),
			[]string{"web-v0: 1 -> 0" + down("web-v0", "1", "0"), "web-v1: 4 -> 3" + down("web-v1", "4", "3")}, ""},
		{"DEP-42 pods that a scale-down will take away do not count as available",
			snapshotWith(web(3), rs{image: "v1", size: 2, ready: 3}, rs{image: "v2", size: 2, ready: 1, pending: 1}), nil, ""},
		{"DEP-42 nor do pods that do not match the ReplicaSet's selector",
			astray(snapshotWith(web(3), rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 1, ready: 1})), nil, ""},
		{"DEP-41 the room that old pods make is used when they are gone",
			snapshotWith(web(3), rs{image: "v1", size: 2, ready: 3}, rs{image: "v2", size: 1, ready: 1}), nil,
			"waiting for 1 old pods to be deleted"},
		{"DEP-41 with 10 pods in motion that room is used as a whole, not pod by pod",
			snapshotWith(web(20, moves("5", "5")), rs{image: "v1", size: 15, ready: 18}, rs{image: "v2", size: 5, pending: 5}), nil,
			"waiting for 3 old pods to be deleted"},
		{"DEP-41 with 16 and more, in batches",
			snapshotWith(web(32, moves("8", "8")), rs{image: "v1", size: 24, ready: 26}, rs{image: "v2", size: 8, pending: 8}),
			[]string{"web-v2: 8 -> 14" + up("web-v2", "8", "14")}, ""},
		{"DEP-41 old pods that cannot be deleted are not waited for, but they take up room",
			snapshotWith(web(6, moves("3", "0")), rs{image: "v1", size: 4, ready: 5, edit: fails}, rs{image: "v2", size: 3, ready: 3}),
			[]string{"web-v2: 3 -> 4" + up("web-v2", "3", "4")}, ""},
		{"RS-15 the pods of an old one that is being deleted are not waited for",
			snapshotWith(web(3), rs{image: "v1", size: 2, ready: 3, edit: goes}, rs{image: "v2", size: 1, ready: 1}),
			[]string{"web-v2: 1 -> 2" + up("web-v2", "1", "2")}, ""},
		{"DEP-46 a step waits until the other is done",
			snapshotWith(web(3, keeps(0)), rs{image: "v0"}, rs{image: "v1", size: 1, ready: 1}, rs{image: "v2", size: 3, ready: 3}),
			[]string{"web-v1: 1 -> 0" + down("web-v1", "1", "0")}, ""},
		{"DEP-47 terminating pods count nowhere",
			snapshotWith(web(3), rs{image: "v1", size: 2, ready: 2, terminating: 5},
				rs{image: "v2", size: 1, ready: 1, terminating: 5, crashed: 5}),
			[]string{"web-v2: 1 -> 2" + up("web-v2", "1", "2")}, ""},
		{"DEP-42 a finished rollout plans nothing", snapshotWith(web(3), rs{image: "v1"}, rs{image: "v2", size: 3, ready: 3}), nil,
			"all 3 replicas are of web-v2 and available"},
	})
}

// fails lets a ReplicaSet report that it cannot delete pods.
func fails(rs *appsv1.ReplicaSet) {
	rs.Status.Conditions = []appsv1.ReplicaSetCondition{{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedDelete",
	}}
}

// goes lets a ReplicaSet be in deletion, kept by a finalizer.
func goes(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }

// astray takes the labels off a pod of the last ReplicaSet.
func astray(s snapshot) snapshot {
	rs := s.ReplicaSets[len(s.ReplicaSets)-1]
	s.Pods[rs.UID][0].Labels = nil
	return s
}
