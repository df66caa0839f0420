package garbagecollector

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestGraph(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(w *world)
		then   func(w *world)
		want   string
	}{
		{"GC-65 what changes neither owners, finalizers nor deletion queues nothing",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set"), finalizers("x")))
			},
			func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "set"), finalizers("x"), version("2"))) }, ""},
		{"an older version changes nothing",
			func(w *world) { w.see(podKind, object("web", version("2"))) },
			func(w *world) { w.see(podKind, object("web", deleted(foreground))) }, ""},
		{"GC-19 an unknown owner is verified", func(*world) {},
			func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "set"))) }, "verify:shop/set"},
		{"GC-71 once, for all of its dependents", func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "set"))) },
			func(w *world) {
				w.see(podKind, object("b", ownedBy(setKind, "set")), object("c", ownedBy(setKind, "set")))
			}, ""},
		{"GC-22 each variant of it for itself", func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "set"))) },
			func(w *world) {
				w.see(podKind, object("b", namespace("other"), ownedBy(setKind, "set")), object("c", func(o *metav1.PartialObjectMetadata) {
					o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "set"}}
				}))
			}, "verify:other/set verify:shop/x"},
		{"GC-53 one of a kind without namespaces once for all namespaces",
			func(w *world) { w.see(podKind, object("web", ownedBy(nodeKind, "node"))) },
			func(w *world) { w.see(podKind, object("b", namespace("other"), ownedBy(nodeKind, "node"))) }, ""},
		{"GC-22 if it is absent, those that name it are decided about, and no others",
			func(w *world) {
				w.see(podKind, object("web", ownedBy(setKind, "set")), object("b", ownedBy(setKind, "set")),
					object("c", namespace("other"), ownedBy(setKind, "set")))
			},
			func(w *world) {
				w.add(w.verified(statedOwner{"apps/v1", "ReplicaSet", "shop", "set", "set"}, notFound))
			}, "b web"},
		{"GC-27 what is absent is remembered",
			func(w *world) {
				w.see(podKind, object("web", ownedBy(setKind, "set")))
				w.verify("set", notFound)
			},
			func(w *world) { w.see(podKind, object("b", ownedBy(setKind, "set"))) }, "b"},
		{"GC-27, GC-71 also when it has had no dependents in between",
			func(w *world) {
				w.see(podKind, object("web", ownedBy(setKind, "set")))
				w.verify("set", notFound)
				w.add(w.forget("web", true))
			},
			func(w *world) { w.see(podKind, object("b", ownedBy(setKind, "set"))) }, "b"},
		{"GC-20 what exists, or is not known, is asked for again",
			func(w *world) {
				w.see(podKind, object("web", ownedBy(setKind, "set")))
				w.verify("set", present)
				w.add(w.forget("web", true))
			},
			func(w *world) { w.see(podKind, object("b", ownedBy(setKind, "set"))) }, "verify:shop/set"},
		{"GC-21 an owner that appears needs no verification",
			func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "set"))) },
			func(w *world) { w.see(setKind, object("set")) }, ""},
		{"GC-21, GC-52 one that appears in another namespace is verified for its dependents, and they are told",
			func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "set"))) },
			func(w *world) { w.see(setKind, object("set", namespace("other"))) }, "astray:web->set"},
		{"GC-23, GC-52 so is one that is there before",
			func(w *world) { w.see(setKind, object("set", namespace("other"))) },
			func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "set"))) }, "astray:web->set verify:shop/set"},
		{"GC-52 once for each reference",
			func(w *world) {
				w.see(setKind, object("set", namespace("other")))
				w.see(podKind, object("web", ownedBy(setKind, "set")))
			},
			func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "set"), finalizers("x"), version("2"))) }, ""},
		{"GC-22 an owner that was seen stays, whatever a bad reference says of it",
			func(w *world) {
				w.see(setKind, object("set", namespace("other")))
				w.see(podKind, object("web", ownedBy(setKind, "set")), object("b", namespace("other"), ownedBy(setKind, "set")))
			},
			func(w *world) { w.verify("set", notFound) }, "web"},
		{"GC-26 when an owner is gone, its dependents are decided about",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set")), object("b"))
			},
			func(w *world) { w.add(w.forget("set", true)) }, "web"},
		{"GC-9 when a list alone says so, it is verified",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set")), object("b", ownedBy(setKind, "set")))
			},
			func(w *world) { w.add(w.forget("set", false)) }, "verify:shop/set"},
		{"GC-46 when a dependent is gone, its owner may be released",
			func(w *world) {
				w.see(setKind, object("set", deleted(foreground)), object("other"))
				w.see(podKind, object("web", blocking(setKind, "set", "other")))
			},
			func(w *world) { w.add(w.forget("web", true)) }, "set"},
		{"GC-24 also when it blocks no longer",
			func(w *world) {
				w.see(setKind, object("set", deleted(foreground)), object("other"))
				w.see(podKind, object("web", blocking(setKind, "set", "other")))
			},
			func(w *world) { w.see(podKind, object("web", ownedBy(setKind, "other"), version("2"))) }, "set"},
		{"GC-25 an object that is deleted in the foreground brings its dependents",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", blocking(setKind, "set")), object("b", ownedBy(setKind, "set")))
			},
			func(w *world) { w.see(setKind, object("set", deleted(foreground), version("2"))) }, "b set web"},
		{"GC-25 the finalizer orphan wins", func(w *world) { w.see(podKind, object("web", blocking(setKind, "set"))) },
			func(w *world) { w.see(setKind, object("set", deleted(foreground, orphan))) }, "orphan:set"},
		{"GC-25 when they are orphaned, the rest is deleted in the foreground",
			func(w *world) {
				w.see(setKind, object("set", deleted(foreground, orphan)))
				w.see(podKind, object("web", blocking(setKind, "set")))
			},
			func(w *world) { w.see(setKind, object("set", deleted(foreground), version("2"))) }, "set web"},
		{"GC-18 two references to one uid count once",
			func(w *world) {
				w.see(setKind, object("set"))
				w.see(podKind, object("web", ownedBy(setKind, "set", "set")))
			},
			func(w *world) { w.add(w.forget("web", true)); w.see(podKind, object("web", ownedBy(setKind, "set"))) }, ""},
		{"kinds that turn out to have no namespaces make one claim of several",
			func(w *world) {
				w.see(podKind, object("web", ownedBy(widgetKind, "one")), object("b", namespace("other"), ownedBy(widgetKind, "one")))
			},
			func(w *world) { w.add(w.setScope(widgetKind.GroupKind(), true)) }, "verify:/one"},
		{"kinds that are defined anew, with namespaces, make several of one",
			func(w *world) {
				w.add(w.setScope(widgetKind.GroupKind(), true))
				w.see(podKind, object("web", ownedBy(widgetKind, "one")), object("b", namespace("other"), ownedBy(widgetKind, "one")))
			},
			func(w *world) { w.add(w.setScope(widgetKind.GroupKind(), false)) }, "verify:other/one verify:shop/one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.before(w)
			w.queued()
			c.then(w)
			if got := w.queued(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
}

// What is known of an owner goes with its last dependent, so that memory does not grow with what has ever been deleted (GC-71).
func TestOwnersAreForgottenWithTheirDependents(t *testing.T) {
	w := newWorld()
	w.see(setKind, object("set"))
	for i := range 10 {
		w.see(podKind, object(fmt.Sprint("pod-", i), ownedBy(setKind, "set", "never-seen")))
	}
	if shared := w.owners["set"].dependents; len(shared) != 10 || &w.nodes["pod-0"].owners[0] != &w.nodes["pod-9"].owners[0] {
		t.Error("dependents of one owner do not share the list of owners")
	}
	w.forget("set", true)
	for i := range 10 {
		c := statedOwner{"apps/v1", "ReplicaSet", "shop", "never-seen", "never-seen"}
		if !w.isStated(c) {
			t.Error("a claim is forgotten while dependents make it")
		}
		w.forget(types.UID(fmt.Sprint("pod-", i)), true)
		if i == 9 && w.isStated(c) {
			t.Error("a claim is open that nobody makes")
		}
	}
	if len(w.nodes)+len(w.owners) != 0 {
		t.Errorf("left: %v, %v", w.nodes, w.owners)
	}
}

// Discovery has kinds in small letters, too, so a reference with such a one is as good as any (GC-18, GC-47).
func TestKindInSmallLetters(t *testing.T) {
	lower := func(o *metav1.PartialObjectMetadata) {
		o.OwnerReferences[0].Kind = strings.ToLower(o.OwnerReferences[0].Kind)
	}
	w := newWorld()
	w.see(setKind, object("set"))
	w.see(podKind, object("web", blocking(setKind, "set"), lower))
	w.see(setKind, object("set", version("2"), deleted(orphan)))
	if d := w.decideOrphan(w.nodes["set"]); len(d.Steps) != 2 { // the reference goes, and then the finalizer
		t.Errorf("%+v", d.Steps)
	}
	if e := w.forget("set", true); !slices.Contains(slices.Concat(e.remove, e.review), w.nodes["web"]) {
		t.Errorf("the end of its owner is not told to the dependent: %+v", e)
	}
}
