package apiserver

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
)

// bookmarkEvery is how often a watch is told the current version if nothing else happens.
const bookmarkEvery = time.Minute

// Channel is the way of one watch through the network. Its methods are called with the watch locked; they must not block.
type Channel interface {
	// Due returns when an event gets through. A zero time means: not before Changed.
	Due(*Event) time.Time
	// CaughtUp is called when the watch has sent everything that there is.
	CaughtUp()
	// Changed is closed when an answer of Due may have changed, or the channel is cut. It may be nil.
	Changed() <-chan struct{}
	// Cut returns an error when the connection is broken.
	Cut() error
}

// watcher is the body of the answer to a watch.
type watcher struct {
	server  *Server
	store   *store
	ctx     context.Context
	channel Channel
	request request
	matches func(Object) bool
	encoding
	form form

	closed   chan struct{}
	closing  sync.Once
	ends     time.Time
	bookmark time.Time // the next one

	position uint64 // version up to which events were sent
	buffer   bytes.Buffer
}

// mostIdle is how large the buffer of a watch is that has nothing to send.
const mostIdle = 4 << 10

// watch begins a watch.
func (c *Client) watch(req *http.Request, r request) (*http.Response, error) {
	if err := validateList(r.list); err != nil {
		return c.fail(req, err)
	}
	matches, err := r.store.selection(r.list)
	if err != nil {
		return c.fail(req, err)
	}
	f := c.accepted(req, r.store.custom())
	w := &watcher{
		server: c.Server, store: r.store, ctx: req.Context(), request: r, matches: matches,
		encoding: c.Server.encodings[f.mediaType], form: f,
		closed: make(chan struct{}), ends: time.Now().Add(365 * 24 * time.Hour), bookmark: time.Now().Add(bookmarkEvery),
	}
	if c.Network != nil {
		r.Selection = apirequest.Selection(req)
		w.channel = c.Network.Watching(r.Request)
	}
	if n := r.list.TimeoutSeconds; n != nil {
		w.ends = time.Now().Add(time.Duration(*n) * time.Second)
	}
	if err := w.begin(c); err != nil {
		return c.fail(req, err)
	}
	res := answer(req, http.StatusOK, f.mediaType+";stream=watch", nil)
	res.Body, res.ContentLength = w, -1
	return res, nil
}

// begin decides where the watch begins: at a version, or with the objects that there are.
func (w *watcher) begin(c *Client) error {
	asked, initial := w.request.list.ResourceVersion, w.request.list.SendInitialEvents
	streams := initial != nil && *initial
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	var from uint64
	if asked != "" {
		var err error
		if from, err = parseVersion(asked); err != nil {
			return err
		}
	}
	current := w.server.version
	if asked != "" {
		current = c.known(w.store)
	}
	switch {
	case streams && from > c.known(w.store):
		return tooNew(from, c.known(w.store))
	case streams, initial == nil && from == 0:
		w.position = current
		w.sendAll(streams)
	case from == 0: // no initial events
		w.position = current
	case from < w.store.compacted:
		gone := apierrors.NewResourceExpired("too old resource version: " + asked).Status()
		gone.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.send(string(watch.Error), &gone)
		w.ends = time.Time{}
	default:
		w.position = from
	}
	return nil
}

// sendAll sends all objects as added, and then says so if asked to.
func (w *watcher) sendAll(announced bool) {
	for _, o := range w.store.at(w.position) {
		if w.wants(o) {
			w.send(string(watch.Added), o)
		}
	}
	if announced && w.request.list.AllowWatchBookmarks {
		w.sendBookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
}

// wants reports whether the watch is about the object.
func (w *watcher) wants(o Object) bool {
	return o != nil && (w.request.Namespace == "" || o.GetNamespace() == w.request.Namespace) && w.matches(o)
}

// Read waits for events. It returns what is due as it was encoded.
func (w *watcher) Read(p []byte) (int, error) {
	for {
		var channelChanged <-chan struct{}
		if w.channel != nil {
			channelChanged = w.channel.Changed() // first: what changes from here on is not missed
			if err := w.channel.Cut(); err != nil {
				return 0, err
			}
		}
		if w.buffer.Len() > 0 {
			return w.buffer.Read(p)
		}
		changed, next := w.advance()
		if w.buffer.Len() > 0 {
			continue
		}
		if !time.Now().Before(w.ends) {
			return 0, io.EOF
		}
		if w.buffer.Cap() > mostIdle {
			w.buffer = bytes.Buffer{} // that of the initial objects
		}
		if err := w.wait(changed, channelChanged, next); err != nil {
			return 0, err
		}
	}
}

// wait waits until something may be due.
func (w *watcher) wait(changed, channelChanged <-chan struct{}, next time.Time) error {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-changed:
	case <-channelChanged:
	case <-timer.C:
	case <-w.closed:
		return io.EOF
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
	return nil
}

// advance takes what is due from the history. It returns what to wait for.
func (w *watcher) advance() (changed <-chan struct{}, next time.Time) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	now := time.Now()
	next = w.ends
	for _, e := range w.store.since(w.position) {
		if w.channel != nil {
			due := w.channel.Due(e)
			if due.IsZero() {
				return w.server.changed, next
			}
			if due.After(now) {
				return w.server.changed, earlier(next, due)
			}
		}
		w.position = e.Version
		w.sendEvent(e)
	}
	if w.channel != nil && now.Before(w.ends) {
		w.channel.CaughtUp()
	}
	if !w.request.list.AllowWatchBookmarks {
		return w.server.changed, next
	}
	if !now.Before(w.bookmark) {
		w.position = w.server.version
		w.sendBookmark(nil)
		w.bookmark = now.Add(bookmarkEvery)
	}
	return w.server.changed, earlier(next, w.bookmark)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sendEvent sends a change as it looks to this watch: what comes into its selection is added, what leaves it is deleted.
func (w *watcher) sendEvent(e *Event) {
	had, has := w.wants(e.Before), w.wants(e.Object) && e.Type != watch.Deleted
	var kind watch.EventType
	switch {
	case had && has:
		kind = watch.Modified
	case has:
		kind = watch.Added
	case had:
		kind = watch.Deleted
	default:
		return
	}
	if kind == e.Type { // the ordinary case: encoded once for all
		if e.frames[w.form] == nil {
			frame, err := w.frame(string(kind), w.form.turn(e.Object))
			if err != nil {
				return
			}
			if e.frames == nil {
				e.frames = map[form][]byte{}
			}
			e.frames[w.form] = frame
		}
		w.buffer.Write(e.frames[w.form])
		return
	}
	o := e.Object
	if kind == watch.Deleted { // as it was when it was in, with the version of now
		o = e.Before.DeepCopyObject().(Object)
		o.SetResourceVersion(e.Object.GetResourceVersion())
	}
	w.send(string(kind), o)
}

func (w *watcher) sendBookmark(annotations map[string]string) {
	o := w.store.New()
	setType(w.store.Kind, o)
	o.SetResourceVersion(strconv.FormatUint(w.position, 10))
	o.SetAnnotations(maps.Clone(annotations))
	w.send(string(watch.Bookmark), o)
}

func (w *watcher) send(kind string, o runtime.Object) {
	frame, err := w.frame(kind, w.form.turn(o))
	if err == nil {
		w.buffer.Write(frame)
	}
}

// Close ends the watch.
func (w *watcher) Close() error {
	w.closing.Do(func() { close(w.closed) })
	return nil
}
