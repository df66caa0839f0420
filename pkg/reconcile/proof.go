package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	mostRounds  = 5           // of live reads in one reconcile; a plan that asks for more fails, and backs off
	readsAtOnce = 8           // of one plan
	sharedFor   = time.Second // see [plan.Ref.Shared]
	slowRead    = time.Second // a read that takes longer is slow, see [Proof]
)

// Proof is what was read live in one reconcile, because the plan asks for it. It also says how such reads go,
// whichever keys of the controller they are for: a server that does not answer this process may not answer others
// either, such as kubelets.
type Proof struct {
	Now    time.Time // as in the [Request]
	Read   map[plan.Ref]Reading
	Failed time.Time // when a read was last not answered; zero if all were
	Slow   time.Time // when a read has last taken more than a second; likewise

	// misread is why [Found] could not return what was read, so that a plan which has not looked at that error is not
	// carried out; nil in tests.
	misread *error
}

// Reading is what one live read has shown.
type Reading struct {
	// Objects are what was found; none if there is nothing of that name. Of a kind that client-go does not know, they
	// are unstructured. Other keys may have been given the same, so they must not be changed.
	Objects      []plan.Object
	Err          error // of a read that was not answered; a plan that goes on asking for it fails with this error
	Began, Ended time.Time
}

// Found returns the object that a live read has shown; nil if there is none. If ok is false, it was not read: err says
// why, or is nil if no plan of this reconcile has asked for it yet. T is the type of the kind; with Metadata it is
// [metav1.PartialObjectMetadata], and of a kind that client-go does not know unstructured.Unstructured. The reconcile
// fails if it is another one.
func Found[T plan.Object](p Proof, ref plan.Ref) (o T, ok bool, err error) {
	r, ok := p.Read[ref]
	if !ok || r.Err != nil {
		return o, false, r.Err
	}
	if len(r.Objects) > 0 {
		if o, ok = r.Objects[0].(T); !ok {
			err = fmt.Errorf("%s was read as %T, which is no %T", ref, r.Objects[0], o)
			if p.misread != nil {
				*p.misread = err
			}
			return o, false, err
		}
	}
	return o, true, nil
}

// Lacks returns what a plan asks for and was not read yet. If it still asks for what could not be read, the error says
// why.
func (p Proof) Lacks(by plan.Plan) (refs []plan.Ref, err error) {
	once := make(map[plan.Ref]bool, len(by.Proof))
	for _, ref := range by.Proof {
		switch r, ok := p.Read[ref]; {
		case ok && r.Err != nil:
			return nil, fmt.Errorf("read %s live: %w", ref, r.Err)
		case !ok && !once[ref]:
			once[ref] = true
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// prove reads live what the plan asks for, and plans again, until there is nothing more to read. The key is not
// observed again. What Observe has seen is older than what is read, so a claim that nobody uses, say, was there before
// its users were listed. Caches that are looked at after the reads may show a claim that a pod began to use since: that
// pod is in no list.
func (r *run[K, S, D, M]) prove(
	ctx context.Context, o Observation[S, M], d D, p plan.Plan,
) (Observation[S, M], D, plan.Plan, error) {
	proof, seen := Proof{Now: r.record.Time, Read: map[plan.Ref]Reading{}, misread: new(error)}, o
	for round := 0; ; round++ {
		refs, err := proof.Lacks(p)
		switch {
		case err != nil || len(refs) == 0:
			return o, d, p, err
		case round == mostRounds:
			return o, d, p, fmt.Errorf("the plan asks for more after %d rounds of live reads: %s", round, refs[0])
		case r.runner.Prove == nil:
			return o, d, p, fmt.Errorf("the plan asks for %s, and the controller has no function Prove", refs[0])
		}
		for i, found := range r.readAll(ctx, refs) {
			proof.Read[refs[i]] = found
		}
		proof.Failed, proof.Slow = r.runner.reads.trouble()
		o = r.runner.Prove(seen, proof)
		if d, p = r.plan(o.Snapshot); *proof.misread != nil {
			return o, d, p, *proof.misread
		}
	}
}

// readAll reads live, several at a time.
func (r *run[K, S, D, M]) readAll(ctx context.Context, refs []plan.Ref) []Reading {
	found := make([]Reading, len(refs))
	read := func(i int) {
		live := func() ([]plan.Object, error) { return r.runner.readLive(ctx, refs[i]) }
		found[i] = r.runner.reads.get(ctx, r.runner.shared.Clock.Now, refs[i], live)
	}
	if len(refs) == 1 {
		read(0)
		return found
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, readsAtOnce)
	for i := range refs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			read(i)
		})
	}
	all.Wait()
	return found
}

// readLive reads as the controller's own account. What that may not read, whoever fills the caches lists, if a cache is
// filled with it.
func (r *TypedRunner[K, S, D, M]) readLive(ctx context.Context, ref plan.Ref) (found []plan.Object, err error) {
	defer func() {
		if cause := recover(); cause != nil { // other keys may wait for it, or read beside it
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	m := client.Mapping{GroupVersionKind: ref.Kind, Resource: ref.Resource, Namespaced: ref.Namespace != ""}
	if ref.Resource == "" {
		if m, err = r.shared.Mapper.Mapping(ctx, ref.Kind); err != nil {
			return nil, err
		}
	}
	found, err = client.Read(ctx, r.reader, m, ref)
	if ref.All || !apierrors.IsForbidden(err) || r.shared.Verifier == nil || !r.watches(ref.Kind) {
		return found, err
	}
	one := ref
	one.All, one.Fields = true, fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
	return client.Read(ctx, r.shared.Verifier, m, one)
}

func (r *TypedRunner[K, S, D, M]) watches(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(r.Watches, func(w TypedWatch[K]) bool { return w.Kind == kind })
}

// liveReads are the live reads of a controller in one term. The zero value has read nothing.
type liveReads struct {
	mu           sync.Mutex
	shared       map[plan.Ref]*sharedReading
	failed, slow time.Time // see [Proof]
}

// sharedReading is a reading for several keys.
type sharedReading struct {
	Reading
	began time.Time
	done  chan struct{} // closed when the reading is there
}

// get reads, or waits for what another key reads, if the reference allows that.
func (l *liveReads) get(
	ctx context.Context, now func() time.Time, ref plan.Ref, read func() ([]plan.Object, error),
) Reading {
	one, first := l.reading(now(), ref)
	if !first {
		select {
		case <-one.done:
			return one.Reading
		case <-ctx.Done():
			return Reading{Err: ctx.Err()}
		}
	}
	defer close(one.done)
	objects, err := read()
	one.Reading = Reading{Objects: objects, Err: err, Began: one.began, Ended: now()}
	l.note(one.Reading)
	return one.Reading
}

// reading returns the present reading of a shared reference. first says that the caller has to do it.
func (l *liveReads) reading(now time.Time, ref plan.Ref) (one *sharedReading, first bool) {
	fresh := &sharedReading{began: now, done: make(chan struct{})}
	if !ref.Shared {
		return fresh, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if one = l.shared[ref]; one != nil && now.Sub(one.began) < sharedFor {
		return one, false
	}
	for other, r := range l.shared {
		if now.Sub(r.began) >= sharedFor {
			delete(l.shared, other)
		}
	}
	if l.shared == nil {
		l.shared = map[plan.Ref]*sharedReading{}
	}
	l.shared[ref] = fresh
	return fresh, true
}

// note notes how a read went.
func (l *liveReads) note(r Reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Err != nil {
		l.failed = r.Ended
	}
	if r.Ended.Sub(r.Began) > slowRead {
		l.slow = r.Ended
	}
}

// trouble returns when a read has last failed, and when one was last slow.
func (l *liveReads) trouble() (failed, slow time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed, l.slow
}
