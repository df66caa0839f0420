package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// collector is the garbage collector.
func (s *scene) collector() Hand { return s.Manager().Account("generic-garbage-collector") }

// aMap is a ConfigMap with owners, whose deletion it blocks.
func aMap(name string, owners ...Object) Object {
	o := &corev1.ConfigMap{ObjectMeta: named(name)}
	for _, owner := range owners {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: ConfigMap, Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: ptr.To(true),
		})
	}
	return o
}

// mirrorOf is an object of another kind with the uid, the namespace and the name of one.
func mirrorOf(o Object) Object {
	mirror := &corev1.Service{ObjectMeta: named(o.GetName())}
	mirror.UID = o.GetUID()
	return mirror
}

func finalizers(names ...string) func(Object) { return func(o Object) { o.SetFinalizers(names) } }

func withoutOwners(o Object) { o.SetOwnerReferences(nil) }

func unblocked(o Object) {
	refs := o.GetOwnerReferences()
	for i := range refs {
		refs[i].BlockOwnerDeletion = nil
	}
}

// doomed is a ConfigMap that a user deletes in such a way that the finalizer is set, and its dependent, a minute after both were made.
func doomed(s *scene, finalizer string) (owner, dependent Object) {
	owner = s.User().Create(aMap("owner"))
	dependent = s.User().Create(aMap("dependent", owner))
	s.Wait(time.Minute)
	return s.User().Terminate(s.User().Edit(owner, finalizers(finalizer))), dependent
}

func TestOnlyGarbageIsCollectedOwnersThatLive(t *testing.T) { // S16
	run(t, OnlyGarbageIsCollected(), []history{
		{name: "the owner exists (GC-33)", write: func(s *scene) {
			s.collector().Delete(s.User().Create(aMap("dependent", s.User().Create(aMap("owner")))))
		}, want: "deleted though its owner ConfigMap/shop/owner"},
		{name: "the owner is gone", write: func(s *scene) {
			owner := s.User().Create(aMap("owner"))
			dependent := s.User().Create(aMap("dependent", owner))
			s.User().Delete(owner)
			s.collector().Delete(dependent)
		}},
		{name: "one of two owners exists, of another kind", write: func(s *scene) {
			set, gone := s.User().Create(aSet(nil, "a", 1)), s.User().Create(aMap("gone"))
			pod := s.User().Create(s.aPod(set))
			pod = s.User().Edit(pod, func(o Object) {
				o.SetOwnerReferences(append(o.GetOwnerReferences(), aMap("x", gone).GetOwnerReferences()...))
			})
			s.User().Delete(gone)
			s.collector().Terminate(pod)
		}, want: "deleted though its owner ReplicaSet/shop/web-a"},
		{name: "somebody else deletes it", write: func(s *scene) {
			dependent := s.User().Create(aMap("dependent", s.User().Create(aMap("owner"))))
			s.User().Delete(dependent)
			set := s.User().Create(aSet(nil, "a", 0))
			s.Manager().Account("replicaset-controller").Delete(s.User().Create(s.aPod(set)))
		}},
		{name: "without accounts the user agent tells who deletes it", write: func(s *scene) {
			dependent := s.User().Create(aMap("dependent", s.User().Create(aMap("owner"))))
			collector := s.Manager()
			collector.Request.UserAgent = "manager/v1 (linux/amd64) kubernetes/$Format/generic-garbage-collector"
			collector.Delete(dependent)
		}, want: "deleted though its owner"},
		{name: "the uid is another one's (GC-54)", write: func(s *scene) {
			dependent := s.User().Create(aMap("dependent", s.User().Create(aMap("owner"))))
			dependent = s.User().Edit(dependent, func(o Object) { o.GetOwnerReferences()[0].UID = "never" })
			s.collector().Delete(dependent)
		}},
		{name: "the name or the kind is another one's (GC-54)", write: func(s *scene) {
			dependent := s.User().Create(aMap("dependent", s.User().Create(aMap("owner"))))
			s.collector().Delete(s.User().Edit(dependent, func(o Object) { o.GetOwnerReferences()[0].Name = "other" }))
			dependent = s.User().Create(aMap("dependent-2", s.User().Create(aMap("owner-2"))))
			s.collector().Delete(s.User().Edit(dependent, func(o Object) { o.GetOwnerReferences()[0].Kind = Service }))
		}},
		{name: "what has the uid of the owner is gone, and the owner exists (GC-27)", write: func(s *scene) {
			owner := s.User().Create(aMap("owner"))
			dependent := s.User().Create(aMap("dependent", owner))
			s.User().Delete(s.User().Create(mirrorOf(owner)))
			s.Wait(time.Minute)
			s.collector().Delete(dependent)
		}, want: "deleted though its owner ConfigMap/shop/owner"},
		{name: "the owner is gone, and what has its uid exists (GC-27)", write: func(s *scene) {
			owner := s.User().Create(aMap("owner"))
			dependent := s.User().Create(aMap("dependent", owner))
			s.User().Create(mirrorOf(owner))
			s.User().Delete(owner)
			s.collector().Delete(dependent)
		}},
		{name: "the owner is in another namespace (GC-53)", write: func(s *scene) {
			dependent := aMap("dependent", s.User().Create(aMap("owner")))
			dependent.SetNamespace("elsewhere")
			s.collector().Delete(s.User().Create(dependent))
		}},
		{name: "the owner has no namespace (GC-53)", write: func(s *scene) {
			dependent := aMap("dependent", s.User().Create(aNode()))
			dependent.GetOwnerReferences()[0].Kind = Node
			s.collector().Delete(s.User().Create(dependent))
		}, want: "deleted though its owner Node//n1"},
		{name: "the owner is of a kind that is not recorded", write: func(s *scene) {
			dependent := aMap("dependent", aMap("job"))
			dependent.GetOwnerReferences()[0].Kind = "Job"
			s.collector().Delete(s.User().Create(dependent))
		}},
		{name: "it is the last of a namespace that ends, and its owner is gone with it", write: func(s *scene) {
			owner := s.User().Create(aMap("owner"))
			dependent := s.User().Create(aMap("dependent", owner))
			s.Manager().Account("namespace-controller").Delete(owner)
			s.collector().Delete(dependent)
		}},
	})
}

// What cannot be seen for a while has not vanished.
func TestOnlyGarbageIsCollectedGroupsThatVanishGC9(t *testing.T) { // S16
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	blind := Options{Outages: []Outage{{Interval: Interval{start, start.Add(time.Hour)}, Resource: "deployments"}}}
	owned := func(s *scene) (d, set Object) {
		d = s.User().Create(aDeployment(0))
		set = s.Manager().Create(aSet(d, "a", 0))
		s.Wait(time.Minute)
		s.collector().Ask("get", "deployments", "web", 404)
		return d, set
	}
	run(t, OnlyGarbageIsCollected(), []history{
		{name: "a ReplicaSet is deleted while Deployments cannot be found", write: func(s *scene) {
			_, set := owned(s)
			s.collector().Delete(set)
		}, options: blind, want: "deleted though its owner Deployment/shop/web"},
		{name: "a ReplicaSet stays until its Deployment is really gone", write: func(s *scene) {
			d, set := owned(s)
			s.User().Delete(d)
			s.Wait(time.Minute)
			s.collector().Delete(set)
		}, options: blind},
	})
}

func TestOnlyGarbageIsCollectedRepetitions(t *testing.T) { // S16
	// orphan is a ConfigMap without an owner that exists, which somebody's finalizer holds.
	orphan := func(s *scene) Object {
		owner := s.User().Create(aMap("owner"))
		dependent := s.User().Edit(s.User().Create(aMap("dependent", owner)), finalizers("example.com/hold"))
		s.User().Delete(owner)
		return dependent
	}
	// again repeats a deletion that changes nothing, as the object is being deleted.
	again := func(s *scene, dependent Object, uid types.UID) {
		h := s.collector().In("shop")
		h.Request.ResponseUID, h.Request.UID = dependent.GetUID(), uid
		h.Ask("delete", "configmaps", dependent.GetName(), 200)
	}
	run(t, OnlyGarbageIsCollected(), []history{
		{name: "deleted twice (GC-28)", write: func(s *scene) {
			dependent := s.collector().Terminate(orphan(s))
			again(s, dependent, dependent.GetUID())
		}, want: "deleted once more"},
		{name: "deleted once, and a finalizer holds it", write: func(s *scene) {
			s.User().Release(s.collector().Terminate(orphan(s)))
		}},
		{name: "refused, and deleted then", write: func(s *scene) {
			dependent := orphan(s)
			h := s.collector().In("shop")
			h.Request.UID = dependent.GetUID()
			h.Ask("delete", "configmaps", dependent.GetName(), 409)
			s.User().Release(s.collector().Terminate(dependent))
		}},
		{name: "deleted though a user has deleted it long ago", write: func(s *scene) {
			dependent := s.User().Terminate(orphan(s))
			s.Wait(time.Minute)
			again(s, dependent, dependent.GetUID())
		}, want: "though it was being deleted already"},
		{name: "deleted at the moment at which a user deletes it", write: func(s *scene) {
			dependent := s.User().Terminate(orphan(s))
			s.Wait(time.Second)
			again(s, dependent, dependent.GetUID())
		}},
		{name: "two objects of one name, one after the other", write: func(s *scene) {
			first := orphan(s)
			s.collector().Delete(first)
			second := aMap("dependent")
			second.SetOwnerReferences(first.GetOwnerReferences())
			s.collector().Delete(s.User().Create(second))
		}},
		{name: "no uid as precondition (GC-39)", write: func(s *scene) {
			h := s.collector()
			dependent := orphan(s)
			h.tick()
			h.commit("delete", Deleted, dependent.DeepCopyObject().(Object))
		}, want: "no uid as precondition"},
		{name: "another uid as precondition (GC-39)", write: func(s *scene) {
			h := s.collector()
			dependent := orphan(s)
			h.tick()
			h.Request.UID = "another"
			h.commit("delete", Deleted, dependent.DeepCopyObject().(Object))
		}, want: "meant uid another"},
	})
}

func TestOnlyGarbageIsCollectedOrphans(t *testing.T) { // S16
	run(t, OnlyGarbageIsCollected(), []history{
		{name: "deleted with an owner that is deleted without it (GC-47)", write: func(s *scene) {
			_, dependent := doomed(s, "orphan")
			s.collector().Delete(dependent)
		}, want: "is being deleted without its dependents"},
		{name: "the owner goes while it is referred to (GC-48)", write: func(s *scene) {
			owner, dependent := doomed(s, "orphan")
			s.collector().Release(owner)
			s.collector().Delete(dependent)
		}, want: "loses the finalizer orphan, though dependents are left: ConfigMap/shop/dependent"},
		{name: "the owner loses one of its finalizers while it is referred to", write: func(s *scene) {
			owner, _ := doomed(s, "orphan")
			owner = s.User().Edit(owner, finalizers("orphan", "example.com/hold"))
			s.collector().Edit(owner, finalizers("example.com/hold"))
		}, want: "loses the finalizer orphan"},
		{name: "the reference goes, then the owner", write: func(s *scene) {
			owner, dependent := doomed(s, "orphan")
			s.collector().Edit(dependent, withoutOwners)
			s.collector().Release(owner)
		}},
		{name: "another finalizer goes", write: func(s *scene) {
			owner, _ := doomed(s, "orphan")
			owner = s.User().Edit(owner, finalizers("orphan", "example.com/hold"))
			s.collector().Edit(owner, finalizers("orphan"))
		}},
		{name: "an orphan is deleted (GC-43)", write: func(s *scene) {
			owner, dependent := doomed(s, "orphan")
			dependent = s.collector().Edit(dependent, withoutOwners)
			s.collector().Release(owner)
			s.collector().Delete(dependent)
		}, want: "no owner that could be gone"},
		{name: "the owner goes just after a dependent was made, which is garbage then (GC-48)", write: func(s *scene) {
			owner, dependent := doomed(s, "orphan")
			late := s.User().Create(aMap("late", owner))
			s.collector().Edit(dependent, withoutOwners)
			s.collector().Release(owner)
			s.collector().Delete(late)
		}},
		{name: "the owner goes long after a dependent was made", write: func(s *scene) {
			owner, dependent := doomed(s, "orphan")
			s.User().Create(aMap("late", owner))
			s.collector().Edit(dependent, withoutOwners)
			s.Wait(time.Minute)
			s.collector().Release(owner)
		}, want: "dependents are left: ConfigMap/shop/late"},
		{name: "the owner goes long after a dependent was made, in an outage", write: func(s *scene) {
			owner, dependent := doomed(s, "orphan")
			s.User().Create(aMap("late", owner))
			s.collector().Edit(dependent, withoutOwners)
			s.Wait(time.Minute)
			s.collector().Release(owner)
		}, options: Options{Outages: []Outage{{
			Interval: Interval{time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 2, 0, 0, time.UTC)},
			Resource: "configmaps",
		}}}},
		{name: "the owner goes as a user has taken its finalizer, and so does the dependent", write: func(s *scene) {
			owner, dependent := doomed(s, "orphan")
			s.User().Release(owner)
			s.collector().Delete(dependent)
		}},
	})
}

func TestOnlyGarbageIsCollectedForegroundGC44(t *testing.T) { // S16
	run(t, OnlyGarbageIsCollected(), []history{
		{name: "the owner goes before a dependent that blocks it", write: func(s *scene) {
			owner, _ := doomed(s, "foregroundDeletion")
			s.collector().Release(owner)
		}, want: "loses the finalizer foregroundDeletion, though dependents are left: ConfigMap/shop/dependent"},
		{name: "the owner goes while a dependent that blocks it has not ended", write: func(s *scene) {
			owner, dependent := doomed(s, "foregroundDeletion")
			s.collector().Terminate(s.User().Edit(dependent, finalizers("example.com/hold")))
			s.collector().Release(owner)
		}, want: "loses the finalizer foregroundDeletion"},
		{name: "the dependent goes, then the owner", write: func(s *scene) {
			owner, dependent := doomed(s, "foregroundDeletion")
			s.collector().Delete(dependent)
			s.collector().Release(owner)
		}},
		{name: "a dependent does not block the owner, and goes after it", write: func(s *scene) {
			owner, dependent := doomed(s, "foregroundDeletion")
			dependent = s.collector().Edit(dependent, unblocked)
			s.collector().Release(owner)
			s.collector().Delete(dependent)
		}},
		{name: "a dependent blocks the owner since a moment ago", write: func(s *scene) {
			owner, dependent := doomed(s, "foregroundDeletion")
			before := dependent.GetOwnerReferences()
			dependent = s.User().Edit(dependent, unblocked)
			s.User().Edit(dependent, func(o Object) { o.SetOwnerReferences(before) })
			s.collector().Release(owner)
		}},
		{name: "an owner that refers to itself does not wait for itself", write: func(s *scene) {
			owner := s.User().Create(aMap("owner"))
			owner = s.User().Edit(owner, func(o Object) { o.SetOwnerReferences(aMap("x", owner).GetOwnerReferences()) })
			s.Wait(time.Minute)
			s.collector().Release(s.User().Terminate(s.User().Edit(owner, finalizers("foregroundDeletion"))))
		}},
		{name: "the owner waited until long ago, and stays", write: func(s *scene) {
			owner, dependent := doomed(s, "foregroundDeletion")
			s.User().Edit(owner, finalizers("example.com/hold"))
			s.Wait(time.Minute)
			s.collector().Delete(dependent)
		}, want: "deleted though its owner"},
		{name: "the owner waited until a moment ago, and stays", write: func(s *scene) {
			owner, dependent := doomed(s, "foregroundDeletion")
			s.User().Edit(owner, finalizers("example.com/hold"))
			s.Wait(time.Second)
			s.collector().Delete(dependent)
		}},
	})
}

// Without requests nobody knows what was the garbage collector's.
func TestOnlyGarbageIsCollectedWithoutRequests(t *testing.T) { // S16
	s := newScene()
	s.collector().Delete(s.User().Create(aMap("dependent", s.User().Create(aMap("owner")))))
	s.Requests = nil
	if found, counts := CheckAndCount(&s.History, Options{}, OnlyGarbageIsCollected()); len(found) > 0 || counts["S16"].Judged > 0 {
		t.Errorf("found %v, counted %v", found, counts)
	}
}

// Where no times are known, everything has happened a moment ago.
func TestOnlyGarbageIsCollectedWithoutTimes(t *testing.T) { // S16
	s := newScene()
	owner, dependent := doomed(s, "foregroundDeletion")
	s.User().Terminate(dependent)
	h := s.collector().In("shop")
	h.Request.ResponseUID, h.Request.UID = dependent.GetUID(), dependent.GetUID()
	h.Ask("delete", "configmaps", dependent.GetName(), 200)
	s.collector().Release(owner)
	for i := range s.Revisions {
		s.Revisions[i].When = time.Time{}
	}
	for _, v := range judged(t, OnlyGarbageIsCollected(), &s.History, Options{}) {
		t.Error(v)
	}
}
