package agreement

import (
	"cmp"
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Hindrance says what excuses whoever leads; empty if nothing does.
type Hindrance func(context.Context, Question) (string, error)

// Question is about a write that was planned at a time. If it was not done, it has the object of the key, about which
// there may be warnings. If a field of an object was changed otherwise, it has that field.
type Question struct {
	Since  time.Time
	About  plan.Key
	Owner  types.UID
	Kind   schema.GroupVersionKind
	Object plan.Key
	Path   string
}

// suspect is a disagreement that may have an excuse.
type suspect struct {
	Disagreement
	Question
}

const (
	suspectsEvery = 5 * time.Second
	// silentFor is for how long a lease is not renewed before nobody leads.
	silentFor = 30 * time.Second
)

// Run looks for what hinders writes that are not done, until ctx ends.
func (c *Comparison) Run(ctx context.Context) {
	ticks := time.NewTicker(suspectsEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			c.Judge(ctx)
		}
	}
}

// Judge asks what hinders the writes that are not done. If nothing is known to, or it cannot be asked, they are
// disagreements.
func (c *Comparison) Judge(ctx context.Context) {
	c.mu.Lock()
	suspects := c.suspects
	c.suspects = nil
	c.mu.Unlock()
	for _, s := range suspects {
		why, err := c.Hindrance(ctx, s.Question)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		switch {
		case why == "" || err != nil:
			c.disagree(s.Disagreement)
		case s.Rule == NotDone:
			c.count(s.Controller, Hindered, 1)
		default:
			c.count(s.Controller, Superseded, 1)
		}
		c.mu.Unlock()
	}
}

// HindranceOf returns what asks the API server: for the lease of who leads, for warnings about the object since the
// write was planned, and for who has written a field. It only lists.
func HindranceOf(client kubernetes.Interface, objects metadata.Interface, lease plan.Key) Hindrance {
	return func(ctx context.Context, q Question) (string, error) {
		if q.Path != "" {
			return writtenByOthers(ctx, objects, q)
		}
		leases, err := client.CoordinationV1().Leases(lease.Namespace).List(ctx,
			metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", lease.Name).String()})
		if err != nil {
			return "", err
		}
		for _, l := range leases.Items {
			if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil ||
				time.Since(l.Spec.RenewTime.Time) > silentFor {
				return "nobody leads", nil
			}
			if l.Spec.AcquireTime != nil && l.Spec.AcquireTime.After(q.Since) {
				return "who leads has just begun", nil
			}
		}
		if q.Owner == "" {
			return "", nil
		}
		namespace := cmp.Or(q.About.Namespace, metav1.NamespaceDefault)
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.uid", string(q.Owner)),
				fields.OneTermEqualSelector("type", corev1.EventTypeWarning)).String()})
		if err != nil {
			return "", err
		}
		for _, e := range events.Items {
			if lastOf(e).Add(time.Second).After(q.Since) {
				return e.Reason, nil
			}
		}
		return "", nil
	}
}

// writtenByOthers says so if not a controller manager has written a field last.
func writtenByOthers(ctx context.Context, objects metadata.Interface, q Question) (string, error) {
	resource, _ := meta.UnsafeGuessKindToResource(q.Kind)
	found, err := objects.Resource(resource).Namespace(q.Object.Namespace).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", q.Object.Name).String()})
	if err != nil {
		return "", err
	}
	for _, o := range found.Items {
		for _, entry := range o.ManagedFields {
			if entry.FieldsV1 != nil && hasPath(string(entry.FieldsV1.GetRawBytes()), q.Path) &&
				!strings.Contains(entry.Manager, "controller-manager") {
				return entry.Manager + " has written it", nil
			}
		}
	}
	return "", nil
}

// hasPath reports whether fields that somebody manages have all parts of a path.
func hasPath(managed, path string) bool {
	for part := range strings.SplitSeq(path, ".") {
		name, _, _ := strings.Cut(part, "[")
		if !strings.Contains(managed, `"f:`+name+`"`) {
			return false
		}
	}
	return true
}

// lastOf is when an event was last seen.
func lastOf(e corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	if e.EventTime.After(at) {
		at = e.EventTime.Time
	}
	return at
}
