// Package record makes a history for oracles from a live API server: one watch for each kind, from before the work begins,
// and the server's audit log.
//
//	recorder, err := record.Start(ctx, config, oracle.Pod, oracle.ReplicaSet)
//	... the work ...
//	history, err := recorder.Stop(ctx)
//	history.Requests, err = record.Requests(auditLog, began)
//
// The audit log must have been written under Policy. OnCluster does all of that on a control plane of package test/cluster.
package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// retry is how long the recorder waits before it asks a server again that did not answer.
const retry = 100 * time.Millisecond

// Recorder watches.
type Recorder struct {
	kinds  []*kind
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu        sync.Mutex
	revisions []oracle.Revision
	gaps      []oracle.Interval
}

// kind is one kind that is watched.
type kind struct {
	schema.GroupVersionKind
	client  rest.Interface // whose codecs are those of all kinds
	version string         // the last that is known
	live    map[string]oracle.Object
}

// global reports whether objects of the kind belong to no namespace.
func (k *kind) global() bool {
	return slices.Contains([]string{oracle.Node, oracle.Namespace, oracle.PersistentVolume, oracle.StorageClass, oracle.VolumeAttachment,
		oracle.VolumeAttributesClass, oracle.ServiceCIDR, oracle.IPAddress, oracle.ClusterTrustBundle,
		oracle.StorageVersion, oracle.ResourceSlice, oracle.DeviceTaintRule}, k.Kind)
}

// get begins a request for the objects of the kind in a namespace; for all if none is named.
func (k *kind) get(namespace string) *rest.Request {
	resource, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
	path := []string{"apis", k.Group, k.Version, resource.Resource}
	if namespace != "" && !k.global() {
		path = []string{"apis", k.Group, k.Version, "namespaces", namespace, resource.Resource}
	}
	if k.Group == "" {
		path = append([]string{"api"}, path[2:]...)
	}
	return k.client.Get().AbsPath(path...)
}

// Start begins to record the kinds, all if none are named. What exists already is recorded as injected.
func Start(ctx context.Context, config *rest.Config, names ...string) (*Recorder, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.UserAgent, config.ContentType = -1, "recorder", runtime.ContentTypeProtobuf
	config.WarningHandlerWithContext = rest.NoWarnings{} // Endpoints are deprecated
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	r := &Recorder{}
	for _, o := range oracle.Examples() {
		found, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return nil, err
		}
		if wanted(names, found[0].Kind) {
			r.kinds = append(r.kinds, &kind{GroupVersionKind: found[0], client: client.CoreV1().RESTClient()})
		}
	}
	var served []*kind
	for _, k := range r.kinds {
		switch err := r.relist(ctx, k); {
		case err == nil:
			served = append(served, k)
		case !apierrors.IsNotFound(err): // which a release before may say, or one without alpha APIs
			return nil, fmt.Errorf("list %s: %w", k.Kind, err)
		}
	}
	r.kinds = served
	ctx, r.cancel = context.WithCancel(ctx)
	for _, k := range r.kinds {
		r.done.Go(func() { r.follow(ctx, k) })
	}
	return r, nil
}

func wanted(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return len(names) == 0
}

// relist brings a kind up to date from a list. What it finds changed has no known author, so it counts as injected.
func (r *Recorder) relist(ctx context.Context, k *kind) error {
	objects, version, err := k.read(ctx, "")
	if err != nil {
		return err
	}
	at, _ := strconv.ParseInt(version, 10, 64)
	found := map[string]oracle.Object{}
	for _, o := range objects {
		found[key(o)] = o
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, old := range k.live {
		if now := found[id]; now == nil || now.GetUID() != old.GetUID() {
			r.add(oracle.Revision{Version: at, Type: oracle.Deleted, Object: old, Injected: true})
			delete(k.live, id)
		}
	}
	for id, o := range found {
		old := k.live[id]
		switch {
		case old == nil:
			r.add(oracle.Revision{Version: version64(o), Type: oracle.Added, Object: o, Injected: true})
		case old.GetResourceVersion() != o.GetResourceVersion():
			r.add(oracle.Revision{Version: version64(o), Type: oracle.Modified, Object: o, Injected: true})
		}
	}
	k.live, k.version = found, version
	return nil
}

// read lists what exists now in a namespace; in all if none is named.
func (k *kind) read(ctx context.Context, namespace string) (objects []oracle.Object, version string, err error) {
	list, err := scheme.Scheme.New(k.GroupVersion().WithKind(k.Kind + "List"))
	if err != nil {
		return nil, "", err
	}
	if err := k.get(namespace).Do(ctx).Into(list); err != nil {
		return nil, "", err
	}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		object, ok := o.(oracle.Object)
		if !ok {
			return fmt.Errorf("%T is no object", o)
		}
		object.SetManagedFields(nil)
		objects = append(objects, object)
		return nil
	})
	l, accessErr := meta.ListAccessor(list)
	if err := errors.Join(err, accessErr); err != nil {
		return nil, "", err
	}
	return objects, l.GetResourceVersion(), nil
}

func key(o oracle.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func version64(o oracle.Object) int64 {
	n, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	return n
}

func (r *Recorder) add(revision oracle.Revision) {
	revision.When = time.Now()
	r.revisions = append(r.revisions, revision)
}

// follow watches a kind until the context ends.
func (r *Recorder) follow(ctx context.Context, k *kind) {
	for ctx.Err() == nil {
		broken := time.Now()
		err := r.watch(ctx, k)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			if r.relist(ctx, k) == nil {
				r.mu.Lock()
				r.gaps = append(r.gaps, oracle.Interval{From: broken, To: time.Now()})
				r.mu.Unlock()
				continue
			}
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(retry):
			}
		}
	}
}

// watch records until the watch ends.
func (r *Recorder) watch(ctx context.Context, k *kind) error {
	options := &metav1.ListOptions{Watch: true, ResourceVersion: k.version, AllowWatchBookmarks: true}
	w, err := k.get("").VersionedParams(options, scheme.ParameterCodec).Watch(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		object, ok := event.Object.(oracle.Object)
		if !ok {
			return fmt.Errorf("watch %s: %T", k.Kind, event.Object)
		}
		r.take(k, event.Type, object)
	}
	return nil
}

func (r *Recorder) take(k *kind, t watch.EventType, o oracle.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k.version = o.GetResourceVersion()
	if t == watch.Bookmark {
		return
	}
	o.SetManagedFields(nil)
	r.add(oracle.Revision{Version: version64(o), Type: oracle.Type(t), Object: o})
	if t == watch.Deleted {
		delete(k.live, key(o))
	} else {
		k.live[key(o)] = o
	}
}

// Stop ends the recording, and returns the history, without requests.
func (r *Recorder) Stop(ctx context.Context) (*oracle.History, error) {
	defer r.done.Wait()
	defer r.cancel()
	return r.History(ctx)
}

// History waits until the watches show all that the server has now, and returns what has happened, without requests: in some
// namespaces and to objects of the whole cluster, or everywhere if no namespace is named.
func (r *Recorder) History(ctx context.Context, namespaces ...string) (*oracle.History, error) {
	if err := r.catchUp(ctx, namespaces); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &oracle.History{}
	for _, revision := range r.revisions {
		if within(revision.Object, namespaces) {
			h.Revisions = append(h.Revisions, revision)
		}
	}
	return h, nil
}

// Present is the same for nothing but what exists now.
func (r *Recorder) Present(ctx context.Context, namespaces ...string) (*oracle.History, error) {
	if err := r.catchUp(ctx, namespaces); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &oracle.History{}
	for _, k := range r.kinds {
		for _, o := range k.live {
			if within(o, namespaces) {
				h.Revisions = append(h.Revisions,
					oracle.Revision{Version: version64(o), Type: oracle.Added, Object: o, When: time.Now(), Injected: true})
			}
		}
	}
	return h, nil
}

func within(o oracle.Object, namespaces []string) bool {
	return len(namespaces) == 0 || o.GetNamespace() == "" || slices.Contains(namespaces, o.GetNamespace())
}

// catchUp waits until the watches show all that the server has now.
func (r *Recorder) catchUp(ctx context.Context, namespaces []string) error {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, k := range r.kinds {
		for _, namespace := range namespaces {
			objects, version, err := k.read(ctx, namespace)
			if err != nil {
				return fmt.Errorf("list %s: %w", k.Kind, err)
			}
			for !r.caughtUp(k, objects, version, namespace) {
				select {
				case <-ctx.Done():
					return fmt.Errorf("the watch of %s did not catch up: %w", k.Kind, ctx.Err())
				case <-time.After(retry):
				}
			}
			if k.global() {
				break
			}
		}
	}
	return nil
}

// Gaps are times in which a watch could not go on where it had ended, so that revisions may be missing.
func (r *Recorder) Gaps() []oracle.Interval {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gaps
}

// caughtUp reports whether what is recorded is at least as new as a list of a namespace, or of all.
func (r *Recorder) caughtUp(k *kind, objects []oracle.Object, version, namespace string) bool {
	at, _ := strconv.ParseInt(version, 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	listed := map[string]bool{}
	for _, o := range objects {
		listed[key(o)] = true
		if have := k.live[key(o)]; have == nil || version64(have) < version64(o) {
			if seen, _ := strconv.ParseInt(k.version, 10, 64); seen <= at {
				return false
			}
		}
	}
	for id, o := range k.live {
		if listed[id] || namespace != "" && !k.global() && o.GetNamespace() != namespace {
			continue
		}
		if version64(o) <= at {
			return false
		}
	}
	return true
}
