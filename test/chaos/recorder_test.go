package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/oracle/record"
)

// leaseNamespace is where the managers' leases are.
const leaseNamespace = "kube-system"

// recording keeps what happens in some namespaces, to nodes and their Leases, and to the managers' leases: all revisions, as the API
// server's watches show them, and all requests of the managers, as their proxies see them.
type recording struct {
	*record.Recorder
	namespaces []string
	began      time.Time
	alone      bool // see run.alone

	mu       sync.Mutex
	requests []oracle.Request
}

// shared is the recorder of all runs, which work side by side. It starts with the first of them.
var shared struct {
	sync.Mutex
	*record.Recorder
}

// newRecording records from now on what happens in a namespace.
func newRecording(t testing.TB, c *cluster.Cluster, namespace string) *recording {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.Recorder == nil {
		var err error
		if shared.Recorder, err = record.Start(context.Background(), c.RESTConfig); err != nil {
			t.Fatal(err)
		}
		labelNodes(t, c)
	}
	return &recording{Recorder: shared.Recorder, namespaces: []string{namespace, leaseNamespace, corev1.NamespaceNodeLease},
		began: time.Now()}
}

// labelNodes lets all managers see the nodes that there are. Of those that come, each sees only its own.
func labelNodes(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, proxy.Runs, proxy.ForAll)
	for _, n := range nodes.Items {
		if _, err := c.Client.CoreV1().Nodes().Patch(t.Context(), n.Name, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// answered records a request of a manager.
func (r *recording) answered(identity string, e proxy.Exchange) {
	version, err := strconv.ParseInt(e.Version, 10, 64)
	if err != nil {
		version = 0
	}
	request := oracle.Request{
		Received: e.Sent, Done: e.Done, User: identity, UserAgent: e.Agent, Credential: identity,
		Verb: e.Verb, Resource: e.Resource, Subresource: e.Subresource, Namespace: e.Namespace, Name: e.Name,
		UID: e.UID, PreconditionVersion: e.PreconditionVersion, Grace: e.Grace,
		Code: e.Code, Version: version, ResponseUID: e.AnsweredUID,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request)
}

// catchUp is how long the recorder may take until it has seen all.
const catchUp = time.Minute

// all returns what has happened until now.
func (r *recording) all(t testing.TB) *oracle.History {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), catchUp)
	defer cancel()
	r.mu.Lock()
	requests := slices.Clone(r.requests) // before the revisions, which then show what they did
	r.mu.Unlock()
	h, err := r.History(ctx, r.namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	r.leaveOut(h)
	for _, q := range requests {
		if q.Namespace == "" || slices.Contains(r.namespaces, q.Namespace) {
			h.Requests = append(h.Requests, q)
		}
	}
	return h
}

// now is a history of nothing but what exists at this moment.
func (r *recording) now(t testing.TB) *oracle.History {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), catchUp)
	defer cancel()
	h, err := r.Present(ctx, r.namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	r.leaveOut(h)
	return h
}

// leaveOut takes the nodes, volumes and classes of other runs out of a history: the manager of this one does not see them.
func (r *recording) leaveOut(h *oracle.History) {
	h.Revisions = slices.DeleteFunc(h.Revisions, func(v oracle.Revision) bool {
		switch o := v.Object.(type) {
		case *corev1.Node:
			runs := o.Labels[proxy.Runs]
			return runs != "" && runs != proxy.ForAll && !slices.Contains(r.namespaces, runs)
		case *corev1.PersistentVolume:
			return !r.owns(o.Name) && !slices.Contains(r.namespaces, o.Labels[proxy.OfNamespace])
		case *storagev1.VolumeAttachment: // whose nodes are named after the namespace
			return !r.owns(o.Spec.NodeName)
		case *certificatesv1.ClusterTrustBundle: // one manager at a time has them
			return !r.alone
		case *storagev1.VolumeAttributesClass, *storagev1.StorageClass, *apiserverinternalv1alpha1.StorageVersion:
			return !slices.Contains(r.namespaces, v.Object.GetLabels()[proxy.OfNamespace])
		}
		return false
	})
}

// owns reports whether something without a namespace is named after one of this run.
func (r *recording) owns(name string) bool {
	return slices.ContainsFunc(r.namespaces, func(namespace string) bool { return strings.HasPrefix(name, namespace+"-") })
}

// gap returns an error if revisions may be missing, because the API server had forgotten them before the recorder asked. A history
// with a hole says nothing about the manager. Gaps are excused that lie within blackouts of the control plane.
func (r *recording) gap(blackouts []oracle.Outage) (excused int, err error) {
	for _, gap := range r.Gaps() {
		switch {
		case gap.To.Before(r.began):
		case within(gap, blackouts):
			excused++
		default:
			err = fmt.Errorf("from %v to %v revisions may be missing", gap.From, gap.To)
		}
	}
	return excused, err
}

func within(gap oracle.Interval, blackouts []oracle.Outage) bool {
	for _, b := range blackouts {
		if b.Manager == "" && !gap.From.Before(b.From) && !gap.To.After(b.To) {
			return true
		}
	}
	return false
}
