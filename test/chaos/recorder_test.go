package chaos

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/oracle/record"
)

// leaseNamespace is where the managers' leases are.
const leaseNamespace = "kube-system"

// recording keeps what happens in some namespaces: all revisions, as the API server's watches show them, and all requests
// of the managers, as their proxies see them.
type recording struct {
	namespaces []string

	revisions *record.Recorder
	cancel    context.CancelFunc

	mu       sync.Mutex
	requests []oracle.Request
}

// begin records from now on what happens in the namespaces. What was recorded before is forgotten.
func (r *recording) begin(t testing.TB, config *rest.Config) {
	t.Helper()
	r.stop()
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	var err error
	if r.revisions, err = record.Start(ctx, config); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = nil
}

// stop ends the recording.
func (r *recording) stop() {
	if r.cancel != nil {
		r.cancel()
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

// end returns all that has happened in the namespaces, to nodes and to the managers' leases.
func (r *recording) end(t testing.TB) *oracle.History {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	h, err := r.revisions.Stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if gaps := r.revisions.Gaps(); len(gaps) > 0 {
		t.Logf("the recording has gaps, because the API server had forgotten: %v", gaps)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return &oracle.History{Revisions: within(h.Revisions, r.namespaces), Requests: r.requests}
}

// within are the revisions in some namespaces, of nodes and of the managers' leases.
func within(all []oracle.Revision, namespaces []string) []oracle.Revision {
	return slices.DeleteFunc(all, func(r oracle.Revision) bool {
		ns := r.Object.GetNamespace()
		return ns != "" && ns != leaseNamespace && !slices.Contains(namespaces, ns)
	})
}

// now is a history of nothing but what exists in the namespaces at this moment.
func (r *recording) now(t testing.TB, config *rest.Config) *oracle.History {
	t.Helper()
	snapshot := recording{namespaces: r.namespaces}
	defer func() { snapshot.stop() }()
	snapshot.begin(t, config)
	return snapshot.end(t)
}
