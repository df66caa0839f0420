package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/test/faults"
)

// frame is an event of a watch as it travels.
type frame struct {
	data []byte
	at   time.Time // when it arrived
	last bool      // the watch ends with it
	end  func()    // how it ends, nil for in good order
}

// stream is a watch that is being passed on. What arrives is queued without limit, so that the API server never finds the
// client slow, and delivered when it is due.
type stream struct {
	*exchange
	channel  *faults.Channel
	protobuf bool

	mu    sync.Mutex
	queue []frame
	wake  chan struct{}
}

// watch opens the watch at the API server and passes its events on.
func (x *exchange) watch(upstream string) {
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	resp, err := x.send(ctx, upstream)
	if err != nil {
		x.state.Outages.Blind(x.watched(), time.Now())
		answer(x.w, http.StatusBadGateway, 0)
		return
	}
	defer resp.Body.Close()
	copyHeader(x.w, resp)
	if resp.StatusCode != http.StatusOK {
		x.state.Outages.Blind(x.watched(), time.Now())
		_, _ = io.Copy(x.w, resp.Body)
		return
	}
	s := &stream{
		// before the client knows that it watches: faults that begin then meet the watch
		exchange: x, channel: x.state.Watches(x.watched()),
		protobuf: strings.HasPrefix(resp.Header.Get("Content-Type"), runtime.ContentTypeProtobuf),
		wake:     make(chan struct{}, 1),
	}
	_ = http.NewResponseController(x.w).Flush()
	received := make(chan struct{})
	go func() {
		defer close(received)
		s.receive(resp.Body)
	}()
	end := s.deliver(ctx)
	x.state.Outages.Blind(x.watched(), time.Now()) // until it watches again
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
			end := abort
			if errors.Is(err, io.EOF) {
				end = nil // as the API server ends a watch from time to time
			}
			s.put(frame{last: true, end: end, at: time.Now()})
			return
		}
		now := time.Now()
		if !s.channel.Due(now).Equal(now) {
			s.arrives(data)
		}
		s.put(frame{data: data, at: now})
	}
}

// abort breaks the watch off.
func abort() { panic(http.ErrAbortHandler) }

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

// arrives notes that an event meets a fault, unless it is a bookmark.
func (s *stream) arrives(data []byte) {
	contentType := runtime.ContentTypeJSON
	var event metav1.WatchEvent
	var err error
	if s.protobuf {
		contentType, err = runtime.ContentTypeProtobuf, event.Unmarshal(data[4:])
	} else {
		err = json.Unmarshal(data, &event)
	}
	if err != nil || event.Type == "BOOKMARK" {
		return
	}
	meta := metaOf(contentType, event.Object.Raw)
	s.channel.Arrives(fmt.Sprintf("%s/%s at version %s", meta.Namespace, meta.Name, meta.ResourceVersion))
}

// gone is the event that says that the watch is too old. It is empty if it cannot be encoded.
func (s *stream) gone() []byte {
	object, err := encodeStatus(s.protobuf, status(http.StatusGone, 0))
	if err != nil {
		return nil
	}
	event := metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Raw: object}}
	if s.protobuf {
		data, err := event.Marshal()
		if err != nil {
			return nil
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
	}
	data, err := json.Marshal(event)
	if err != nil {
		return nil
	}
	return append(data, '\n')
}

func (s *stream) put(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, f)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// deliver sends what is due, until the watch ends, and returns how to end it.
func (s *stream) deliver(ctx context.Context) (end func()) {
	flush := http.NewResponseController(s.w).Flush
	for {
		changed := s.channel.Changed()
		f, wait, ok := s.take(time.Now()) // before it is asked whether the watch was cut, so that no event comes after that
		if err := s.channel.Cut(); errors.Is(err, faults.ErrExpired) {
			if _, err := s.w.Write(s.gone()); err == nil && flush() == nil {
				return nil
			}
			return abort
		} else if err != nil {
			return abort
		}
		switch {
		case ok && f.last:
			return f.end
		case ok:
			if _, err := s.w.Write(f.data); err != nil || flush() != nil {
				return nil
			}
			continue
		}
		select {
		case <-s.wake:
		case <-changed:
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
		s.channel.CaughtUp()
		return f, time.Hour, false
	}
	due := s.channel.Due(s.queue[0].at)
	if due.IsZero() {
		return f, time.Hour, false
	}
	if wait = due.Sub(now); wait > 0 {
		return f, wait, false
	}
	f, s.queue = s.queue[0], s.queue[1:]
	return f, 0, true
}
