package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Mapper finds out how objects of a kind, and of a resource, are addressed. [client.Mapper] does.
type Mapper interface {
	client.KindMapper
	Kind(ctx context.Context, resource schema.GroupVersionResource) (schema.GroupVersionKind, error)
}

// world is what one question reads: each list once, and each object once.
type world struct {
	reader client.Reader
	mapper Mapper
	now    time.Time

	lists  map[query][]plan.Object
	found  map[plan.Ref]plan.Object // nil: there is no such object
	single map[query]int            // how many were read one by one
	read   int                      // how many reads have succeeded
	unread map[string]error         // what could not be read
	asked  map[Ref]bool             // objects with a verdict, so that no chain is a circle
}

// query names a list.
type query struct {
	kind                schema.GroupVersionKind
	namespace, selector string
}

// presence says whether there is an object.
type presence int

const (
	unknown presence = iota // it could not be read
	absent
	present
)

func newWorld(r client.Reader, mapper Mapper, now time.Time) *world {
	return &world{
		reader: r, mapper: mapper, now: now, lists: map[query][]plan.Object{}, found: map[plan.Ref]plan.Object{},
		single: map[query]int{}, unread: map[string]error{}, asked: map[Ref]bool{},
	}
}

// blind returns an error if nothing at all could be read.
func (w *world) blind() error {
	if w.read > 0 || len(w.unread) == 0 {
		return nil
	}
	return fmt.Errorf("nothing could be read: %s", w.unreadNames()[0])
}

// unreadNames are what could not be read, and why.
func (w *world) unreadNames() (names []string) {
	for _, what := range slices.Sorted(maps.Keys(w.unread)) {
		names = append(names, fmt.Sprintf("%s: %v", what, w.unread[what]))
	}
	return names
}

// get reads an object of a built-in kind.
func get[T plan.Object](ctx context.Context, w *world, namespace, name string) (o T, is presence) {
	found, is := w.get(ctx, client.KindFor[T](), namespace, name)
	if is == present {
		o = found.(T)
	}
	return o, is
}

// get reads an object of any kind.
func (w *world) get(
	ctx context.Context, kind schema.GroupVersionKind, namespace, name string,
) (o plan.Object, is presence) {
	ref := plan.Ref{Kind: kind, Namespace: namespace, Name: name}
	if o, known := w.found[ref]; known {
		if o == nil {
			return nil, absent
		}
		return o, present
	}
	if w.unread[ref.String()] != nil || name == "" || !w.mayRead(ctx, ref) {
		return nil, unknown
	}
	if o := w.found[ref]; o != nil { // a list had it
		return o, present
	}
	m, err := w.mapper.Mapping(ctx, kind)
	var all []plan.Object
	if err == nil {
		// Of a Secret no more is needed than that there is one.
		all, err = client.Read(ctx, w.reader, m, plan.Ref{Kind: kind, Namespace: namespace, Name: name,
			Metadata: kind == client.KindFor[*corev1.Secret]()})
	}
	switch {
	case meta.IsNoMatchError(err): // nobody can have such an object
		return nil, unknown
	case err != nil:
		w.unread[ref.String()] = err
		return nil, unknown
	case len(all) == 0:
		w.read++
		w.found[ref] = nil
		return nil, absent
	}
	w.read++
	withKind(all[0], kind)
	w.found[ref] = all[0]
	return all[0], present
}

// Of the objects of one kind, so many are read one by one: a list is cheaper than more than few in one namespace, and
// who asks does not wait for more than many.
const (
	fewSingle  = 20
	manySingle = 500
)

// mayRead reports whether one more object is read by itself. When few were, it reads the list of them, of which others
// may be. An object that is not in it is read nevertheless: the list is that of a cache.
func (w *world) mayRead(ctx context.Context, ref plan.Ref) bool {
	here, all := query{ref.Kind, ref.Namespace, ""}, query{ref.Kind, "", "all"}
	w.single[here]++
	w.single[all]++
	switch {
	case w.single[here] == fewSingle && ref.Kind != client.KindFor[*corev1.Secret]():
		if known, err := w.readList(ctx, here, metav1.ListOptions{}); err == nil { // else they are read one by one
			w.lists[here] = known
		}
	case w.single[all] > manySingle:
		w.unread[fmt.Sprintf("more than %d objects of kind %s", manySingle, ref.Kind.Kind)] =
			errors.New("they would have to be read one by one")
		return false
	}
	return true
}

// list reads the objects of a built-in kind in a namespace, or in all, that a selector matches; nil for all of them.
// It returns none if they cannot be read.
func list[T plan.Object](ctx context.Context, w *world, namespace string, s labels.Selector) []T {
	return plan.Typed[T](w.list(ctx, client.KindFor[T](), namespace, s))
}

func (w *world) list(
	ctx context.Context, kind schema.GroupVersionKind, namespace string, s labels.Selector,
) []plan.Object {
	q := query{kind, namespace, ""}
	if s != nil {
		q.selector = s.String()
	}
	if known, ok := w.lists[q]; ok {
		return known
	}
	if known, ok := w.lists[query{kind, namespace, ""}]; ok && s != nil { // all of them are here
		return slices.DeleteFunc(slices.Clone(known), func(o plan.Object) bool {
			return !s.Matches(labels.Set(o.GetLabels()))
		})
	}
	all, err := w.readList(ctx, q, metav1.ListOptions{LabelSelector: q.selector})
	if err != nil {
		w.noteUnread(q, err)
	}
	w.lists[q] = all
	return all
}

// manyPods is how many pods are read before it is known whether more are needed.
const manyPods = 500

// firstPods returns the first pods that a selector matches, and whether they are all.
func (w *world) firstPods(ctx context.Context, namespace string, s labels.Selector) (some []*corev1.Pod, all bool) {
	q := query{client.KindFor[*corev1.Pod](), namespace, s.String()}
	_, known := w.lists[q]
	if _, everything := w.lists[query{q.kind, namespace, ""}]; known || everything {
		return list[*corev1.Pod](ctx, w, namespace, s), true
	}
	found, err := w.readList(ctx, q, metav1.ListOptions{LabelSelector: q.selector, Limit: manyPods})
	if err != nil {
		w.noteUnread(q, err)
		return nil, true
	}
	if len(found) < manyPods {
		w.lists[q] = found
	}
	return plan.Typed[*corev1.Pod](found), len(found) < manyPods
}

// podsOn are the pods of a node.
func (w *world) podsOn(ctx context.Context, node string) []*corev1.Pod {
	q := query{client.KindFor[*corev1.Pod](), "", "spec.nodeName=" + node}
	known, ok := w.lists[q]
	if !ok {
		var err error
		if known, err = w.readList(ctx, q, metav1.ListOptions{FieldSelector: q.selector}); err != nil {
			w.noteUnread(q, err)
		}
		w.lists[q] = known
	}
	return plan.Typed[*corev1.Pod](known)
}

// listAny reads the metadata of all objects of a kind in a namespace.
func (w *world) listAny(ctx context.Context, kind schema.GroupVersionKind, namespace string) []plan.Object {
	q := query{kind, namespace, "metadata"}
	known, ok := w.lists[q]
	if ok {
		return known
	}
	m, err := w.mapper.Mapping(ctx, kind)
	if err == nil {
		known, err = client.Read(ctx, w.reader, m, plan.Ref{Kind: kind, Namespace: namespace, All: true,
			Metadata: true})
	}
	if err != nil {
		w.noteUnread(q, err)
	}
	for _, o := range known {
		withKind(o, kind)
	}
	if err == nil {
		w.read++
	}
	w.lists[q] = known
	return known
}

// noteUnread remembers what could not be listed. A kind that the server does not have has no objects.
func (w *world) noteUnread(q query, err error) {
	if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		w.unread[listName(q.kind, q.namespace)] = err
	}
}

// unlisted reports whether a list could not be read, so that it is not known to be empty.
func (w *world) unlisted(kind schema.GroupVersionKind, namespace string) bool {
	return w.unread[listName(kind, namespace)] != nil
}

// listName is what people call a list.
func listName(kind schema.GroupVersionKind, namespace string) string {
	what := kind.Kind
	if m, ok := client.BuiltIn(kind); ok {
		what = m.Resource
	}
	if namespace != "" {
		what += " in " + namespace
	}
	return what
}

// readList reads a list from the cache of the API server.
func (w *world) readList(ctx context.Context, q query, o metav1.ListOptions) (all []plan.Object, err error) {
	m, err := w.mapper.Mapping(ctx, q.kind)
	if err != nil {
		return nil, err
	}
	into, err := scheme.Scheme.New(q.kind.GroupVersion().WithKind(q.kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	if err := w.reader.List(ctx, m, q.namespace, o, into); err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(into)
	if err != nil {
		return nil, err
	}
	w.read++
	for _, item := range items {
		o := item.(plan.Object)
		withKind(o, q.kind)
		all = append(all, o)
		ref := plan.Ref{Kind: q.kind, Namespace: o.GetNamespace(), Name: o.GetName()}
		if w.found[ref] == nil {
			w.found[ref] = o
		}
	}
	return all, nil
}

// warnings are the Warning events of a namespace about an object, the latest first. They are read once, because the
// API server has no index of them.
func (w *world) warnings(ctx context.Context, about plan.Object) (some []*corev1.Event) {
	namespace := cmp.Or(about.GetNamespace(), metav1.NamespaceDefault)
	for _, e := range w.allWarnings(ctx, namespace) {
		of := e.InvolvedObject
		same := of.UID == about.GetUID() || of.UID == "" || of.Kind == "Node" // whose uid kubelets do not know
		if of.Name == about.GetName() && of.Kind == refOf(about).Kind && same {
			some = append(some, e)
		}
	}
	return some
}

// allWarnings are the Warning events of a namespace, the latest first.
func (w *world) allWarnings(ctx context.Context, namespace string) []*corev1.Event {
	return w.events(ctx, namespace, "type=Warning")
}

// events are those of a namespace with these fields, the latest first.
func (w *world) events(ctx context.Context, namespace, fields string) []*corev1.Event {
	q := query{client.KindFor[*corev1.Event](), namespace, "fields:" + fields}
	known, ok := w.lists[q]
	if !ok {
		var err error
		if known, err = w.readList(ctx, q, metav1.ListOptions{FieldSelector: fields}); err != nil {
			w.noteUnread(q, err)
		}
		slices.SortStableFunc(known, func(a, b plan.Object) int {
			return timeOf(b.(*corev1.Event)).Compare(timeOf(a.(*corev1.Event)))
		})
		w.lists[q] = known
	}
	return plan.Typed[*corev1.Event](known)
}

// timeOf returns when an event was seen last.
func timeOf(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// withReason returns the latest of the events that has one of the reasons; nil if none has.
func withReason(events []*corev1.Event, reasons ...string) *corev1.Event {
	for _, e := range events {
		if slices.Contains(reasons, e.Reason) {
			return e
		}
	}
	return nil
}

// withKind puts its kind into an object that was decoded without.
func withKind(o plan.Object, kind schema.GroupVersionKind) {
	o.GetObjectKind().SetGroupVersionKind(kind)
}

// refOf names an object.
func refOf(o plan.Object) Ref {
	kind := o.GetObjectKind().GroupVersionKind()
	if kind.Kind == "" {
		kind, _ = client.KindOf(o)
	}
	return Ref{kind.GroupVersion().String(), kind.Kind, o.GetNamespace(), o.GetName()}
}

// lacking is a verdict on an object that there is not.
func lacking[T plan.Object](namespace, name, format string, args ...any) *verdict {
	kind := client.KindFor[T]()
	return &verdict{
		object: Ref{kind.GroupVersion().String(), kind.Kind, namespace, name}, state: Failing, reason: "NotFound",
		says: fmt.Sprintf(format, args...),
	}
}

// kindOf returns the kind of a resource, in the version that the server prefers.
func (w *world) kindOf(ctx context.Context, r schema.GroupResource) (schema.GroupVersionKind, bool) {
	kind, err := w.mapper.Kind(ctx, r.WithVersion(""))
	return kind, err == nil
}
