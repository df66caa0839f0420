// Package cpufloor measures the CPU time that requests cost at least. It records what a client asks of an API server and what it
// is answered. A bare HTTP/2 client in a process of its own then sends the same requests again, at the same times, and reads the same
// answers, the same bytes of watches among them.
package cpufloor

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Recording is what a client has asked, in the order in which it was asked.
type Recording []Exchange

// Exchange is a request and its answer.
type Exchange struct {
	Sent   time.Duration // since the recording began; zero for a watch that ran before
	Method string
	URL    string // path and query
	Header http.Header
	Body   []byte

	Status       int
	AnswerHeader http.Header
	Answer       []Piece // more than one where the answer came in parts, as that of a watch
}

// Piece is a part of an answer.
type Piece struct {
	At   time.Duration // since the recording began
	Data []byte
}

// Recorder records the requests that go through its handler, from Start to Stop. Use NewRecorder.
type Recorder struct {
	mu      sync.Mutex
	began   time.Time // zero while nothing is recorded
	running map[*Exchange]bool
	all     []*Exchange
}

// NewRecorder returns a recorder that does not record yet.
func NewRecorder() *Recorder { return &Recorder{running: map[*Exchange]bool{}} }

// Start begins a recording. Watches that run already belong to it, with what they bring from now on.
func (r *Recorder) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.all = time.Now(), nil
	for x := range r.running {
		x.Sent, x.Answer = 0, nil
		r.all = append(r.all, x)
	}
}

// Stop ends the recording and returns it. What is not answered at all by then is left out.
func (r *Recorder) Stop() Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	var recording Recording
	for _, x := range r.all {
		if x.Status != 0 {
			recording = append(recording, *x)
		}
	}
	r.began, r.all = time.Time{}, nil
	slices.SortStableFunc(recording, func(a, b Exchange) int { return cmp.Compare(a.Sent, b.Sent) })
	return recording
}

// begin notes a request.
func (r *Recorder) begin(x *Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[x] = true
	if !r.began.IsZero() {
		x.Sent = time.Since(r.began)
		r.all = append(r.all, x)
	}
}

func (r *Recorder) end(x *Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, x)
}

func (r *Recorder) answer(x *Exchange, status int, header http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.Status, x.AnswerHeader = status, header.Clone()
}

func (r *Recorder) piece(x *Exchange, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.began.IsZero() {
		x.Answer = append(x.Answer, Piece{At: time.Since(r.began), Data: slices.Clone(data)})
	}
}
