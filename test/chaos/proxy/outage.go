package proxy

import (
	"net/http"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/oracle/outage"
)

// aftermath is how long after the end of a fault the client may not have caught up yet: reflectors wait before they ask again
// (CI-13), and so do keys whose requests have failed.
const aftermath = 30 * time.Second

// Outages are the times, until now, in which the client could not see or act.
func (p *Proxy) Outages() []oracle.Outage { return p.outages.Outages() }

// watched is the watch that the client asks for.
func (x *exchange) watched() outage.Watch {
	return outage.Watch{Resource: x.request.Resource, Selection: apirequest.Selection(x.r)}
}

func (x *exchange) object() outage.Object {
	return outage.Object{Resource: x.request.Resource, Namespace: x.request.Namespace, Name: x.request.Name}
}

// refused notes that a fault keeps the client from what it asks for.
func (x *exchange) refused() {
	if x.request.Verb == "watch" {
		x.outages.Blind(x.watched(), time.Now())
	} else {
		x.outages.Refused(x.object())
	}
}

// answered notes what the API server has answered to the client, if it is still there.
func (x *exchange) answered(code int) {
	if code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || x.r.Context().Err() != nil {
		x.refused()
	} else {
		x.outages.Answered(x.object())
	}
}

// silence lets nothing through the connection for a while.
func (x *exchange) silence(d time.Duration) {
	x.conns.silence(x.r, d)
	x.disconnected(d)
}

// reconnecting is how long it takes, at most, until a client has repeated what was under way on a connection that was cut.
const reconnecting = time.Second

// disconnected notes that for a while nothing arrives.
func (p *Proxy) disconnected(d time.Duration) {
	p.outages.Blind(outage.Watch{}, time.Now().Add(d))
	time.AfterFunc(d, func() { p.outages.CaughtUp(outage.Watch{}) })
}

// idle reports whether all that has arrived was delivered.
func (s *stream) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0 && !s.losing && !s.frozen.After(time.Now())
}
