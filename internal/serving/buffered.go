package serving

import (
	"bytes"
	"net/http"
	"time"
)

// maxBuffered is how much of an answer is held back until its handler has ended. All answers to probes, and all
// refusals, are shorter.
const maxBuffered = 16 << 10

// buffered holds a short answer back. The handler has then ended, and has given its place back, before the answer waits
// for a client that does not read.
type buffered struct {
	http.ResponseWriter
	quick time.Duration // the time that the client has to read the answer; 0: that of the server
	code  int
	// buffer is the answer as long as it is short, so that no place is taken while the client reads it.
	buffer bytes.Buffer
	begun  bool // the answer is on its way
}

// WriteHeader keeps the code until it is known what the answer is.
func (w *buffered) WriteHeader(code int) {
	switch {
	case code < http.StatusOK:
		w.ResponseWriter.WriteHeader(code) // the answer is still to come
	case w.code == 0:
		w.code = code
	}
}

// Write keeps a short answer, and sends a long one as it comes.
func (w *buffered) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.begun && w.buffer.Len()+len(p) <= maxBuffered {
		return w.buffer.Write(p)
	}
	if err := w.send(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// send lets go what is held back.
func (w *buffered) send() error {
	if w.begun {
		return nil
	}
	w.begun = true
	if w.quick > 0 {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.quick))
	}
	if w.code != 0 {
		w.ResponseWriter.WriteHeader(w.code)
	}
	_, err := w.ResponseWriter.Write(w.buffer.Bytes())
	w.buffer = bytes.Buffer{}
	return err
}

// FlushError implements what http.ResponseController.Flush asks for.
func (w *buffered) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if err := w.send(); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// discard forgets an answer that has not begun.
func (w *buffered) discard() {
	w.code = 0
	w.buffer.Reset()
}

// Unwrap lets http.ResponseController find the rest.
func (w *buffered) Unwrap() http.ResponseWriter { return w.ResponseWriter }
