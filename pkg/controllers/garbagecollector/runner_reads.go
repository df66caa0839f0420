package garbagecollector

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/queue"
)

// kindReads are the live reads of owners of one kind. A kind whose server hangs leaves workers for the others.
type kindReads struct {
	running int // including those whose turn it is
	waiting queue.Turns[item]
	turns   map[item]bool // whose turn it is; false: it waits
}

// begin reports whether an owner may be read now. If it may not, it is queued again when it is its turn.
func (k *kindReads) begin(i item, most int) bool {
	turn, waits := k.turns[i]
	switch {
	case turn:
		delete(k.turns, i)
		return true
	case waits:
		return false
	case k.running < most:
		k.running++
		return true
	}
	k.turns[i] = false
	k.waiting.Add(i, i.key().Namespace, i.owner())
	return false
}

// end returns the owner whose turn it is next, if one waits.
func (k *kindReads) end() (next item, waits bool) {
	if next, waits = k.waiting.Next(); waits {
		k.turns[next] = true
	} else {
		k.running--
	}
	return next, waits
}

// beginRead reports whether an owner is to be read now: if it is still stated, and need not wait for other reads of its
// kind.
func (r *runner) beginRead(i item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := i.groupVersionKind()
	k := r.term.reads[kind]
	if k == nil {
		k = &kindReads{turns: map[item]bool{}}
		r.term.reads[kind] = k
	}
	begins, stated := k.begin(i, max(1, r.workers/2)), r.term.graph.isStated(i.statedOwner)
	if !stated {
		delete(r.term.warned, i.statedOwner)
		r.term.graph.dropUnstated(i.statedOwner)
	}
	if begins && !stated {
		r.term.passTurn(kind)
	}
	return begins && stated
}

// endRead has the next owner of the kind read.
func (r *runner) endRead(i item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term.passTurn(i.groupVersionKind())
}

// passTurn has the next owner of a kind read.
func (t *term) passTurn(kind schema.GroupVersionKind) {
	k := t.reads[kind]
	if next, waits := k.end(); waits {
		t.verify.add(next)
	} else if k.running == 0 {
		delete(t.reads, kind)
	}
}
