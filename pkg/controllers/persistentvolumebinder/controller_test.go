package persistentvolumebinder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// cluster is a server in virtual time, before which the controller runs.
type cluster struct {
	*testing.T
	*clienttest.Server
	context manager.Context
}

// run runs the controller in virtual time, for each term as the leader anew.
func run(t *testing.T, o Options, terms ...func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{T: t, Server: clienttest.NewServer()}
		var held []brake.Hold // as the lease tells the next leader
		for _, test := range terms {
			entry := New(o)
			c.context = managertest.Context(t, c.Server, entry,
				managertest.Cache{Example: &corev1.PersistentVolumeClaim{}}, managertest.Cache{Example: &corev1.PersistentVolume{}},
				managertest.Cache{Example: &storagev1.StorageClass{}},
				managertest.Cache{Example: &corev1.Pod{}}, managertest.Cache{Example: &storagev1.CSIDriver{}},
				managertest.Cache{Example: &storagev1.CSINode{}})
			c.context.Brake.Inherit(time.Now(), held)
			managertest.Run(t, c.context, entry, func() {
				test(c)
				held = c.context.Brake.Noted(time.Now())
			})
		}
	})
}

func (c *cluster) put(objects ...plan.Object) {
	c.Helper()
	for _, o := range objects {
		if _, err := c.Put(o); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cluster) claim(name string) *corev1.PersistentVolumeClaim {
	c.Helper()
	found := &corev1.PersistentVolumeClaim{}
	if err := c.Get(c.Context(), client.MappingFor[*corev1.PersistentVolumeClaim](), plan.Key{Namespace: "shop", Name: name},
		found); err != nil {
		c.Fatal(err)
	}
	return found
}

func (c *cluster) volume(name string) *corev1.PersistentVolume {
	c.Helper()
	found := &corev1.PersistentVolume{}
	if err := c.Get(c.Context(), client.MappingFor[*corev1.PersistentVolume](), plan.Key{Name: name}, found); err != nil {
		c.Fatal(err)
	}
	return found
}

func (c *cluster) remove(name string) {
	c.Helper()
	if err := c.Delete(c.Context(), client.MappingFor[*corev1.PersistentVolumeClaim](), plan.Key{Namespace: "shop", Name: name},
		metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
}

// pair checks that a claim and a volume are bound.
func (c *cluster) pair(name, volume string) {
	c.Helper()
	claim, v := c.claim(name), c.volume(volume)
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != volume || v.Status.Phase != corev1.VolumeBound ||
		v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != claim.UID {
		c.Errorf("%s is %s to %q, %s is %s for %s: %v", name, claim.Status.Phase, claim.Spec.VolumeName, volume, v.Status.Phase,
			reference(v), c.Log())
	}
}

func (c *cluster) phases(want string) {
	c.Helper()
	var all []string
	for _, name := range c.Names(client.KindFor[*corev1.PersistentVolume]()) {
		all = append(all, fmt.Sprintf("%s %s", name, c.volume(name).Status.Phase))
	}
	if got := strings.Join(all, ", "); got != want {
		c.Errorf("%s, want %s: %v", got, want, c.Log())
	}
}

// A claim is bound in four writes, and what follows from them leads to none.
func TestPV34FourWrites(t *testing.T) {
	run(t, Options{}, func(c *cluster) {
		c.put(volume("v", ""))
		clienttest.Settle()
		c.put(claim("data", ""))
		clienttest.Settle()
		c.pair("data", "v")
		want := "update PersistentVolume v, update PersistentVolume v, update PersistentVolumeClaim data, update PersistentVolumeClaim data"
		if got := strings.Join(c.Log(), ", "); got != want {
			t.Errorf("%s", got)
		}
	})
}

// 500 claims and 500 volumes that are reserved for them are bound without a conflict, in four writes each at most.
func TestPreboundPairs(t *testing.T) { // PV-70
	run(t, Options{}, func(c *cluster) {
		const n = 500
		for i := range n {
			name := fmt.Sprint("c-", i)
			v := volume(fmt.Sprint("v-", i), "for="+name)
			c.put(v, claim(name, "volume="+v.Name))
		}
		time.Sleep(time.Second)
		for i := range n {
			c.pair(fmt.Sprint("c-", i), fmt.Sprint("v-", i))
		}
		if w, refused := c.CountWrites(""), c.CountWrites("refused"); w > 4*n || refused > 0 {
			t.Errorf("%d writes, %d refused", w, refused)
		}
	})
}

// Claims that compete for the same volumes get one each, without a conflict, and those for which none is left wait.
func TestCompetingClaims(t *testing.T) { // PV-80
	run(t, Options{}, func(c *cluster) {
		const n = 60
		for i := range n {
			c.put(volume(fmt.Sprint("v-", i), ""))
		}
		for i := range n + 20 {
			c.put(claim(fmt.Sprint("c-", i), ""))
		}
		time.Sleep(10 * time.Second)
		bound := 0
		for i := range n + 20 {
			if c.claim(fmt.Sprint("c-", i)).Status.Phase == corev1.ClaimBound {
				bound++
			}
		}
		if refused := c.CountWrites("refused"); bound != n || refused > 0 {
			t.Errorf("%d claims are bound, %d writes were refused", bound, refused)
		}
		c.put(volume("late", ""))
		clienttest.Settle()
		if v := c.volume("late"); v.Status.Phase != corev1.VolumeBound {
			t.Errorf("PV-71: nobody notices the free volume: %s", v.Status.Phase)
		}
	})
}

// What the process has written counts at once, whatever the caches show: nobody plans from a state before that.
func TestPV14OwnWritesCountAtOnce(t *testing.T) {
	volumes := client.KindFor[*corev1.PersistentVolume]()
	run(t, Options{}, func(c *cluster) {
		c.put(volume("v", ""))
		clienttest.Settle()
		c.FreezeWatches(volumes)
		c.put(claim("first", ""))
		time.Sleep(time.Second)
		c.put(claim("second", ""))
		time.Sleep(10 * time.Second)
		c.ResumeWatches(volumes)
		clienttest.Settle()
		c.pair("first", "v")
		if w, refused := c.CountWrites(""), c.CountWrites("refused"); w != 4 || refused > 0 {
			t.Errorf("%d writes, %d refused: %v", w, refused, c.Log())
		}
	})
}

// A driver is asked, makes the volume, and the claim is bound: one write to ask, three to bind.
func TestPV10DynamicProvisioning(t *testing.T) { // PV-9, PV-43, PV-44
	run(t, Options{}, func(c *cluster) {
		c.put(class("fast", "d"), claim("data", ""))
		clienttest.Settle()
		asked := c.claim("data")
		if asked.Annotations[provisioner] != "d" || asked.Annotations[betaProvisioner] != "d" {
			t.Fatalf("%v", asked.Annotations)
		}
		v := volume("pvc-1", "phase=Pending by=d csi policy=Delete of=data")
		v.Spec.ClaimRef.UID = asked.UID
		c.put(v)
		clienttest.Settle()
		c.pair("data", "pvc-1")
		if got := strings.Join(c.Log(),
			", "); got != "update PersistentVolumeClaim data, update PersistentVolume pvc-1, update PersistentVolumeClaim data, update "+
			"PersistentVolumeClaim data" {
			t.Errorf("%s", got)
		}
		c.remove("data")
		clienttest.Settle()
		c.phases("pvc-1 Released") // PV-52: the driver deletes it
	})
}

func TestStaticProvisioningAlone(t *testing.T) { // PV-2
	run(t, Options{Static: true}, func(c *cluster) {
		c.put(class("fast", "d"), claim("data", ""))
		clienttest.Settle()
		if len(c.Log()) > 0 {
			t.Errorf("%v", c.Log())
		}
	})
}

// What claims wait for wakes them: a class, a default class, a pod and its node, a volume that they name, that is resized or relabelled.
func TestPV71WhatClaimsWaitFor(t *testing.T) {
	for name, step := range map[string]struct {
		claim string
		with  []plan.Object
		then  plan.Object
		done  func(*corev1.PersistentVolumeClaim) bool
	}{
		"PV-40 its class": {"", nil, class("fast", "d"), asks},
		"PV-16 the default class": {"noclass", nil, class("std", "d", "default"),
			func(c *corev1.PersistentVolumeClaim) bool { return asks(c) && *c.Spec.StorageClassName == "std" }},
		"PV-16 a class that becomes": {"noclass", []plan.Object{class("std", "d")}, class("std", "d", "default"), asks},
		"PV-20 the volume it names":  {"volume=v", nil, volume("v", ""), bound},
		"PV-33 a larger volume":      {"volume=v 5Gi", []plan.Object{volume("v", "")}, volume("v", "9Gi"), bound},
		"PV-31 labels of a volume":   {"selects=red", []plan.Object{volume("v", "")}, volume("v", "color=red"), bound},
		"PV-30 a reservation":        {"class=x", []plan.Object{volume("v", "")}, volume("v", "for=data"), bound},
		"PV-8 a node":                {"", []plan.Object{class("fast", "d", "wait")}, claim("data", "selected"), asks},
		"PV-25 the volume is back":   {"volume=v complete phase=Bound has=2Gi", nil, volume("v", "of=data"), bound},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{}, func(c *cluster) {
				c.put(step.with...)
				c.put(claim("data", step.claim))
				clienttest.Settle()
				if now := c.claim("data"); step.done(now) && now.Status.Phase != corev1.ClaimLost {
					t.Fatalf("before: %+v", now)
				}
				c.put(step.then)
				time.Sleep(100 * time.Millisecond)
				if now := c.claim("data"); !step.done(now) {
					t.Errorf("%+v, %v", now, c.Log())
				}
			})
		})
	}
}

func asks(c *corev1.PersistentVolumeClaim) bool  { return c.Annotations[provisioner] == "d" }
func bound(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound }

// Pods that use a claim, and go to nodes, say what it waits for.
func TestPV17PodsThatAreWaitedFor(t *testing.T) {
	k := emptyCaches(t)
	k.show(class("fast", "d", "wait"))
	k.show(claim("data", ""))
	p := func(name, node string, edits ...func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
			Spec: corev1.PodSpec{NodeName: node,
				Volumes: []corev1.Volume{{Name: "d",
					VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
		for _, e := range edits {
			e(pod)
		}
		return pod
	}
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	for _, pod := range []*corev1.Pod{p("web", ""), p("db", ""), p("placed", "n"), p("leaving", "", leaving), p("over", "", finished)} {
		k.show(pod)
	}
	if got := strings.Join(k.unscheduled(claim("data", "")), " "); got != "db web" {
		t.Errorf("%q", got)
	}
	key := plan.Key{Namespace: "shop", Name: "data"}
	for _, row := range []struct {
		name          string
		before, after plan.Object
		wakes         bool
	}{
		{"it comes", nil, p("web", ""), true}, {"it goes", p("web", ""), nil, true}, {"it is placed", p("web", ""), p("web", "n"), true},
		{"it comes with a node", nil, p("web", "n"), false}, {"it changes", p("web", ""), p("web", ""), false},
		{"it is over", p("web", ""), p("web", "", finished), true},
	} {
		if got := k.claimsByPod(row.before, row.after); len(got) == 1 && got[0] == key != row.wakes || len(got) > 0 != row.wakes {
			t.Errorf("%s: %v", row.name, got)
		}
	}
	k.show(claim("data", "volume=v"))
	if got := k.claimsByPod(nil, p("web", "")); got != nil {
		t.Errorf("a claim that names a volume is woken: %v", got)
	}
}

// A volume whose claim has gone is Released, is not used again under Retain, and is Available when an administrator frees it.
func TestPV51LifeOfAVolume(t *testing.T) {
	run(t, Options{}, func(c *cluster) {
		c.put(volume("v", ""), claim("data", ""))
		clienttest.Settle()
		c.remove("data")
		clienttest.Settle()
		c.phases("v Released")
		c.put(claim("data", "uid=another"))
		clienttest.Settle()
		c.phases("v Released")
		v := c.volume("v")
		v.Spec.ClaimRef = nil
		c.put(v)
		clienttest.Settle()
		c.pair("data", "v")
	})
}

// A claim is deleted while the controller writes its phase, or that of its volume, and the watch tells of the deletion first: the
// volume is Released.
func TestMEND24AClaimGoesWhileItIsBound(t *testing.T) {
	for n := range 4 {
		run(t, Options{}, func(c *cluster) {
			var writes atomic.Int64
			c.AfterWrite(func(clienttest.Write) error {
				if writes.Add(1) == int64(n+1) {
					c.remove("data")
					time.Sleep(time.Second) // the answer takes longer than the watch
				}
				return nil
			})
			c.put(volume("v", ""), claim("data", ""))
			clienttest.Settle()
			if phase := c.volume("v").Status.Phase; n > 0 && phase != corev1.VolumeReleased || phase == corev1.VolumeBound {
				t.Errorf("after %d writes it was %s: %v", n+1, phase, c.Log())
			}
		})
	}
}

// While the cache does not show a claim, its volume stays; so it does while the claim cannot be read.
func TestPV37LiveRead(t *testing.T) {
	claims := client.KindFor[*corev1.PersistentVolumeClaim]()
	run(t, Options{}, func(c *cluster) {
		c.FreezeWatches(claims)
		c.put(claim("data", ""), volume("v", "of=data phase=Bound"))
		clienttest.Settle()
		c.phases("v Bound")
		c.ResumeWatches(claims)
		clienttest.Settle()
		c.pair("data", "v")
	})
}

// A claim is not Lost while the cache of volumes lags behind its own.
func TestPV82LostIsReadLive(t *testing.T) {
	volumes := client.KindFor[*corev1.PersistentVolume]()
	run(t, Options{}, func(c *cluster) {
		c.FreezeWatches(volumes)
		c.put(volume("v", "of=data phase=Bound"), claim("data", "volume=v complete phase=Bound has=2Gi"))
		clienttest.Settle()
		if now := c.claim("data"); now.Status.Phase != corev1.ClaimBound {
			t.Errorf("%s", now.Status.Phase)
		}
		c.ResumeWatches(volumes)
		clienttest.Settle()
		c.pair("data", "v")
	})
}

// Each of the writes fails, or its answer is lost; the next leader goes on.
func TestEachWriteFailsOnce(t *testing.T) { // PV-34
	for write := range 4 {
		for _, lost := range []bool{false, true} {
			n := 0
			hit := func(clienttest.Write) error {
				if n++; n == write+1 {
					return context.DeadlineExceeded
				}
				return nil
			}
			run(t, Options{}, func(c *cluster) {
				if c.BeforeWrite(hit); lost {
					c.BeforeWrite(nil)
					c.AfterWrite(hit)
				}
				c.put(volume("v", ""), claim("data", ""))
				time.Sleep(time.Millisecond)
			}, func(c *cluster) {
				clienttest.Settle()
				c.pair("data", "v")
				if w := c.CountWrites("update"); w > 4 {
					t.Errorf("write %d, lost %t: %d writes: %v", write, lost, w, c.Log())
				}
			})
		}
	}
}

// After claims were restored under new uids, their volumes are held, which is said; an operator lets them go, or the time does. What is
// held stays so when others are repaired or made, when its new claim goes, when another process leads, and until the time is over. The
// claims of one tenant, or those of one driver, may have been restored alone: they are few of all. Volumes and claims are restored from
// a backup while the controller runs: volumes come one after the other, as new ones. A volume that an administrator frees while the
// cache shows its claim still becomes Available when the cache shows that the claim has gone, and is not bound to that again.
func TestFreedWhileTheClaimIsThought(t *testing.T) { // PV-51
	claims := client.KindFor[*corev1.PersistentVolumeClaim]()
	run(t, Options{}, func(c *cluster) {
		c.put(volume("v", "of=data phase=Bound"), claim("data", "volume=v complete phase=Bound has=2Gi"))
		clienttest.Settle()
		c.FreezeWatches(claims)
		c.remove("data")
		v := c.volume("v")
		v.Spec.ClaimRef = nil
		c.put(v)
		time.Sleep(time.Minute)
		if ref := c.volume("v").Spec.ClaimRef; ref != nil {
			t.Errorf("it is bound again to %s", ref.UID)
		}
		c.ResumeWatches(claims)
		clienttest.Settle()
		c.phases("v Available")
	})
}

// A class that the cache does not have yet may say that its volumes are chosen when a pod is scheduled.
func TestClassesAreReadLive(t *testing.T) { // PV-32, PV-82
	classes := client.KindFor[*storagev1.StorageClass]()
	run(t, Options{}, func(c *cluster) {
		c.put(volume("v", "class=local"), volume("w", "class=none"))
		clienttest.Settle()
		c.FreezeWatches(classes)
		c.put(class("local", noProvisioner, "wait"), claim("data", "class=local"), claim("plain", "class=none"))
		clienttest.Settle()
		c.phases("v Available, w Bound")
		c.ResumeWatches(classes)
		clienttest.Settle()
		c.phases("v Available, w Bound")
	})
}

// A watch that shows that claims are replaced is proof enough, however many they are.
// What the API server refuses is tried again without an end.
func TestRefusedWritesAreRetried(t *testing.T) {
	run(t, Options{}, func(c *cluster) {
		c.BeforeWrite(clienttest.RefuseFirst(20, apierrors.NewInternalError(errors.New("no"))))
		c.put(volume("v", ""), claim("data", ""))
		clienttest.Settle()
		c.pair("data", "v")
	})
}

func TestPV59Entry(t *testing.T) {
	e := New(Options{})
	if e.Name != "persistentvolume-binder-controller" || e.Alias != "persistentvolume-binder" || e.Account != "persistent-volume-binder" ||
		e.EventSource != "persistentvolume-controller" || e.OffByDefault || e.Beside {
		t.Errorf("%+v", e)
	}
	for _, rule := range Rights().Own { // PV-64
		for _, verb := range rule.Verbs {
			if verb == "patch" && rule.Resource != "events" {
				t.Errorf("patch of %s", rule.Resource)
			}
		}
	}
}

// As many volumes are made as claims wait, which are many: all are bound.
