package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// frame is an event of a watch as it travels.
type frame struct {
	data []byte
	due  time.Time // when it is to be delivered
	last bool      // the watch ends after it
	end  func()    // how it ends instead, nil for in good order
}

// stream is a watch that is being passed on. What arrives is queued without limit, so that the API server never finds the
// client slow, and delivered when it is due.
type stream struct {
	*exchange
	protobuf bool

	mu     sync.Mutex
	queue  []frame
	wake   chan struct{}
	frozen time.Time // until when nothing is delivered
	losing bool      // everything is lost, until the watch ends
}

// watch opens the watch at the API server and passes its events on.
func (x *exchange) watch(upstream string) {
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	resp, err := x.send(ctx, upstream)
	if err != nil {
		x.refused()
		answer(x.w, http.StatusBadGateway, 0)
		return
	}
	defer resp.Body.Close()
	copyHeader(x.w, resp)
	_ = http.NewResponseController(x.w).Flush()
	if resp.StatusCode != http.StatusOK {
		x.refused()
		_, _ = io.Copy(x.w, resp.Body)
		return
	}
	s := &stream{
		exchange: x,
		protobuf: strings.HasPrefix(resp.Header.Get("Content-Type"), runtime.ContentTypeProtobuf),
		wake:     make(chan struct{}, 1),
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		s.receive(resp.Body)
	}()
	end := s.deliver(ctx)
	x.outages.Blind(x.watched(), time.Now()) // until it watches again
	cancel()
	<-received
	if end != nil {
		end()
	}
}

// receive queues what the API server sends.
func (s *stream) receive(body io.Reader) {
	reader := bufio.NewReaderSize(body, 64<<10)
	for {
		data, err := s.next(reader)
		if err != nil {
			end := func() { panic(http.ErrAbortHandler) }
			if errors.Is(err, io.EOF) {
				end = nil // as the API server ends a watch from time to time
			}
			s.put(frame{last: true, end: end, due: time.Now()})
			return
		}
		if !s.decide(data) {
			return
		}
	}
}

// next reads a frame: in protobuf 4 bytes of length and so many of data, in JSON a line.
func (s *stream) next(r *bufio.Reader) ([]byte, error) {
	if !s.protobuf {
		line, err := r.ReadBytes('\n')
		if err == io.EOF && len(line) > 0 {
			err = nil
		}
		return line, err
	}
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	data := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
	copy(data, length[:])
	_, err := io.ReadFull(r, data[4:])
	return data, err
}

// decide asks the script about an event and queues it accordingly. It reports false when the watch has ended.
func (s *stream) decide(data []byte) bool {
	now := time.Now()
	f := frame{data: data, due: now}
	kind, meta := s.parse(data)
	request := s.request
	request.Verb, request.Name = "event", meta.Name
	if request.Namespace == "" {
		request.Namespace = meta.Namespace
	}
	s.Proxy.mu.Lock()
	script := s.Proxy.script // a watch may be older than the script
	s.Proxy.mu.Unlock()
	var rule *Rule
	if kind != "BOOKMARK" && kind != "ERROR" && !s.isLosing() {
		rule = script.decide(request, now)
	}
	if rule == nil {
		return s.put(f)
	}
	s.log(Injection{At: now, Request: request, Version: meta.ResourceVersion, Rule: rule.text})
	switch a := rule.action; a.Name {
	case "delay":
		f.due = now.Add(a.Duration)
		s.outages.Blind(s.watched(), f.due)
	case "freeze":
		s.freeze(now.Add(a.Duration))
		s.outages.Blind(s.watched(), now.Add(a.Duration))
	case "blackhole":
		s.silence(a.Duration)
	case "drop":
		s.lose(now.Add(a.Duration))
		s.outages.Blind(s.watched(), now.Add(a.Duration))
		return true
	case "gone":
		s.put(s.goneFrame(now))
		return false
	case "cut":
		s.put(frame{last: true, end: s.cut, due: now})
		return false
	case "reset":
		s.put(frame{last: true, end: func() { panic(http.ErrAbortHandler) }, due: now})
		return false
	case "kill before":
		s.options.Kill()
		return false
	case "kill after":
		f.last, f.end = true, s.options.Kill
	}
	return s.put(f)
}

// parse reads the type of an event and the metadata of its object.
func (s *stream) parse(data []byte) (kind string, meta metav1.ObjectMeta) {
	var event metav1.WatchEvent
	if s.protobuf {
		if event.Unmarshal(data[4:]) != nil {
			return "", meta
		}
		return event.Type, metaOf(runtime.ContentTypeProtobuf, event.Object.Raw)
	}
	if json.Unmarshal(data, &event) != nil {
		return "", meta
	}
	return event.Type, metaOf(runtime.ContentTypeJSON, event.Object.Raw)
}

func (s *stream) goneFrame(due time.Time) frame {
	f := frame{last: true, due: due, end: func() { panic(http.ErrAbortHandler) }}
	object, err := encodeStatus(s.protobuf, status(http.StatusGone, 0))
	if err != nil {
		return f // the watch just breaks off
	}
	event := metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Raw: object}}
	if s.protobuf {
		if f.data, err = event.Marshal(); err == nil {
			f.data, f.end = append(binary.BigEndian.AppendUint32(nil, uint32(len(f.data))), f.data...), nil
		}
		return f
	}
	if f.data, err = json.Marshal(event); err == nil {
		f.data, f.end = append(f.data, '\n'), nil
	}
	return f
}

// put queues a frame. Events keep their order, so none is due before the one ahead of it. It reports false when no more
// are wanted.
func (s *stream) put(f frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.losing && !f.last {
		return true
	}
	if n := len(s.queue); n > 0 && f.due.Before(s.queue[n-1].due) {
		f.due = s.queue[n-1].due
	}
	s.queue = append(s.queue, f)
	s.notify()
	return !f.last
}

func (s *stream) freeze(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.frozen) {
		s.frozen = until
	}
}

// lose loses all that comes, and ends the watch at the given time.
func (s *stream) lose(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losing = true
	s.queue = append(s.queue, s.goneFrame(until))
	s.notify()
}

func (s *stream) isLosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.losing
}

func (s *stream) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// deliver sends what is due, until the watch ends, and returns how to end it.
func (s *stream) deliver(ctx context.Context) (end func()) {
	flush, watched := http.NewResponseController(s.w).Flush, s.watched()
	for {
		f, wait, ok := s.take(time.Now())
		if ok {
			if _, err := s.w.Write(f.data); err != nil {
				return nil
			}
			if flush() != nil {
				return nil
			}
			if f.last {
				return f.end
			}
			continue
		}
		if s.idle() {
			s.outages.CaughtUp(watched)
		}
		select {
		case <-s.wake:
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		case <-s.ctx.Done():
			return nil
		}
	}
}

// take takes out the first frame if it is due, and otherwise says how long to wait.
func (s *stream) take(now time.Time) (f frame, wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return f, time.Hour, false
	}
	due := s.queue[0].due
	if s.frozen.After(due) {
		due = s.frozen
	}
	if wait = due.Sub(now); wait > 0 {
		return f, wait, false
	}
	f, s.queue = s.queue[0], s.queue[1:]
	return f, 0, true
}
