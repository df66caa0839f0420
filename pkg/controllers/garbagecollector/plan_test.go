package garbagecollector

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name    string
		item    string // "web" unless set
		world   func(w *world)
		want    []string
		enqueue []string
		why     string
	}{
		{"GC-28 what is being deleted needs no second deletion", "",
			func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "gone"), deleted("x"))) },
			nil, nil, "is being deleted"},
		{"GC-43 an object without owners stays", "", func(w *world) { w.see(podKind, object("web")) }, nil, nil, ""},
		{"GC-36 an object whose owner exists needs no write", "",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set")))
			}, nil, nil, ""},
		{"GC-54 also when it names another version of the API", "",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", func(o *metav1.PartialObjectMetadata) {
					o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1beta2", Kind: "ReplicaSet", Name: "set", UID: "set"}}
				}))
			}, nil, nil, ""},
		{"GC-36 references to what is gone are removed from what has another owner", "",
			func(w *world) {
				w.see(setKind, object("set"), object("old"))
				w.see(podKind, object("web", ownedBy(setKind, "set", "old")))
				w.forget("old", true)
			}, []string{"web finalizers=[] owners=[set]"}, nil, "an owner exists"},
		{"GC-18, GC-36 but not one to the uid of the owner itself", "",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set"), ownedBy(widgetKind, "set")))
				w.verify("set", notFound)
			}, nil, nil, ""},
		{"GC-36 and those to what waits for its dependents", "",
			func(w *world) {
				w.see(setKind, object("set"), object("old", deleted(foreground)))
				w.see(podKind, object("web", blocking(setKind, "old", "set")))
			}, []string{"web finalizers=[] owners=[set!]"}, nil, ""},
		{"GC-38, GC-39 without an owner it is deleted in the background, in the version that was seen", "",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set"), version("7")))
				w.forget("set", true)
			}, []string{"delete web@7 Background version=true"}, nil, "no owner is left"},
		{"GC-38 the finalizer orphan is kept", "",
			func(w *world) {
				w.see(podKind, object("web", ownedBy(setKind, "set"), finalizers(orphan, foreground)))
				w.verify("set", notFound)
			}, []string{"delete web@1 Orphan version=true"}, nil, ""},
		{"GC-38 the finalizer foregroundDeletion is kept", "",
			func(w *world) {
				w.see(podKind, object("web", ownedBy(setKind, "set"), finalizers(foreground)))
				w.verify("set", notFound)
			}, []string{"delete web@1 Foreground version=true"}, nil, ""},
		{"GC-30 an owner that a list has not shown any more is not known to be gone", "",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set")))
				w.forget("set", false)
			}, nil, nil, "waits until it is known whether the owner ReplicaSet set"},
		{"GC-30 an owner that is seen again, as after etcd was restored, exists", "",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set")))
				w.forget("set", true)
				w.see(setKind, object("set"))
			}, nil, nil, ""},
		{"GC-30 so does one that is seen again when it had no dependents", "",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set")))
				w.forget("set", true)
				w.forget("web", true)
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set")))
			}, nil, nil, ""},
		{"GC-20 one that the server has, though no watch has shown it, exists", "",
			func(w *world) {
				w.see(podKind, object("web", ownedBy(setKind, "set")))
				w.verify("set", present)
			}, nil, nil, ""},
		{"GC-34 an object is not deleted whose owner is of an unknown kind", "",
			func(w *world) {
				w.see(podKind, object("web", ownedBy(widgetKind, "strange"), ownedBy(setKind, "set")))
				w.verify("strange", unresolvable)
				w.verify("set", notFound)
			}, nil, nil, "stays: the owner Widget strange"},
		{"GC-35 a cluster-scoped object with a namespaced owner is never deleted, even if that was seen to go", "",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(nodeKind, object("web", namespace(""), ownedBy(setKind, "set")))
				w.forget("set", true)
				w.verify("set", unresolvable)
			}, nil, nil, "stays"},
		{"GC-53 an owner in another namespace does not count", "",
			func(w *world) {
				w.see(setKind, object("set", namespace("other")))
				w.see(podKind, object("web", ownedBy(setKind, "set")))
				w.verify("set", notFound)
			}, []string{"delete web@1 Background version=true"}, nil, ""},
		{"GC-53 one without a namespace may be referred to from anywhere", "",
			func(w *world) {
				w.see(nodeKind, object("node", namespace("")))
				w.see(podKind, object("web", ownedBy(nodeKind, "node")))
			}, nil, nil, ""},
		{"GC-54 neither does one of another name or kind", "",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", func(o *metav1.PartialObjectMetadata) {
					o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "other", UID: "set"}}
				}))
				w.verify("set", notFound)
			}, []string{"delete web@1 Background version=true"}, nil, ""},
		{"GC-37 what has dependents is deleted in the foreground, because its owner waits", "",
			func(w *world) {
				w.see(setKind, object("set", deleted(foreground)))
				w.see(widgetKind, object("web", blocking(setKind, "set")))
				w.see(podKind, object("pod", ownedBy(widgetKind, "web")))
			}, []string{"delete web@1 Foreground version=true"}, nil, "waits for that"},
		{"GC-37 what has none in the background", "",
			func(w *world) {
				w.see(setKind, object("set", deleted(foreground)))
				w.see(podKind, object("web", blocking(setKind, "set")))
			}, []string{"delete web@1 Background version=true"}, nil, ""},
		{"GC-37 in what may be a cycle it first ceases to block its owners", "",
			func(w *world) {
				w.see(setKind, object("set", blocking(widgetKind, "web"), deleted(foreground)))
				w.see(widgetKind, object("web", blocking(setKind, "set")))
			}, []string{"web finalizers=[] owners=[set]"}, nil, "may wait for one another"},
		{"GC-37 and is deleted then", "",
			func(w *world) {
				w.see(setKind, object("set", blocking(widgetKind, "web"), deleted(foreground)))
				w.see(widgetKind, object("web", ownedBy(setKind, "set")))
			}, []string{"delete web@1 Foreground version=true"}, nil, ""},
		{"GC-44, GC-59, GC-60 an owner is released when nothing blocks it, although it has dependents", "",
			func(w *world) {
				w.see(setKind, object("web", deleted("x", foreground)))
				w.see(podKind, object("pod", ownedBy(setKind, "web")))
			}, []string{"web finalizers=[x] owners=[]"}, nil, "none of its dependents blocks"},
		{"GC-44 not by itself", "",
			func(w *world) { w.see(setKind, object("web", blocking(setKind, "web"), deleted(foreground))) },
			[]string{"web finalizers=[] owners=[web!]"}, nil, ""},
		{"GC-45, GC-60 until then its dependents are to be deleted, but those that wait themselves or are being deleted", "",
			func(w *world) {
				w.see(setKind, object("web", deleted(foreground)))
				w.see(podKind, object("a", blocking(setKind, "web")), object("b", blocking(setKind, "web"), deleted(foreground)),
					object("c", blocking(setKind, "web"), deleted("x")))
			}, nil, []string{"a"}, "waits for 3 dependents that block its deletion: Pod a, Pod b, Pod c"},
		{"GC-15 it is not released before all kinds were listed", "",
			func(w *world) {
				w.complete = false
				w.see(setKind, object("web", deleted(foreground)))
			}, nil, nil, "all kinds"},
		{"GC-44 nor while a kind is listed that has appeared", "",
			func(w *world) {
				w.listing.Insert(schema.GroupVersionResource{Resource: "widgets"})
				w.see(setKind, object("web", deleted(foreground)))
			}, nil, nil, "all kinds"},
		{"GC-45 its dependents are to be deleted meanwhile", "",
			func(w *world) {
				w.listing.Insert(schema.GroupVersionResource{Resource: "widgets"})
				w.see(setKind, object("web", deleted(foreground)))
				w.see(podKind, object("a", blocking(setKind, "web")))
			}, nil, []string{"a"}, "waits for 1 dependents"},
		{"GC-15 nor is a dependent deleted that may have dependents itself", "",
			func(w *world) {
				w.complete = false
				w.see(setKind, object("set", deleted(foreground)))
				w.see(podKind, object("web", blocking(setKind, "set")))
			}, nil, nil, "all kinds"},
		{"GC-15 what has no owner for certain is deleted all the same", "",
			func(w *world) {
				w.complete = false
				w.see(podKind, object("web", ownedBy(setKind, "set")))
				w.verify("set", notFound)
			}, []string{"delete web@1 Background version=true"}, nil, ""},
		{"GC-47, GC-48 dependents lose the reference before the owner is released", "orphan:web",
			func(w *world) {
				w.see(setKind, object("web", deleted("x", orphan, foreground)))
				w.see(podKind, object("a", blocking(setKind, "web", "other")), object("b", ownedBy(setKind, "web")))
			}, []string{"a finalizers=[] owners=[other!]", "b finalizers=[] owners=[]", "web finalizers=[x foregroundDeletion] owners=[]"},
			nil, "orphaned"},
		{"GC-47 one without dependents is released", "orphan:web",
			func(w *world) { w.see(setKind, object("web", deleted(orphan))) }, []string{"web finalizers=[] owners=[]"}, nil, ""},
		{"GC-15 not before all kinds were listed", "orphan:web",
			func(w *world) {
				w.complete = false
				w.see(setKind, object("web", deleted(orphan)))
			}, nil, nil, "all kinds"},
		{"GC-25 while they are orphaned, foreground deletion waits", "",
			func(w *world) { w.see(setKind, object("web", deleted(orphan, foreground))) }, nil, nil, "is being deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.world(w)
			d := decision{}
			if c.item == "" {
				d = w.decide(now, w.nodes["web"])
			} else {
				d = w.decideOrphan(w.nodes["web"])
			}
			if diff := cmp.Diff(c.want, steps(d.Steps)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			var enqueued []string
			for _, n := range d.enqueue {
				enqueued = append(enqueued, n.name)
			}
			if diff := cmp.Diff(c.enqueue, enqueued); diff != "" {
				t.Errorf("enqueued (-want +got):\n%s", diff)
			}
			if !strings.Contains(d.Why, c.why) {
				t.Errorf("why: %s", d.Why)
			}
		})
	}
}

// GC-40: a deletion that was refused is repeated with the version that the watch shows later, and not before. If none comes, the
// object is read live.
func TestDeletionIsRepeatedWithANewerVersion(t *testing.T) {
	w := newWorld()
	w.see(podKind, object("web", ownedBy(setKind, "set")))
	w.verify("set", notFound)
	n := w.nodes["web"]
	n.attempt = &attempt{version: "1", at: now}
	w.queued()
	if d := w.decide(now.Add(time.Second), n); !d.Empty() || d.read || d.Requeue != attemptLasts-time.Second {
		t.Errorf("a second after: %+v", d)
	}
	if d := w.decide(now.Add(attemptLasts), n); !d.Empty() || !d.read {
		t.Errorf("5 seconds after: %+v", d)
	}
	w.see(podKind, object("web", ownedBy(setKind, "set"), version("2")))
	if got := w.queued(); got != "web" {
		t.Errorf("queued: %q", got)
	}
	if diff := cmp.Diff([]string{"delete web@2 Background version=true"}, steps(w.decide(now, n).Steps)); diff != "" {
		t.Error(diff)
	}
	w.see(podKind, object("web", blocking(setKind, "set"), ownedBy(widgetKind, "new"), version("3")))
	if d := w.decide(now, n); !d.Empty() { // GC-39
		t.Errorf("an owner was added: %+v", steps(d.Steps))
	}
}

// What is due waits for proof that owners are gone, if some is missing. What is being deleted already does not, nor what there is
// nothing to do about.
func TestPlansAreHeld(t *testing.T) {
	w := newWorld()
	w.see(podKind, object("web", ownedBy(setKind, "set")), object("idle"))
	w.see(setKind, object("waits", deleted(foreground)))
	w.verify("set", notFound)
	for name, want := range map[types.UID]decision{"web": {due: true, held: true}, "idle": {}, "waits": {}} {
		s := w.snapshotOf(w.nodes[name])
		if d, _ := planObject(now, s); d.held || d.due != want.due || (d.attempt != nil) != want.due {
			t.Errorf("%s: %+v", name, d)
		}
		s.held, s.again = "nobody knows", time.Minute
		d, p := planObject(now, s)
		if d.due != want.due || d.held != want.held || d.attempt != nil || p.Empty() != (name != "waits") {
			t.Errorf("%s is not held: %+v", name, d)
		}
		if d.held && (p.Why != "waits: nobody knows" || p.Requeue != time.Minute) {
			t.Errorf("%s: planned %+v", name, p)
		}
	}
}

// GC-30: what the server does not have any more, by its answer to a write, is read live before anything else, in the resource in which
// it was seen.
func TestAbsentObjectsAreRead(t *testing.T) {
	w := newWorld()
	w.see(podKind, object("web", deleted(orphan)))
	n := w.nodes["web"]
	n.absent = true
	want := []plan.Ref{{Kind: podKind.GroupVersionKind, Resource: "pods", Namespace: "shop", Name: "web", Metadata: true}}
	for _, decide := range []func(time.Time, snapshot) (decision, plan.Plan){planObject, planOrphan} {
		if d, p := decide(now, w.snapshotOf(n)); !d.read || !p.Empty() || !slices.Equal(p.Proof, want) {
			t.Errorf("planned %+v", p)
		}
	}
}
