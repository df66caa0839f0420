package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// readTimeout bounds a live read. An aggregated API server may not answer at all.
	readTimeout = 10 * time.Second
	// mostExplained bounds of how many dependents of one owner /debug/explain tells that they wait for it.
	mostExplained = 100
)

// groupVersionKind is the owner's kind.
func (c statedOwner) groupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(c.apiVersion, c.kind)
}

// processOwner finds out whether an owner exists that no watch has shown (GC-19, GC-33).
func (r *runner) processOwner(ctx context.Context, i item) (time.Duration, error) {
	if !r.beginRead(i) {
		return 0, nil
	}
	defer r.endRead(i)
	state, err := r.look(ctx, i.statedOwner)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || state == unresolvable {
		r.term.follow(r.term.graph.verified(i.statedOwner, state))
	}
	r.term.explainDependents(i.statedOwner, state, err)
	r.term.warn(i, state, err)
	if state == present {
		return 0, errNotShown
	}
	return 0, err
}

// explainDependents keeps for /debug/explain what dependents wait for while their owner cannot be looked up.
func (t *term) explainDependents(c statedOwner, state ownerState, err error) {
	if t.graph.owners[c.uid] == nil {
		return
	}
	told := 0
	for d := range t.graph.dependentsStating(c) {
		if d.byUID != nil && d.owners[0].UID != c.uid {
			continue // the first of many owners stands for all
		}
		key := explainKey(d)
		if err == nil && state != unresolvable {
			t.records.Forget(key)
			continue
		}
		if told++; told > mostExplained {
			return
		}
		rec := explain.Record{Time: time.Now(), Why: decide(time.Now(), t.graph.snapshotOf(d)).Why}
		if err != nil {
			rec.Error = err.Error()
		}
		t.records.Put(key, rec)
	}
}

// warn tells users by an event why dependents stay, once for each of them, when the owner cannot be looked up, and that
// is not just for a moment (GC-69).
func (t *term) warn(i item, state ownerState, err error) {
	switch {
	case err == nil && state != unresolvable, t.graph.owners[i.statedOwner.uid] == nil:
		delete(t.warned, i.statedOwner)
		return
	case err == nil:
		err = errNamespaced
	case t.verify.failuresOf(i) < lasting-1:
		return
	}
	if t.warned[i.statedOwner] == nil {
		t.warned[i.statedOwner] = sets.New[*node]()
	}
	for d := range t.graph.dependentsStating(i.statedOwner) {
		if len(t.warned[i.statedOwner]) == mostExplained {
			return
		}
		if !t.warned[i.statedOwner].Has(d) {
			t.warned[i.statedOwner].Insert(d)
			t.events.Eventf(d.object(), corev1.EventTypeWarning, "OwnerRefUnresolvable",
				"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] cannot be looked up, so the object stays: %v",
				i.statedOwner.apiVersion, i.statedOwner.kind, i.statedOwner.namespace, i.statedOwner.name,
				i.statedOwner.uid, err)
		}
	}
}

// errNamespaced says why an owner cannot be verified (GC-35).
var errNamespaced = errors.New("the kind has namespaces, and the object has none")

// errNotShown has an owner verified again later (GC-20).
var errNotShown = errors.New("the owner exists, but no watch has shown it yet")

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
