package cpufloor

import (
	"bytes"
	"io"
	"net/http"
)

// Wrap returns a handler that records what the given one is asked and what it answers.
func (r *Recorder) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		x := &Exchange{Method: req.Method, URL: req.URL.RequestURI(), Header: req.Header.Clone(), Body: body}
		r.begin(x)
		defer r.end(x)
		next.ServeHTTP(&recordingWriter{w, r, x}, req)
	})
}

// recordingWriter records an answer while it is written.
type recordingWriter struct {
	http.ResponseWriter
	recorder *Recorder
	exchange *Exchange
}

// Unwrap lets http.ResponseController flush.
func (w *recordingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recordingWriter) WriteHeader(status int) {
	w.recorder.answer(w.exchange, status, w.Header())
	w.ResponseWriter.WriteHeader(status)
}

func (w *recordingWriter) Write(data []byte) (int, error) {
	if w.exchange.Status == 0 { // only this goroutine sets it
		w.WriteHeader(http.StatusOK)
	}
	w.recorder.piece(w.exchange, data)
	return w.ResponseWriter.Write(data)
}
