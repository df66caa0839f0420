package agreement

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Hindrance says why a write that was planned at a time for the object with a uid was not done; empty if nothing
// hinders it.
type Hindrance func(ctx context.Context, about plan.Key, owner types.UID, since time.Time) (string, error)

// suspect is a write that is not done, and perhaps cannot be.
type suspect struct {
	Disagreement
	owner types.UID
	about plan.Key
	since time.Time
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
		why, err := c.Hindrance(ctx, s.about, s.owner, s.since)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		if why != "" && err == nil {
			c.count(s.Controller, Hindered, 1)
		} else {
			c.disagree(s.Disagreement)
		}
		c.mu.Unlock()
	}
}

// HindranceOf returns what asks the API server: for the lease of who leads, and for warnings about the object since
// the write was planned. It only lists.
func HindranceOf(client kubernetes.Interface, lease plan.Key) Hindrance {
	return func(ctx context.Context, about plan.Key, owner types.UID, since time.Time) (string, error) {
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
			if l.Spec.AcquireTime != nil && l.Spec.AcquireTime.After(since) {
				return "who leads has just begun", nil
			}
		}
		if owner == "" {
			return "", nil
		}
		namespace := about.Namespace
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.uid", string(owner)),
				fields.OneTermEqualSelector("type", corev1.EventTypeWarning)).String()})
		if err != nil {
			return "", err
		}
		for _, e := range events.Items {
			if lastOf(e).Add(time.Second).After(since) {
				return e.Reason, nil
			}
		}
		return "", nil
	}
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
