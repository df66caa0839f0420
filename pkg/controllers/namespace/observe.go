package namespace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"

	"github.com/standalone-kcm/controller-manager/internal/circuit"
	"github.com/standalone-kcm/controller-manager/internal/paging"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// listsAtOnce is how many resources of one namespace are listed at the same time.
const listsAtOnce = 16

// emptyFor is how long a resource that was found empty is not looked at again while something else is left. What has
// come since then is found at the latest by the complete round before the release.
const emptyFor = time.Minute

// settling is how long after a deletion is seen objects may still come into the namespace (NS-4): an API server that
// has not seen the deletion yet admits them, and a request that was admitted before may wait in a webhook, also if
// there is a single API server.
const settling = 5 * time.Second

// A kind that cannot be listed, because a conversion webhook is dead or an aggregated API server is down, must not
// occupy the workers that other namespaces need.
const (
	listTimeout = 10 * time.Second
	slow        = time.Second      // a list that takes longer than this is not waited for by other namespaces
	retryAfter  = 10 * time.Second // a kind that could not be listed is not listed again before this
)

// observer finds out what is left in namespaces.
type observer struct {
	// cached says which namespaces are being deleted. Nothing else is taken from it.
	cached informers.Store[*corev1.Namespace]
	// resources returns what the server has, by a discovery that is not older than the time.
	resources finder
	// period is the longest time between two rounds.
	period time.Duration
	lists  circuit.Breaker[schema.GroupVersionKind] // of kinds, for all namespaces
}

// finder is [client.Mapper.PreferredResourcesSince].
type finder = func(ctx context.Context, earliest time.Time, verbs ...string) ([]client.Mapping, error)

// newObserver returns one that has listed nothing. A kind that is slow to be listed is not waited for by
// other namespaces.
func newObserver(cached informers.Store[*corev1.Namespace], resources finder, period time.Duration) *observer {
	o := &observer{cached: cached, resources: resources, period: period}
	o.lists.Slow, o.lists.Pause = slow, retryAfter
	return o
}

// memory is what is remembered of a namespace from one round to the next: which kinds are empty, and whether
// anything gets less. Observe makes it, and the waits of the plan follow from it.
type memory struct {
	UID   types.UID
	Seen  time.Time                             // when it was first seen to be deleted
	Empty map[schema.GroupVersionKind]time.Time // when a kind was listed that had no objects
	// how many objects there were of the kinds that the last round has deleted
	Deleted map[schema.GroupVersionKind]int
	Swept   bool // what cannot be listed was deleted since nothing is left and can come
	Left    int  // how many objects the last round has found
	Rounds  int  // in a row that have found no fewer
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe reads the namespace live and lists what is in it. One that is not being deleted, or was replaced by
// another one, is as good as gone.
func (o *observer) observe(ctx context.Context, r reconcile.Request[memory]) (observation, error) {
	if cached := o.cached.Get("", r.Key.Name); cached == nil || cached.DeletionTimestamp == nil {
		return observation{}, nil
	}
	// The cache may be late: what is deleted below must not be that of a new namespace with the name of the old one
	// (NS-10).
	live := &corev1.Namespace{}
	if err := r.Reader.Get(ctx, client.MappingFor[*corev1.Namespace](), r.Key, live); client.IsAbsent(err) ||
		err == nil && live.DeletionTimestamp == nil {
		return observation{}, nil
	} else if err != nil {
		return observation{}, fmt.Errorf("read namespace: %w", err)
	}
	m := remembered(r, live.UID)
	s := snapshot{Namespace: live, Longest: o.period}
	if !s.hasFinalizers() {
		return observation{Exists: true, Snapshot: s, Memory: &m}, nil
	}
	// A deletion timestamp is by the clock of a server, and a clock that is behind would make it look old. So Seen
	// decides.
	s.SettledAt = m.Seen.Add(settling)
	o.observeContent(ctx, r, &s, &m)
	return observation{Exists: true, Snapshot: s, Memory: &m}, nil
}

// remembered returns a copy of what is remembered of the namespace with the uid.
func remembered(r reconcile.Request[memory], uid types.UID) memory {
	if r.Memory == nil || r.Memory.UID != uid {
		return memory{UID: uid, Seen: r.Now, Empty: map[schema.GroupVersionKind]time.Time{}}
	}
	m := *r.Memory
	m.Empty = maps.Clone(m.Empty)
	return m
}

// observeContent lists what is in the namespace. When nothing is left and nothing can come any more, it lists
// everything once more: the namespace is released only if that finds nothing (NS-28).
func (o *observer) observeContent(ctx context.Context, r reconcile.Request[memory], s *snapshot, m *memory) {
	settled, earliest := !r.Now.Before(s.SettledAt), m.Seen
	if settled {
		earliest = s.SettledAt
	}
	listed, unlisted, err := o.discover(ctx, earliest)
	s.Discovery = discoveryFailure(err)
	if !settled {
		listed = slices.DeleteFunc(listed, guardsPods)
	}
	s.Contents = o.listAll(ctx, r, m, listed)
	if len(s.Contents) == 0 && settled && err == nil {
		clear(m.Empty)
		s.Contents = o.listAll(ctx, r, m, listed)
		s.Complete = len(s.Contents) == 0
	}
	if s.Complete && !m.Swept {
		s.Unlisted = unlisted
	}
	left, deleted := 0, map[schema.GroupVersionKind]int{}
	for i := range s.Contents {
		c := &s.Contents[i]
		if left += c.Count; c.Undeleted {
			before, again := m.Deleted[c.Kind]
			c.Unmoved = again && c.Count >= before
			deleted[c.Kind] = c.Count
		}
	}
	m.Deleted = deleted // the plan deletes all of them
	if m.Rounds++; left < m.Left || s.deletesMore() {
		m.Rounds = 0
	}
	m.Left, s.Rounds = left, m.Rounds
}

// guardsPods reports whether objects of a kind restrict what pods may do. They stay while a pod may still come (NS-4,
// NS-18). Network plugins have policies of their own, which are named alike.
func guardsPods(k client.Mapping) bool { return strings.HasSuffix(k.Kind, "NetworkPolicy") }

// listAll returns what there is of the kinds: pods alone while there are any, and it looks for pods each time (NS-18).
func (o *observer) listAll(ctx context.Context, r reconcile.Request[memory], m *memory,
	kinds []client.Mapping) []content {
	pods := client.MappingFor[*corev1.Pod]()
	delete(m.Empty, pods.GroupVersionKind)
	if found := o.list(ctx, r, m, []client.Mapping{pods}); len(found) > 0 {
		return found
	}
	return o.list(ctx, r, m, slices.DeleteFunc(slices.Clone(kinds), func(k client.Mapping) bool { return k == pods }))
}

// discover finds what a namespace can hold: what can be listed, and kinds that cannot, but of which all objects can
// be deleted (NS-15).
func (o *observer) discover(ctx context.Context, earliest time.Time) (listed []client.Mapping,
	unlisted []schema.GroupVersionKind, err error) {
	clusterScoped := func(k client.Mapping) bool { return !k.Namespaced }
	listed, err = o.resources(ctx, earliest, "list", "delete")
	collections, also := o.resources(ctx, earliest, "delete", "deletecollection")
	if err == nil {
		err = also
	}
	listed = slices.DeleteFunc(listed, clusterScoped)
	for _, k := range slices.DeleteFunc(collections, clusterScoped) {
		if !slices.Contains(listed, k) {
			unlisted = append(unlisted, k.GroupVersionKind)
		}
	}
	return listed, unlisted, err
}

// discoveryFailure says which groups could not be discovered; what is in them is unknown (NS-14).
func discoveryFailure(err error) *failure {
	if err == nil {
		return nil
	}
	groups, _ := discovery.GroupDiscoveryFailedErrorGroups(err)
	return &failure{Groups: len(groups), Message: err.Error()}
}

// list returns what the kinds have in the namespace, without those that have nothing.
func (o *observer) list(ctx context.Context, r reconcile.Request[memory], m *memory,
	kinds []client.Mapping) (found []content) {
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k client.Mapping) bool {
		at, empty := m.Empty[k.GroupVersionKind]
		return empty && r.Now.Sub(at) < emptyFor
	})
	each := make([]content, len(kinds))
	workqueue.ParallelizeUntil(ctx, listsAtOnce, len(kinds), func(i int) {
		each[i] = o.listOne(ctx, r, kinds[i])
	})
	for i, c := range each {
		switch {
		case ctx.Err() != nil:
			c.Error = ctx.Err().Error()
			fallthrough
		case c.Count > 0 || c.Error != "":
			found = append(found, c)
			delete(m.Empty, kinds[i].GroupVersionKind)
		default:
			m.Empty[kinds[i].GroupVersionKind] = r.Now
		}
	}
	return found
}

// answered reports whether an error is an answer of the server that has the objects, and not that it cannot be reached.
func answered(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) &&
		!apierrors.IsServerTimeout(err)
}

// listOne lists the metadata of one kind's objects, page by page, so that its memory does not grow with their number
// (NS-49). When it has seen that some are to be deleted, it only counts the rest.
func (o *observer) listOne(ctx context.Context, r reconcile.Request[memory], k client.Mapping) content {
	c := content{Kind: k.GroupVersionKind, Resource: k.Resource}
	end, err := o.lists.Begin(k.GroupVersionKind)
	if errors.Is(err, circuit.ErrBusy) {
		err = fmt.Errorf("another list has not been answered for %s", slow)
	}
	if err != nil {
		c.Error = fmt.Sprintf("list %s: %v", k.GroupKind(), err)
		return c
	}
	bounded, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	defer func() {
		switch {
		case err != nil && ctx.Err() != nil:
			err = circuit.ErrUnknown // whoever has asked has given up
		case answered(err) && bounded.Err() == nil:
			err = nil // what is wrong may be in this namespace alone
		}
		end(err)
	}()
	options := metav1.ListOptions{Limit: 500}
	var pages paging.List
	for {
		page := &metav1.PartialObjectMetadataList{}
		if err = r.Reader.List(bounded, k, r.Key.Name, options, page); err != nil {
			break
		}
		for i := range page.Items {
			c.add(&page.Items[i])
		}
		if options.Continue = page.Continue; page.Continue == "" {
			return c
		}
		if c.Undeleted && page.RemainingItemCount != nil {
			c.Count += int(*page.RemainingItemCount)
			return c
		}
		if err = pages.Next(page.Continue); err != nil {
			break
		}
	}
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		err = nil
		return content{Kind: c.Kind, Resource: c.Resource}
	}
	c.Error = fmt.Sprintf("list %s: %v", k.GroupResource(), err)
	return c
}
