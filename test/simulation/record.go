package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// record is what happened.
type record struct {
	server *apiserver.Server

	mu       sync.Mutex
	requests []oracle.Request
	activity time.Time // the last change of anything but leases and events, and the last time that a process gave up waiting
	broken   []string
	ended    map[types.UID]bool // pods that have ended and are there
	atOnce   int                // the most of them at the same time
}

func newRecord(s *apiserver.Server) *record {
	r := &record{server: s, activity: time.Now(), ended: map[types.UID]bool{}}
	s.Wrote = r.wrote
	return r
}

func (r *record) violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

// lastActivity is when something has happened for the last time that a process may yet act upon.
func (r *record) lastActivity() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.activity
}

// gaveUp notes that a process waits no longer for an answer. What it asked for may have been done, and it acts upon that only now.
func (r *record) gaveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.activity = time.Now()
}

// managed reports whether a manager does what is done under that name.
func managed(by string) bool { return strings.HasPrefix(by, "m") && strings.Contains(by, ".") }

// countEnded notes which pods have ended.
func (r *record) countEnded(did apiserver.Result) {
	if p, ok := did.Before.(*corev1.Pod); ok && did.Err == nil {
		delete(r.ended, p.UID)
	}
	if p, ok := did.After.(*corev1.Pod); ok && did.Err == nil && podutil.Finished(p) {
		r.ended[p.UID] = true
	}
	r.atOnce = max(r.atOnce, len(r.ended))
}

// wrote notes a write.
func (r *record) wrote(w apiserver.Write, did apiserver.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if did.Err == nil && did.Before != did.After && w.Resource != "leases" && w.Resource != "events" {
		r.activity = time.Now()
	}
	r.countEnded(did)
	if !managed(w.By) {
		return
	}
	q := oracle.Request{
		ID: strconv.Itoa(len(r.requests)), Received: time.Now(), Done: time.Now(), User: "system:kube-controller-manager",
		UserAgent: w.By + "/" + w.Agent, Verb: string(w.Verb), Resource: w.Resource, Subresource: w.Subresource,
		Namespace: w.Namespace, Name: w.Name, UID: uidOf(w), Grace: w.Options.GracePeriodSeconds, Code: codeOf(w.Verb, did.Err),
	}
	if p := w.Options.Preconditions; p != nil && p.ResourceVersion != nil {
		q.PreconditionVersion = *p.ResourceVersion
	}
	if did.After != nil {
		q.Version, _ = strconv.ParseInt(did.After.GetResourceVersion(), 10, 64)
		q.ResponseUID = did.After.GetUID()
	}
	r.requests = append(r.requests, q)
}

// served notes a request that is no write.
func (r *record) served(by string, q apiserver.Request, err error) {
	if q.Write() || q.Resource == "leases" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, oracle.Request{
		ID: strconv.Itoa(len(r.requests)), Received: time.Now(), Done: time.Now(), User: "system:kube-controller-manager",
		UserAgent: by + "/" + q.Agent, Verb: q.Verb, Resource: q.Resource, Subresource: q.Subresource,
		Namespace: q.Namespace, Name: q.Name, Code: codeOf("", err),
	})
}

// uidOf is the uid that the object of a write must have.
func uidOf(w apiserver.Write) types.UID {
	switch {
	case w.Verb == apiserver.Delete && w.Options.Preconditions != nil && w.Options.Preconditions.UID != nil:
		return *w.Options.Preconditions.UID
	case w.Verb == apiserver.Update:
		return w.Object.GetUID()
	case w.Verb == apiserver.Patch:
		var patch struct{ Metadata struct{ UID types.UID } }
		_ = json.Unmarshal(w.Patch, &patch)
		return patch.Metadata.UID
	}
	return ""
}

func codeOf(v apiserver.Verb, err error) int {
	if status, ok := err.(apierrors.APIStatus); ok {
		return int(status.Status().Code)
	}
	if v == apiserver.Create {
		return http.StatusCreated
	}
	return http.StatusOK
}

// recorded are the resources that oracles judge.
var recorded = strings.Fields(
	"pods replicasets replicationcontrollers deployments daemonsets statefulsets persistentvolumeclaims jobs services endpoints " +
		"endpointslices " +
		"controllerrevisions configmaps namespaces nodes leases poddisruptionbudgets resourcequotas " +
		"persistentvolumes storageclasses volumeattachments volumeattributesclasses servicecidrs ipaddresses resourceclaims " +
		"resourceclaimtemplates " +
		"podcertificaterequests clustertrustbundles storageversions resourceslices devicetaintrules podgroups workloads")

// history is what happened in the form that oracles read.
func (r *record) history() *oracle.History {
	h := &oracle.History{Requests: r.requests}
	for _, resource := range recorded {
		for _, e := range r.server.Since(resource, 0) {
			h.Append(oracle.Revision{
				Version: int64(e.Version), Type: oracle.Type(e.Type), Object: e.Object, When: e.Time, Injected: !managed(e.By),
			})
		}
	}
	return h
}

// happened returns what happened, in order, a line for each change and for each request of a manager. Two runs that have the same lines
// are the same run.
func (r *record) happened() []string {
	type moment struct {
		when    time.Time
		version uint64
		line    string
	}
	var moments []moment
	for _, resource := range append(slices.Clone(recorded), "events") {
		for _, e := range r.server.Since(resource, 0) {
			moments = append(moments,
				moment{e.Time, e.Version, fmt.Sprintln("version", e.Version, e.Type, resource, e.Object.GetNamespace(),
					e.Object.GetName(), e.Object.GetUID(), "generation", e.Object.GetGeneration(), "by", e.By)})
		}
	}
	for _, q := range r.requests {
		moments = append(moments,
			moment{q.Done, math.MaxUint64, fmt.Sprintln("request", q.ID, q.Verb, q.Resource, q.Subresource, q.Namespace, q.Name,
				q.Code, "by", q.UserAgent)})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Or(a.when.Compare(b.when), cmp.Compare(a.version, b.version)) })
	lines := make([]string, len(moments))
	for i, m := range moments {
		lines[i] = m.when.UTC().Format("15:04:05.000000000 ") + m.line
	}
	return lines
}
