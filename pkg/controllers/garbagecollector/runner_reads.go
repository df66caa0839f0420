package garbagecollector

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/queue"
)

// kindReads are the live reads of owners of one kind. A kind whose server hangs leaves workers for the others.
type kindReads struct {
	running int // including those whose turn it is
	waiting queue.Turns[statedOwner]
	turns   map[statedOwner]bool // whose turn it is; false: it waits
}

// begin reports whether an owner may be read now.
func (k *kindReads) begin(c statedOwner, most int) bool {
	turn, waits := k.turns[c]
	switch {
	case turn:
		delete(k.turns, c)
		return true
	case waits || k.running >= most:
		return false
	}
	k.running++
	return true
}

// wait has an owner wait for its turn. It reports whether there need be no waiting any more.
func (k *kindReads) wait(c statedOwner, most int) (free bool) {
	if _, waits := k.turns[c]; waits {
		return false
	}
	if k.running < most {
		return true
	}
	k.turns[c] = false
	k.waiting.Add(c, c.namespace, c.uid)
	return false
}

// end returns the owner whose turn it is next, if one waits.
func (k *kindReads) end() (next statedOwner, waits bool) {
	if next, waits = k.waiting.Next(); waits {
		k.turns[next] = true
	} else {
		k.running--
	}
	return next, waits
}

// mostReads bounds the reads of one kind.
func (t *term) mostReads() int { return max(1, t.workers/2) }

// readsOf returns the reads of the kind of an owner.
func (t *term) readsOf(c statedOwner) *kindReads {
	kind := c.groupVersionKind()
	if t.reads[kind] == nil {
		t.reads[kind] = &kindReads{turns: map[statedOwner]bool{}}
	}
	return t.reads[kind]
}

// beginRead reports whether dependents still state an owner, and whether it has to wait for other reads of its kind. If
// neither keeps it from being read, [runner.endRead] is to follow.
func (r *runner) beginRead(c statedOwner) (stated, busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begins := r.term.readsOf(c).begin(c, r.term.mostReads())
	if stated = r.term.graph.isStated(c); begins && !stated {
		r.term.passTurn(c.groupVersionKind())
	}
	return stated, !begins
}

// endRead has the next owner of the kind read.
func (r *runner) endRead(c statedOwner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term.passTurn(c.groupVersionKind())
}

// awaitRead has an owner read when it is its turn.
func (t *term) awaitRead(c statedOwner) {
	if t.readsOf(c).wait(c, t.mostReads()) {
		t.verifyOwner(c)
	}
}

// passTurn has the next owner of a kind read.
func (t *term) passTurn(kind schema.GroupVersionKind) {
	k := t.reads[kind]
	if next, waits := k.end(); waits {
		t.verifyOwner(next)
	} else if k.running == 0 {
		delete(t.reads, kind)
	}
}
