package agreement

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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
	id    keyID  // of what is not done
	at    string // among the items of the key
	tries int
}

const (
	suspectsEvery = 5 * time.Second
	// silentFor is for how long a lease is not renewed before nobody leads.
	silentFor = 30 * time.Second
	// leaseFor is how long the answer about a lease is good for.
	leaseFor = 2 * time.Second
	// mostTries is how often is asked what could not be asked: for a minute.
	mostTries = 12
	// answeredWithin is how long a question may take.
	answeredWithin = 10 * time.Second
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

// Judge asks what hinders the writes that are not done. If nothing is known to, they are disagreements. What is
// hindered is judged again later. What cannot be asked is asked again, and in the end not compared.
func (c *Comparison) Judge(ctx context.Context) {
	c.mu.Lock()
	suspects := c.suspects
	c.suspects, c.asking = nil, suspects
	c.mu.Unlock()
	for _, s := range suspects {
		why, err := c.ask(ctx, s.Question)
		if ctx.Err() != nil {
			return
		}
		c.answered(s, why, err)
	}
}

func (c *Comparison) ask(ctx context.Context, q Question) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answeredWithin)
	defer cancel()
	return c.Hindrance(ctx, q)
}

// answered judges a suspect by what excuses it.
func (c *Comparison) answered(s suspect, why string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = c.asking[1:]
	if c.partlyDone(s) {
		return
	}
	switch s.tries++; {
	case err != nil && (s.tries == mostTries || len(c.suspects) >= mostSuspects):
		c.dropped++
	case err != nil:
		c.suspects = append(c.suspects, s)
	case why == "":
		c.disagree(s.Disagreement)
	case s.Rule == NotDone:
		c.hindered(s)
	default:
		c.count(s.Controller, Superseded, 1)
	}
}

// partlyDone reports whether some of what was not done has been done since. The rest is waited for anew.
func (c *Comparison) partlyDone(s suspect) bool {
	k := c.keys[s.id]
	return s.Rule == NotDone && k != nil && k.items[s.at] != nil && !k.items[s.at].judged
}

// hindered begins to wait anew for a write that is planned still. It counts once.
func (c *Comparison) hindered(s suspect) {
	i := &item{}
	if k := c.keys[s.id]; k != nil && k.items[s.at] != nil {
		i = k.items[s.at]
		i.since, i.judged = c.Now(), false
	}
	if !i.excused {
		c.count(s.Controller, Hindered, 1)
	}
	i.excused = true
}

// HindranceOf returns what asks the API server: for the lease of who leads, for warnings about the object since the
// write was planned, and for who has written a field. It only lists.
func HindranceOf(client kubernetes.Interface, objects metadata.Interface, lease plan.Key) Hindrance {
	leads := leaseOf(client, lease)
	return func(ctx context.Context, q Question) (string, error) {
		if q.Path != "" {
			return writtenByOthers(ctx, objects, q)
		}
		leases, err := leads(ctx)
		if err != nil {
			return "", err
		}
		for _, l := range leases {
			if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil ||
				time.Since(l.Spec.RenewTime.Time) > silentFor {
				return "nobody leads", nil
			}
			if l.Spec.AcquireTime != nil && l.Spec.AcquireTime.After(q.Since) {
				return "who leads has just begun", nil
			}
		}
		return warned(ctx, client, q)
	}
}

// leaseOf returns what reads a lease, at most each leaseFor. It is called by one goroutine.
func leaseOf(client kubernetes.Interface, lease plan.Key) func(context.Context) ([]coordinationv1.Lease, error) {
	var read time.Time
	var known []coordinationv1.Lease
	return func(ctx context.Context) ([]coordinationv1.Lease, error) {
		if time.Since(read) < leaseFor {
			return known, nil
		}
		leases, err := client.CoordinationV1().Leases(lease.Namespace).List(ctx,
			metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", lease.Name).String()})
		if err != nil {
			return nil, err
		}
		read, known = time.Now(), leases.Items
		return known, nil
	}
}

// warned returns the reason of a warning of a controller about the object of the key, since the write was planned.
// Those of kubelets and schedulers say nothing of what hinders a controller.
func warned(ctx context.Context, client kubernetes.Interface, q Question) (string, error) {
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
		by := cmp.Or(e.ReportingController, e.Source.Component)
		ours := strings.HasSuffix(by, "controller") || by == "controllermanager" || by == "horizontal-pod-autoscaler"
		if ours && lastOf(e).Add(time.Second).After(q.Since) {
			return e.Reason, nil
		}
	}
	return "", nil
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
			var managed map[string]any
			if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &managed) != nil {
				continue
			}
			if hasPath(managed, q.Path) && !isManager(entry.Manager) {
				return entry.Manager + " has written it", nil
			}
		}
	}
	return "", nil
}

// isManager reports whether a field manager is a kube-controller-manager, or takes its place.
func isManager(name string) bool {
	return name == "controller-manager" || strings.HasPrefix(name, "kube-controller-manager")
}

// hasPath reports whether fields that somebody manages include that of a path, or are in it. Names may have dots in
// them. Of the elements of a list, any will do.
func hasPath(managed map[string]any, path string) bool {
	if path == "" {
		return true
	}
	for key, inner := range managed {
		below, _ := inner.(map[string]any)
		if strings.HasPrefix(key, "k:") || strings.HasPrefix(key, "v:") {
			if hasPath(below, path) {
				return true
			}
			continue
		}
		name, isField := strings.CutPrefix(key, "f:")
		rest, begins := strings.CutPrefix(path, name)
		if !isField || !begins {
			continue
		}
		if element, ok := strings.CutPrefix(rest, "["); ok {
			_, rest, _ = strings.Cut(element, "]")
		}
		if rest == "" || rest[0] == '.' && (len(below) == 0 || hasPath(below, rest[1:])) {
			return true
		}
	}
	return false
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
