package persistentvolumebinder

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	fourWrites = "V claim=data(uid-data) bound-by-controller=yes | V/status phase=Bound | C volume=v bind-completed=yes " +
		"bound-by-controller=yes | " +
		"C/status phase=Bound modes=[ReadWriteOnce] capacity=2Gi"
	noVolume = "Normal FailedBinding: no persistent volumes available for this claim and no storage class is set"
	lost     = "C/status phase=Lost modes=[] capacity=0 | "
)

func pvs(all ...*corev1.PersistentVolume) []*corev1.PersistentVolume { return all }

func TestPlanClaim(t *testing.T) {
	late := class("fast", "driver.example.com", "wait")
	quick := class("fast", "driver.example.com")
	const asking = "C storage-provisioner=driver.example.com beta-storage-provisioner=driver.example.com | Normal ExternalProvisioning: " +
		"Waiting for a volume to be created either by the external provisioner 'driver.example.com' or manually by the system " +
		"administrator. " +
		"If volume creation is delayed, please verify that the provisioner is running and correctly registered."
	for _, row := range []struct {
		name string
		s    claimSnapshot
		want string
		why  string // a part of the reason
	}{
		{"it is gone", claimSnapshot{}, "", "the claim is gone"},

		{"PV-15, PV-34: a volume that fits is reserved, Bound, named, and the claim is Bound, in this order",
			claimSnapshot{Claim: claim("data", ""), Free: pvs(volume("v", ""))}, fourWrites, "the volume fits it"},
		{"PV-7: who reserved the volume is not the controller",
			claimSnapshot{Claim: claim("data", ""), Reserved: pvs(volume("v", "for=data"))},
			strings.Replace(fourWrites, " bound-by-controller=yes |", " |", 1), "reserved for it"},
		{"PV-22, PV-34: a volume that a driver has made for it needs no reservation",
			claimSnapshot{Claim: claim("data", ""), Class: quick, Reserved: pvs(volume("v", "of=data"))},
			fourWrites[strings.Index(fourWrites, "V/status"):], ""},
		{"PV-7: a volume that the user has named", claimSnapshot{Claim: claim("data", "volume=v"), Volume: volume("v", "")},
			"V claim=data(uid-data) bound-by-controller=yes | V/status phase=Bound | C bind-completed=yes | C/status phase=Bound " +
				"modes=[ReadWriteOnce] capacity=2Gi", "it names the volume"},
		{"PV-22: the two name each other: nothing is checked",
			claimSnapshot{Claim: claim("data", "volume=v 9Gi class=x block"), Volume: volume("v", "for=data")},
			"V claim=data(uid-data) | V/status phase=Bound | C bind-completed=yes | C/status phase=Bound modes=[ReadWriteOnce] capacity=2Gi", "name each other"},
		{"PV-30: one that is reserved comes before those that fit better",
			claimSnapshot{Claim: claim("data", ""), Reserved: pvs(volume("r", "9Gi for=data class=x phase=Released")),
				Free: pvs(volume("v", ""))},
			"V claim=data(uid-data) | V/status phase=Bound | C volume=r bind-completed=yes bound-by-controller=yes | C/status phase=Bound " +
				"modes=[ReadWriteOnce] capacity=9Gi", "reserved for it"},
		{"PV-29: but not one that is too small", claimSnapshot{Claim: claim("data", "noclass 3Gi"), Reserved: pvs(volume("r", "for=data"))},
			noVolume, "r, which is reserved for it, has 2Gi of 3Gi"},
		{"PV-34: the capacity is that of before a resize",
			claimSnapshot{Claim: claim("data", ""), Free: pvs(volume("v", "5Gi resizing=3Gi"))},
			strings.Replace(fourWrites, "capacity=2Gi", "capacity=3Gi", 1), ""},
		{"PV-34: the class of attributes is that of the volume",
			claimSnapshot{Claim: claim("data", "attributes=gold"), Free: pvs(volume("v", "attributes=gold"))},
			fourWrites + " attributes=gold", ""},
		{"PV-34: the capacity of a claim that is Bound is the resizer's",
			claimSnapshot{Claim: claim("data", "volume=v complete phase=Bound has=1Gi"), Volume: volume("v", "of=data phase=Bound")}, "",
			"it is bound to the volume v"},

		{"PV-16: the default class",
			claimSnapshot{Claim: claim("data", "noclass"), Default: class("std", "kubernetes.io/no-provisioner", "default")}, "C class=std",
			"default class std"},
		{"PV-16: and its driver, in one write",
			claimSnapshot{Claim: claim("data", "noclass"), Default: class("std", "driver.example.com", "default")},
			strings.Replace(asking, "C ", "C class=std ", 1), "is asked"},
		{"PV-16: a volume of the default class comes before its driver",
			claimSnapshot{Claim: claim("data", "noclass"), Default: class("std", "driver.example.com"),
				FreeOfDefault: pvs(volume("v", "class=std"))}, "C class=std", ""},
		{"PV-16: the driver of a class that waits is not asked yet",
			claimSnapshot{Claim: claim("data", "noclass"), Default: class("std", "driver.example.com", "wait")}, "C class=std", ""},
		{"PV-16: a volume without a class comes before the default class",
			claimSnapshot{Claim: claim("data", "noclass"), Default: class("std", "driver.example.com"), Free: pvs(volume("v", "class="))},
			fourWrites, ""},
		{"PV-16: an empty class is none", claimSnapshot{Claim: claim("data", "class=")}, noVolume,
			"it has no class, and there is no free one"},
		{"PV-2: nobody is asked for the default class",
			claimSnapshot{Claim: claim("data", "noclass"), Default: class("std", "driver.example.com"), Static: true}, "C class=std", ""},

		{"PV-17: no pod yet", claimSnapshot{Claim: claim("data", ""), Class: late},
			"Normal WaitForFirstConsumer: waiting for first consumer to be created before binding", "waits for its first consumer"},
		{"PV-17: one pod", claimSnapshot{Claim: claim("data", ""), Class: late, Pods: []string{"web"}},
			"Normal WaitForPodScheduled: waiting for pod web to be scheduled", "web"},
		{"PV-17: several pods", claimSnapshot{Claim: claim("data", ""), Class: late, Pods: []string{"db", "web"}},
			"Normal WaitForPodScheduled: waiting for pods db,web to be scheduled", ""},
		{"PV-32: a class that waits leaves free volumes to the scheduler",
			claimSnapshot{Claim: claim("data", ""), Class: late, Free: pvs(volume("v", ""))},
			"Normal WaitForFirstConsumer: waiting for first consumer to be created before binding", ""},
		{"PV-32: but takes the one that is reserved",
			claimSnapshot{Claim: claim("data", ""), Class: late, Reserved: pvs(volume("v", "of=data chosen"))},
			fourWrites[strings.Index(fourWrites, "V/status"):], ""},
		{"PV-8: a node was selected: the driver is asked",
			claimSnapshot{Claim: claim("data", "selected"), Class: late, Free: pvs(volume("v", ""))}, asking,
			"waits for a volume from the driver"},
		{"PV-32: a class that does not exist waits for nobody", claimSnapshot{Claim: claim("data", ""), Free: pvs(volume("v", ""))},
			fourWrites, ""},

		{"PV-18, PV-9, PV-43: the driver is asked", claimSnapshot{Claim: claim("data", ""), Class: quick}, asking, "which is not running"},
		{"PV-43: once",
			claimSnapshot{Claim: claim("data", "asks=driver.example.com"), Class: quick, Driver: driver{Nodes: 1},
				Memory: claimMemory{"uid-data", asking[strings.Index(asking, "ExternalProvisioning"):]}}, "",
			"waits for a volume from the driver driver.example.com"},
		{"PV-9: an old request is replaced", claimSnapshot{Claim: claim("data", "asks=old.example.com"), Class: quick}, asking, ""},
		{"PV-42: a plugin that was taken over", claimSnapshot{Claim: claim("data", ""), Class: class("fast", "kubernetes.io/aws-ebs")},
			strings.ReplaceAll(asking, "driver.example.com", "ebs.csi.aws.com"), ""},
		{"PV-11: an old request to such a plugin",
			claimSnapshot{Claim: claim("data", "asks=kubernetes.io/aws-ebs complete volume=v phase=Bound has=2Gi"),
				Volume: volume("v", "of=data phase=Bound")}, "C migrated-to=ebs.csi.aws.com", ""},
		{"PV-11: and one to another plugin",
			claimSnapshot{Claim: claim("data", "migrated=ebs.csi.aws.com complete volume=v phase=Bound has=2Gi"),
				Volume: volume("v", "of=data phase=Bound")}, "C migrated-to=none", ""},
		{"PV-40: no such class", claimSnapshot{Claim: claim("data", "")},
			`Warning ProvisioningFailed: storageclass.storage.k8s.io "fast" not found`, "there is no class fast"},
		{"PV-41: no such plugin", claimSnapshot{Claim: claim("data", ""), Class: class("fast", "kubernetes.io/odd")},
			"Warning ProvisioningFailed: no volume plugin matched name: kubernetes.io/odd", "nothing makes volumes"},
		{"PV-41: nfs", claimSnapshot{Claim: claim("data", ""), Class: class("fast", "kubernetes.io/nfs")},
			"Warning ProvisioningFailed: no provisionable volume plugin matched", ""},
		{"PV-48: host paths", claimSnapshot{Claim: claim("data", ""), Class: class("fast", "kubernetes.io/host-path")},
			"Warning ProvisioningFailed: this controller manager makes no volumes of host paths: use a driver, or make the volume yourself",
			""},
		{"PV-74: a class without a provisioner is no failure",
			claimSnapshot{Claim: claim("data", ""), Class: class("fast", "kubernetes.io/no-provisioner"), Near: pvs(volume("v", "1Gi"))},
			`Normal FailedBinding: no persistent volumes available for this claim, and the storage class "fast" does not make any`,
			"the nearest: v has 1Gi of 2Gi"},
		{"PV-2: drivers are not asked", claimSnapshot{Claim: claim("data", ""), Class: quick, Static: true}, "",
			"--enable-dynamic-provisioning=false"},
		{"PV-19: nothing fits",
			claimSnapshot{Claim: claim("data", "class="), Near: pvs(volume("v", "class= block"), volume("w", "color=red"))}, noVolume,
			`the nearest: v has the volume mode Block; w has the class "fast" and not ""`},
		{"PV-17: that pods are to be scheduled is said once",
			claimSnapshot{Claim: claim("data", ""), Class: class("fast", "d", "wait"), Pods: []string{"a", "b"},
				Memory: claimMemory{"uid-data", "WaitForPodScheduled"}}, "", "a,b"},
		{"PV-85: what was said is not said again",
			claimSnapshot{Claim: claim("data", "class="), Memory: claimMemory{"uid-data", noVolume[len("Normal "):]}}, "", ""},
		{"PV-85: but to another claim of the name",
			claimSnapshot{Claim: claim("data", "class="), Memory: claimMemory{"uid-old", noVolume[len("Normal "):]}}, noVolume, ""},
		{"PV-31: a selector that cannot be read", claimSnapshot{Claim: claim("data", "unselectable"), Class: quick}, "",
			"its selector cannot be read"},
		{"PV-38: a volume of another mode",
			claimSnapshot{Claim: claim("data", "block"), Class: quick, Reserved: pvs(volume("v", "of=data"))},
			`Warning VolumeMismatch: Cannot bind PersistentVolume "v" to requested PersistentVolumeClaim due to incompatible volumeMode.`,
			"has the volume mode Filesystem"},
		{"PV-18: a volume of another mode that is reserved for it by its name only keeps no driver from being asked",
			claimSnapshot{Claim: claim("data", "block"), Class: quick, Reserved: pvs(volume("v", "for=data"))}, asking, ""},
		{"PV-75: a claim that is being deleted is not bound",
			claimSnapshot{Claim: claim("data", "deleting"), Free: pvs(volume("v", "")), Class: quick}, "", "it is being deleted"},

		{"PV-20: the volume that it names does not exist", claimSnapshot{Claim: claim("data", "volume=v")}, "",
			"v, which it names and which does not exist"},
		{"PV-20: a claim that is no longer bound is Pending", claimSnapshot{Claim: claim("data", "volume=v phase=Bound has=2Gi")},
			"C/status phase=Pending modes=[] capacity=0", ""},
		{"PV-23: the volume that it names is for another claim",
			claimSnapshot{Claim: claim("data", "volume=v"), Volume: volume("v", "of=rival")},
			`Warning FailedBinding: volume "v" already bound to a different claim.`, "is for the claim shop/rival"},
		{"PV-23: or for one of its name that is gone", claimSnapshot{Claim: claim("data", "volume=v"), Volume: volume("v", "other=data")},
			`Warning FailedBinding: volume "v" already bound to a different claim.`, ""},

		{"PV-24: its volume is gone", claimSnapshot{Claim: claim("data", "volume=v complete phase=Bound has=2Gi")},
			lost + "Warning ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!", "it is Lost"},
		{"PV-24: it names no volume any more", claimSnapshot{Claim: claim("data", "complete phase=Bound has=2Gi")},
			lost + "Warning ClaimLost: Bound claim has lost reference to PersistentVolume. Data on the volume is lost!", ""},
		{"PV-24: it is said once", claimSnapshot{Claim: claim("data", "volume=v complete phase=Lost")}, "",
			"it is Lost: its volume v is gone"},
		{"PV-82: the cache of volumes lags",
			claimSnapshot{Claim: claim("data", "volume=v complete phase=Bound has=2Gi"), Volume: volume("v", "of=data"), Late: true}, "",
			"the cache lags"},
		{"PV-25: out of Lost",
			claimSnapshot{Claim: claim("data", "volume=v complete phase=Lost"), Volume: volume("v", "of=data phase=Bound")},
			"C/status phase=Bound modes=[ReadWriteOnce] capacity=2Gi", ""},
		{"PV-25: somebody has taken the claimRef off",
			claimSnapshot{Claim: claim("data", "volume=v complete phase=Bound has=2Gi"), Volume: volume("v", "phase=Bound")},
			"V claim=data(uid-data) bound-by-controller=yes", ""},
		{"PV-25: or its uid",
			claimSnapshot{Claim: claim("data", "volume=v complete phase=Bound has=2Gi"), Volume: volume("v", "phase=Available for=data")},
			"V claim=data(uid-data) | V/status phase=Bound", ""},
		{"PV-6: a claim that is being deleted stays bound",
			claimSnapshot{Claim: claim("data", "volume=v complete phase=Bound has=2Gi deleting"),
				Volume: volume("v", "of=data phase=Available")}, "V/status phase=Bound", ""},
		{"PV-26: two claims have the same volume",
			claimSnapshot{Claim: claim("data", "volume=v complete phase=Bound has=2Gi"), Volume: volume("v", "of=rival phase=Bound")},
			lost + "Warning ClaimMisbound: Two claims are bound to the same volume, this one is bound incorrectly",
			"is for the claim shop/rival"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, p := planClaim(epoch, row.s)
			if got := said(p); got != row.want {
				t.Errorf("says\n%q, want\n%q", got, row.want)
			}
			if !strings.Contains(p.Why, row.why) {
				t.Errorf("why: %s", p.Why)
			}
			for _, step := range p.Steps {
				if c, ok := step.(plan.Change); ok && (!c.Unowned || !c.CheckVersion) {
					t.Errorf("a change without a precondition: %+v", c)
				}
			}
		})
	}
}

// PV-37, PV-82: a row is a sentence about what is read live before anything comes of it.
func TestProof(t *testing.T) {
	for _, row := range []struct {
		name string
		s    claimSnapshot
		want string
	}{
		{"a claim is not Lost because the cache lacks its volume", claimSnapshot{
			Claim: claim("data", "volume=v complete phase=Bound has=2Gi"),
		}, "PersistentVolume v"},
		{"or has it for another claim", claimSnapshot{
			Claim: claim("data", "volume=v complete phase=Bound has=2Gi"), Volume: volume("v", "of=rival phase=Bound"),
		}, "PersistentVolume v"},
		{"once", claimSnapshot{Claim: claim("data", "volume=v complete phase=Bound has=2Gi"), Proved: true}, ""},
		{"nothing if it is Lost", claimSnapshot{Claim: claim("data", "volume=v complete phase=Lost")}, ""},
		{"a volume that names nobody is bound again if the claim is there", claimSnapshot{
			Claim: claim("data", "volume=v complete phase=Bound has=2Gi"), Volume: volume("v", "phase=Bound"),
		}, "PersistentVolumeClaim shop/data"},
		{"nothing if the two belong together", claimSnapshot{
			Claim: claim("data", "volume=v complete phase=Bound has=2Gi"), Volume: volume("v", "of=data phase=Bound"),
		}, ""},
		{"a class may be about to come", claimSnapshot{Claim: claim("data", ""), Unclassed: true}, "StorageClass fast"},
		{"nothing if a volume is reserved for the claim", claimSnapshot{
			Claim: claim("data", ""), Unclassed: true, Reserved: pvs(volume("v", "for=data")),
		}, ""},
	} {
		var got []string
		_, p := planClaim(epoch, row.s)
		for _, ref := range p.Proof {
			got = append(got, ref.String())
		}
		if strings.Join(got, ", ") != row.want {
			t.Errorf("%s: asks for %q, want %q", row.name, got, row.want)
		}
	}
	_, p := planVolume(epoch, volumeSnapshot{Volume: volume("v", "of=c phase=Bound")})
	if len(p.Proof) != 1 || p.Proof[0].String() != "PersistentVolumeClaim shop/c" || len(p.Steps) > 0 {
		t.Errorf("of a volume whose claim is gone: %+v", p)
	}
}

func TestPV60MEND25WhyANamedVolumeIsRefused(t *testing.T) {
	const refused = `Warning VolumeMismatch: Cannot bind to requested volume "v": `
	for want, c := range map[string][2]string{
		"requested PV is too small":                {"3Gi", ""},
		"storageClassName does not match":          {"class=x", ""},
		"volumeAttributesClassName does not match": {"attributes=gold", ""},
		"incompatible volumeMode":                  {"block", ""},
		"incompatible accessMode":                  {"rwx", ""},
		`the volume is marked for deletion "v"`:    {"", "deleting"},
	} {
		_, p := planClaim(epoch, claimSnapshot{Claim: claim("data", "volume=v "+c[0]), Volume: volume("v", c[1])})
		if got := said(p); got != refused+want {
			t.Errorf("PV-21, PV-33: %v: %q, want %q", c, got, want)
		}
	}
	huge := claim("data", "volume=v")
	huge.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("18446744073709551616") // 2^64
	if _, p := planClaim(epoch, claimSnapshot{Claim: huge, Volume: volume("v", "1Gi")}); said(p) != refused+"requested PV is too small" {
		t.Errorf("MEND-25: 2^64 bytes of 1 GiB: %q", said(p))
	}
	_, p := planClaim(epoch, claimSnapshot{Claim: claim("data", "volume=v selects=red"), Volume: volume("v", "color=blue")})
	if !strings.HasPrefix(said(p), "V claim=data(uid-data)") {
		t.Errorf("PV-33: the selector counts: %q", said(p))
	}
}

func TestPV34WhatTheVolumeSaysOfItsClaim(t *testing.T) {
	_, p := planClaim(epoch, claimSnapshot{Claim: claim("data", ""), Free: pvs(volume("v", ""))})
	want := corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "shop", Name: "data", UID: "uid-data",
		ResourceVersion: "7"}
	if got := *p.Steps[0].(plan.Change).New.(*corev1.PersistentVolume).Spec.ClaimRef; got != want {
		t.Errorf("%+v", got)
	}
}

func TestPV13ClassesByAnnotation(t *testing.T) {
	for _, row := range []struct {
		words, class string
		named        bool
	}{{"oldclass=slow", "slow", true}, {"oldclass=", "", true}, {"class=", "", true}, {"noclass", "", false}, {"", "fast", true}} {
		if class, named := classOf(claim("c", row.words)); class != row.class || named != row.named {
			t.Errorf("%q: %q, %t", row.words, class, named)
		}
	}
	if classOfVolume(volume("v", "oldclass=slow")) != "slow" || classOfVolume(volume("v", "")) != "fast" {
		t.Error("the class of a volume")
	}
}

func TestDelayed(t *testing.T) { // PV-32
	for _, row := range []struct {
		class *storagev1.StorageClass
		want  bool
	}{{nil, false}, {&storagev1.StorageClass{}, false}, {class("c", "x"), false}, {class("c", "x", "wait"), true}} {
		if delayed(row.class) != row.want {
			t.Errorf("%+v", row.class)
		}
	}
}

func TestWhatIsKnownOfADriver(t *testing.T) { // PV-92
	for want, d := range map[string]driver{
		"it waits for a volume from the driver d": {Nodes: 3}, "which runs on no node": {Known: true},
		"which is not running: it is registered on no node, and there is no CSIDriver of that name": {},
	} {
		_, p := planClaim(epoch, claimSnapshot{Claim: claim("data", ""), Class: class("fast", "d"), Driver: d})
		if !strings.HasSuffix(p.Why, want) {
			t.Errorf("%+v: %s", d, p.Why)
		}
	}
}
