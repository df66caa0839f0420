package garbagecollector

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// GC-19, GC-20, GC-33 to GC-35, GC-69: what a live read of an owner leads to.
func TestPlanOwner(t *testing.T) {
	down, strange := errors.New("down"), &meta.NoKindMatchError{}
	read := func(state ownerState, err error, failures int) ownerSnapshot {
		return ownerSnapshot{owner: statedOwner{name: "set"}, stated: true, state: state, err: err, failures: failures, unknown: failures}
	}
	for _, c := range []struct {
		name  string
		s     ownerSnapshot
		want  ownerDecision
		after time.Duration
	}{
		{"nobody states it", ownerSnapshot{busy: true}, ownerDecision{dropped: true}, 0},
		{"others of its kind are read", ownerSnapshot{stated: true, busy: true, failures: 20}, ownerDecision{waits: true}, 0},
		{"it is gone", read(notFound, nil, 0), ownerDecision{known: true}, 0},
		{"it exists, and a watch will show it", read(present, nil, 20), ownerDecision{known: true, again: errNotShown}, 0},
		{"the server does not answer", read(unverified, down, 8), ownerDecision{again: down}, 0},
		{"it does not answer for long", read(unverified, down, 9), ownerDecision{warn: down, again: down}, 0},
		{"its path is unknown", read(unresolvable, down, 0), ownerDecision{known: true, again: down}, 0},
		{"its path is unknown for long", read(unresolvable, down, 9), ownerDecision{known: true, warn: down, again: down}, 0},
		{"its kind is unknown", read(unresolvable, strange, 0), ownerDecision{known: true}, 11 * time.Second},
		{"its kind is still unknown", read(unresolvable, strange, 1), ownerDecision{known: true, warn: strange}, 22 * time.Second},
		{"its kind is unknown for long", read(unresolvable, strange, 9), ownerDecision{known: true, warn: strange}, 1000 * time.Second},
		{"it has a namespace, and the object none", read(unresolvable, nil, 0), ownerDecision{known: true, warn: errNamespaced}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, p := planOwner(now, c.s); got != c.want || !p.Empty() || p.Requeue != c.after {
				t.Errorf("decided %+v, want %+v; planned %+v", got, c.want, p)
			}
		})
	}
}

// An owner that is stated again before it is dropped is looked up, and one that may be read meanwhile does not wait.
func TestOwnersThatAreNotReadAreNotForgotten(t *testing.T) {
	run(t, func(b *bench) {
		c := statedOwner{apiVersion: "v1", kind: "ConfigMap", namespace: "shop", name: "gone", uid: "gone"}
		b.see(b.put("web", "gone"))
		if err := b.commitOwner(ownerSnapshot{owner: c}, ownerDecision{dropped: true}); err == nil || !b.term.graph.isStated(c) {
			t.Errorf("it is dropped: %v", err)
		}
		b.mu.Lock()
		k := b.term.readsOf(c)
		b.mu.Unlock()
		if err := b.commitOwner(ownerSnapshot{owner: c, stated: true, busy: true}, ownerDecision{waits: true}); err != nil ||
			len(k.turns) != 0 {
			t.Errorf("it waits: %v, %v", k.turns, err)
		}
		nobodys := statedOwner{apiVersion: "example.com/v1", kind: "Widget", namespace: "shop", name: "w", uid: "w"}
		o, err := b.observeOwner(b.Context(), reconcile.TypedRequest[statedOwner, ownerMemory]{Key: nobodys, Memory: &ownerMemory{7}})
		if err != nil || o.Memory != nil {
			t.Errorf("an owner that nobody states is remembered: %v, %v", o.Memory, err)
		}
	})
}
