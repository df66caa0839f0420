package proxy

import (
	"net/http"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
	"github.com/standalone-kcm/controller-manager/test/faults"
	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// aftermath is how long after the end of a fault the client may not have caught up yet.
const aftermath = 30 * time.Second

// Outages are the times, until now, in which the client could not see or act.
func (p *Proxy) Outages() []oracle.Outage { return p.state.Outages.All() }

// watched is the watch that the client asks for.
func (x *exchange) watched() faults.Watch {
	return faults.Watch{Resource: x.request.Resource, Selection: apirequest.Selection(x.r)}
}

func (x *exchange) object() faults.Object {
	return faults.Object{Resource: x.request.Resource, Namespace: x.request.Namespace, Name: x.request.Name}
}

// unanswered reports whether the API server has not done what was asked for the time being, or the client is not there any more.
func (x *exchange) unanswered(code int) bool {
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || x.r.Context().Err() != nil
}

// reconnecting is how long it takes, at most, until a client has repeated what was under way on a connection that was cut.
const reconnecting = time.Second

// disconnected notes that for a while nothing arrives.
func (p *Proxy) disconnected() {
	p.state.Outages.Blind(faults.Watch{}, time.Now().Add(reconnecting))
	time.AfterFunc(reconnecting, func() { p.state.Outages.CaughtUp(faults.Watch{}) })
}
