package persistentvolumebinder

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestPlanVolume(t *testing.T) {
	const released = "V/status phase=Released"
	gone := func(v *corev1.PersistentVolume) volumeSnapshot { return volumeSnapshot{Volume: v, Read: true} }
	noDeleter := "no driver deletes this volume: delete what it stands for, set its reclaim policy to Retain, and delete the " +
		"PersistentVolume"
	for _, row := range []struct {
		name string
		s    volumeSnapshot
		want string
		why  string
		next time.Duration
	}{
		{"it is gone", volumeSnapshot{}, "", "the volume is gone", 0},
		{"PV-36: free", volumeSnapshot{Volume: volume("v", "phase=Pending")}, "V/status phase=Available", "it is free", 0},
		{"PV-36: at rest", volumeSnapshot{Volume: volume("v", "")}, "", "it is free", 0},
		{"PV-36: reserved", volumeSnapshot{Volume: volume("v", "phase= for=c")}, "V/status phase=Available",
			"reserved for the claim shop/c", 0},
		{"PV-36: reserved, and just created: its claim may follow",
			volumeSnapshot{Volume: created(volume("v", "phase= for=c"), time.Second)}, "", "about to come", claimFollows},
		{"PV-36: reserved for a while", volumeSnapshot{Volume: created(volume("v", "phase= for=c"), claimFollows)},
			"V/status phase=Available", "reserved for the claim shop/c", 0},
		{"PV-36: reserved, and created by a clock that is ahead", volumeSnapshot{Volume: created(volume("v", "phase= for=c"), -time.Hour)},
			"V/status phase=Available", "", 0},
		{"PV-36: just created, but free", volumeSnapshot{Volume: created(volume("v", "phase="), time.Second)}, "V/status phase=Available",
			"it is free", 0},
		{"PV-36: just created, and its claim is there and too large",
			volumeSnapshot{Volume: created(volume("v", "phase= for=c"), time.Second), Claim: claim("c", "9Gi")}, "V/status phase=Available",
			"", 0},
		{"PV-36: reserved for a claim that it is too small for",
			volumeSnapshot{Volume: volume("v", "phase= for=c"), Claim: claim("c", "9Gi")}, "V/status phase=Available", "", 0},
		{"PV-80: reserved, and its claim is about to be bound", volumeSnapshot{Volume: volume("v", "phase= for=c"), Claim: claim("c", "")},
			"", "being bound", 0},
		{"PV-80: its claim is being deleted", volumeSnapshot{Volume: volume("v", "phase= for=c"), Claim: claim("c", "deleting")},
			"V/status phase=Available", "", 0},
		{"PV-25: a claim that was bound to it will be again",
			volumeSnapshot{Volume: volume("v", "phase=Bound"), Claim: claim("c", "complete volume=v")}, "", "bound again", 0},
		{"PV-51: an administrator has freed it", volumeSnapshot{Volume: volume("v", "phase=Released message=x")},
			"V/status phase=Available message=", "it is free", 0},
		{"PV-55: also when it was Failed", volumeSnapshot{Volume: volume("v", "phase=Failed message=x")},
			"V/status phase=Available message=", "", 0},

		{"PV-38: its claim has it", volumeSnapshot{Volume: volume("v", "of=c"), Claim: claim("c", "volume=v")}, "",
			"it is for the claim shop/c", 0},
		{"PV-38: its claim is not bound yet", volumeSnapshot{Volume: volume("v", "of=c phase=Pending"), Claim: claim("c", "")}, "",
			"not bound yet", 0},
		{"PV-38: it has another mode", volumeSnapshot{Volume: volume("v", "of=c block"), Claim: claim("c", "")},
			`Warning VolumeMismatch: Cannot bind PersistentVolume to requested PersistentVolumeClaim "shop/c" due to incompatible volumeMode.`, "wants the volume mode Filesystem", 0},
		{"PV-39: its claim has another one: it was made for it",
			volumeSnapshot{Volume: volume("v", "of=c phase=Bound by=d policy=Delete"), Claim: claim("c", "volume=w")}, released,
			"is bound to w", 0},
		{"PV-39: the controller had chosen it",
			volumeSnapshot{Volume: volume("v", "of=c phase=Bound chosen"), Claim: claim("c", "volume=w")},
			"V claim=none bound-by-controller=none | V/status phase=Available", "it is let go", 0},
		{"PV-39: its user had chosen it", volumeSnapshot{Volume: volume("v", "of=c phase=Bound"), Claim: claim("c", "volume=w")},
			"V claim=c() | V/status phase=Available", "", 0},
		{"PV-39: one that was made for somebody else, and that the controller had chosen",
			volumeSnapshot{Volume: volume("v", "of=c phase=Bound by=d policy=Delete chosen"), Claim: claim("c", "volume=w")},
			"V claim=none bound-by-controller=none | V/status phase=Available", "it is let go", 0},
		{"PV-39: one that was made, and is kept",
			volumeSnapshot{Volume: volume("v", "of=c phase=Bound by=d chosen"), Claim: claim("c", "volume=w")},
			"V claim=none bound-by-controller=none | V/status phase=Available", "", 0},

		{"PV-37: its claim is gone", gone(volume("v", "of=c phase=Bound")), released, "shop/c is gone", 0},
		{"PV-37: there is another claim of its name",
			volumeSnapshot{Volume: volume("v", "of=c phase=Bound"), Claim: claim("c", "uid=new"), Read: true, Live: "new"}, released, "",
			0},
		{"PV-37: not without a live read", volumeSnapshot{Volume: volume("v", "of=c phase=Bound")}, "", "is not in the cache", 0},
		{"PV-37: another claim, of a volume that is new",
			volumeSnapshot{Volume: created(volume("v", "of=c phase=Pending"), 4*time.Second), Claim: claim("c", "uid=new"), Early: true},
			"", "it is new", 6 * time.Second},
		{"PV-37, PV-82: the cache lags", volumeSnapshot{Volume: volume("v", "of=c phase=Bound"), Read: true, Live: "uid-c"}, "",
			"exists, which the cache does not show yet", late},
		{"PV-37, PV-82: the cache does not show the other claim of its name yet",
			volumeSnapshot{Volume: volume("v", "of=c phase=Bound"), Read: true, Live: "new"}, "",
			"exists, which the cache does not show yet", late},
		{"PV-37: it was never bound", gone(volume("v", "of=c phase=Available")), released, "", 0},
		{"PV-37: Failed is not overwritten", volumeSnapshot{Volume: volume("v", "of=c phase=Failed message=x")}, "",
			"it is Failed, and stays so", 0},

		{"PV-51: Retain", volumeSnapshot{Volume: volume("v", "of=c phase=Released")}, "", "because its policy is Retain", 0},
		{"PV-52: a driver deletes it", volumeSnapshot{Volume: volume("v", "of=c phase=Released policy=Delete by=d.example.com")}, "",
			"its driver deletes it", 0},
		{"PV-52: a CSI volume that nobody says to have made", volumeSnapshot{Volume: volume("v", "of=c phase=Released policy=Delete csi")},
			"", "its driver deletes it", 0},
		{"PV-50: a driver that has taken over a plugin",
			volumeSnapshot{Volume: volume("v", "of=c phase=Released policy=Delete by=kubernetes.io/aws-ebs migrated=ebs.csi.aws.com")}, "",
			"its driver deletes it", 0},
		{"PV-53: nobody deletes it", volumeSnapshot{Volume: volume("v", "of=c phase=Released policy=Delete")},
			"V/status phase=Failed message=" + noDeleter + " | Warning VolumeFailedDelete: " + noDeleter, "it is Failed", 0},
		{"PV-48: host paths are not deleted",
			volumeSnapshot{Volume: volume("v",
				"of=c phase=Released policy=Delete by=kubernetes.io/host-path finalizer=kubernetes.io/pv-controller")},
			"V/status phase=Failed message=" + noDeleter + " | Warning VolumeFailedDelete: " + noDeleter, "", 0},
		{"PV-55: it is Failed", volumeSnapshot{Volume: func() *corev1.PersistentVolume {
			v := volume("v", "of=c phase=Failed policy=Delete")
			v.Status.Message = noDeleter
			return v
		}()}, "", "it is Failed", 0},
		{"PV-57: nobody empties it", volumeSnapshot{Volume: volume("v", "of=c phase=Released policy=Recycle")},
			"V/status phase=Failed message=No recycler plugin found for the volume! | Warning VolumeFailedRecycle: No recycler plugin " +
				"found for the volume!", "", 0},
		{"PV-56: a policy that is not known", volumeSnapshot{Volume: volume("v", "of=c phase=Released policy=Odd")},
			`V/status phase=Failed message=the reclaim policy "Odd" is not known | Warning VolumeUnknownReclaimPolicy: the reclaim policy "Odd" is not known`, "", 0},

		{"PV-11: a plugin that was taken over",
			volumeSnapshot{Volume: volume("v", "by=kubernetes.io/aws-ebs finalizer=kubernetes.io/pv-controller")},
			"V finalizers=[] migrated-to=ebs.csi.aws.com", "", 0},
		{"PV-11: and one that was not", volumeSnapshot{Volume: volume("v", "by=d.example.com migrated=x")}, "V migrated-to=none", "", 0},
		{"PV-12: a plugin has to delete it",
			volumeSnapshot{Volume: volume("v",
				"by=kubernetes.io/odd policy=Delete finalizer=external-provisioner.volume.kubernetes.io/finalizer finalizer=x")},
			"V finalizers=[x kubernetes.io/pv-controller]", "", 0},
		{"PV-12: or need not",
			volumeSnapshot{Volume: volume("v",
				"by=kubernetes.io/odd finalizer=external-provisioner.volume.kubernetes.io/finalizer finalizer=kubernetes.io/pv-controller")}, "V finalizers=[]", "", 0},
		{"PV-12: one that is being deleted gets no finalizer",
			volumeSnapshot{Volume: volume("v", "by=kubernetes.io/odd policy=Delete deleting")}, "", "", 0},
		{"PV-12: those of drivers are left alone",
			volumeSnapshot{Volume: volume("v",
				"by=d.example.com policy=Delete finalizer=external-provisioner.volume.kubernetes.io/finalizer "+
					"finalizer=kubernetes.io/pv-controller")}, "", "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, p := planVolume(epoch, row.s)
			if got := said(p); got != row.want || p.Requeue != row.next {
				t.Errorf("says\n%q in %v, want\n%q", got, p.Requeue, row.want)
			}
			if !strings.Contains(p.Why, row.why) {
				t.Errorf("why: %s", p.Why)
			}
			if d.Release != strings.HasSuffix(row.want, released) {
				t.Errorf("released: %t", d.Release)
			}
		})
	}
}

// What was said of a volume is not said again.
func TestPV85VolumesAreToldOnce(t *testing.T) {
	s := volumeSnapshot{Volume: volume("v", "of=c block"), Claim: claim("c", "")}
	d, _ := planVolume(epoch, s)
	s.Memory.LastEvent = d.LastEvent
	if _, p := planVolume(epoch, s); said(p) != "" {
		t.Errorf("%q", said(p))
	}
}

// Volumes whose claims were replaced without that a watch has shown how are held if they are many, until the time is
// over.
func TestVolumesAreHeld(t *testing.T) {
	s := volumeSnapshot{Volume: volume("v", "of=c phase=Bound"), Claim: claim("c", "uid=new"), Tripped: true,
		Replaced: share{Replaced: 8, Bound: 10}}
	d, p := planVolume(epoch, s)
	if p.Hold != (plan.Hold{What: heldVolumes, Why: heldWhy}) {
		t.Errorf("it holds %+v", p.Hold)
	}
	if said(p) != "" || d.Held != epoch || p.Requeue != lookAtHeld || !strings.Contains(p.Why, "8 of 10 volumes of claims") {
		t.Errorf("%q, %+v, %s", said(p), d, p.Why)
	}
	s.HeldSince = d.Held
	if d, p = planVolume(epoch.Add(heldFor-time.Second), s); said(p) != "" || d.Held != epoch {
		t.Errorf("%q, %+v", said(p), d)
	}
	s.Read, s.Live = true, "new"
	if d, p = planVolume(epoch.Add(heldFor), s); said(p) != "V/status phase=Released" || p.Hold != (plan.Hold{Ended: plan.ByTime}) ||
		!d.Held.IsZero() {
		t.Errorf("the time is over: %q, %+v", said(p), d)
	}
	s.Tripped = false
	if d, p = planVolume(epoch, s); said(p) != "V/status phase=Released" || p.Hold.Ended != plan.ByProof {
		t.Errorf("it is released by proof: %q, %+v", said(p), d)
	}
}

func TestRememberVolume(t *testing.T) {
	s := volumeSnapshot{Memory: volumeMemory{Claim: "c", LastEvent: "before"}}
	for _, row := range []struct {
		name  string
		d     volumeDecision
		fails bool
		seen  volumeMemory
		want  *volumeMemory
	}{
		{"nothing", volumeDecision{}, false, volumeMemory{Claim: "c"}, nil},
		{"that the claim was deleted", volumeDecision{}, false, volumeMemory{Claim: "c", Deleted: true},
			&volumeMemory{Claim: "c", Deleted: true}},
		{"until the volume is released", volumeDecision{Release: true}, false, volumeMemory{Claim: "c", Deleted: true}, nil},
		{"but not if that fails", volumeDecision{Release: true}, true, volumeMemory{Claim: "c", Deleted: true},
			&volumeMemory{Claim: "c", Deleted: true, LastEvent: "before"}},
		{"what was said", volumeDecision{LastEvent: "now"}, false, volumeMemory{Claim: "c"}, &volumeMemory{Claim: "c", LastEvent: "now"}},
		{"since when it is held", volumeDecision{Held: epoch}, false, volumeMemory{Claim: "c"}, &volumeMemory{Claim: "c", Held: epoch}},
		{"until it is released", volumeDecision{Release: true}, false, volumeMemory{Claim: "c", Held: epoch}, nil},
		{"also if that fails at first", volumeDecision{Release: true}, true, volumeMemory{Claim: "c", Held: epoch},
			&volumeMemory{Claim: "c", Held: epoch, LastEvent: "before"}},
	} {
		got, ok := rememberVolume(epoch, s, row.d, &row.seen, outcome(row.fails), outcome(false))
		if !ok || (got == nil) != (row.want == nil) || got != nil && *got != *row.want {
			t.Errorf("%s: %+v", row.name, got)
		}
	}
}
