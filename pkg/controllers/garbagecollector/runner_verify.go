package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	// readTimeout bounds a live read. An aggregated API server may not answer at all.
	readTimeout = 10 * time.Second
	// mostExplained bounds of how many dependents of one owner /debug/explain says that they wait for it.
	mostExplained = 100
)

// key names the owner, for people.
func (c statedOwner) key() plan.Key { return plan.Key{Namespace: c.namespace, Name: c.name} }

// groupVersionKind is the owner's kind.
func (c statedOwner) groupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(c.apiVersion, c.kind)
}

// observeOwner reads an owner live, if it is its turn. It gives back the turn before it returns, and changes nothing
// else.
func (r *runner) observeOwner(
	ctx context.Context, req reconcile.TypedRequest[statedOwner, ownerMemory],
) (o reconcile.Observation[ownerSnapshot, ownerMemory], _ error) {
	s := ownerSnapshot{owner: req.Key, failures: req.Failures}
	if req.Memory != nil {
		s.unknown = req.Memory.unknown
	}
	if s.stated, s.busy = r.beginRead(req.Key); s.stated && !s.busy {
		defer r.endRead(req.Key)
		s.state, s.err = r.look(ctx, req.Key)
		if s.kindUnknown() {
			o.Memory = &ownerMemory{s.unknown + 1}
		}
	}
	if s.stated && s.busy {
		o.Memory = req.Memory
	}
	o.Exists, o.Snapshot = true, s
	return o, nil
}

// commitOwner updates the term with what an owner is. It fails if the owner is to be read again.
func (r *runner) commitOwner(s ownerSnapshot, d ownerDecision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case d.dropped:
		return r.term.dropOwner(s.owner)
	case d.waits:
		r.term.awaitRead(s.owner)
		return nil
	case d.known:
		r.term.follow(r.term.graph.verified(s.owner, s.state))
	}
	r.term.explainDependents(s)
	r.term.warn(s, d.warn)
	return d.again
}

// dropOwner forgets an owner that nobody states. It fails if somebody does again.
func (t *term) dropOwner(c statedOwner) error {
	if t.graph.isStated(c) {
		return plan.ErrStale
	}
	delete(t.warned, c)
	t.graph.dropUnstated(c)
	return nil
}

// errNamespaced says why an owner cannot be verified (GC-35).
var errNamespaced = errors.New("the kind has namespaces, and the object has none")

// errNotShown has an owner verified again later (GC-20).
var errNotShown = errors.New("the owner exists, but no watch has shown it yet")

// explainDependents keeps for /debug/explain what dependents wait for while their owner cannot be looked up.
func (t *term) explainDependents(s ownerSnapshot) {
	if t.graph.owners[s.owner.uid] == nil {
		return
	}
	told := 0
	for d := range t.graph.dependentsStating(s.owner) {
		if d.byUID != nil && t.graph.statedBy(d, d.owners[0]) != s.owner {
			continue // the first of many owners stands for all
		}
		key := explainKey(d)
		if s.resolved() {
			t.records.Forget(key)
			continue
		}
		if told++; told > mostExplained {
			return
		}
		rec := explain.Record{Time: time.Now(), Why: decide(time.Now(), t.graph.snapshotOf(d)).Why}
		if s.err != nil {
			rec.Error = s.err.Error()
		}
		t.records.Put(key, rec)
	}
}

// warn records events for users that say why dependents stay, once for each of them, when the owner cannot be
// looked up, and that is not just for a moment (GC-69).
func (t *term) warn(s ownerSnapshot, why error) {
	c := s.owner
	if s.resolved() || t.graph.owners[c.uid] == nil {
		delete(t.warned, c)
		return
	}
	if why == nil {
		return
	}
	if t.warned[c] == nil {
		t.warned[c] = sets.New[*node]()
	}
	for d := range t.graph.dependentsStating(c) {
		if len(t.warned[c]) == mostExplained {
			return
		}
		if !t.warned[c].Has(d) {
			t.warned[c].Insert(d)
			t.warning(d.object(), "OwnerRefUnresolvable",
				"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] cannot be looked up, so the object stays: %v",
				c.apiVersion, c.kind, c.namespace, c.name, c.uid, why)
		}
	}
}

// look reads the owner live. Its error says why it is to be asked again.
func (r *runner) look(ctx context.Context, c statedOwner) (ownerState, error) {
	kind := c.groupVersionKind()
	m, err := r.mapper.Mapping(ctx, kind)
	switch {
	case meta.IsNoMatchError(err):
		klog.FromContext(ctx).V(5).Info("Unknown kind of an owner", "apiVersion", c.apiVersion, "kind", c.kind)
		return unresolvable, fmt.Errorf("unable to get REST mapping for %s/%s.: %w", c.apiVersion, c.kind, err)
	case err != nil:
		return unverified, err
	case m.Namespaced && c.namespace == "":
		klog.FromContext(ctx).V(2).Info("The owner of a cluster-scoped object has a namespace, so it cannot be found",
			"kind", c.kind, "name", c.name, "uid", c.uid)
		return unresolvable, nil
	}
	key := plan.Key{Namespace: c.namespace, Name: c.name}
	if !m.Namespaced {
		key.Namespace = ""
	}
	found, err := r.get(ctx, m, key)
	switch {
	case client.IsAbsent(err), err == nil && found.UID != c.uid:
		return notFound, nil
	case apierrors.IsNotFound(err): // the server has no such path
		return unresolvable, err
	case err != nil:
		return unverified, err
	}
	return present, nil
}

func (r *runner) get(ctx context.Context, m client.Mapping, key plan.Key) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found := &metav1.PartialObjectMetadata{}
	if err := r.client.Get(ctx, m, key, found); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", m.Kind, key, err)
	}
	return found, nil
}
