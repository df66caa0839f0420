package identity

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// masked stands in the log for a body that nobody may read there.
const masked = "<masked>"

// WithoutBodies returns the logger without the bodies of requests and answers that client-go writes to it from
// verbosity 8 on. Client-go logs them where nothing shows what they are about, tokens and Secrets too. All clients made
// by a [Builder] log bodies themselves, and mask those.
func WithoutBodies(logger klog.Logger) klog.Logger {
	sink := logger.GetSink()
	if _, ok := sink.(*bodyless); ok || sink == nil {
		return logger
	}
	return logger.WithSink(&bodyless{deeper(sink, 1)}) // which is one call more on the way
}

// bodyless leaves bodies out.
type bodyless struct{ next klog.LogSink }

func (s *bodyless) Init(klog.RuntimeInfo) {} // next has been

func (s *bodyless) Enabled(level int) bool { return s.next.Enabled(level) }

// Info leaves out what client-go logs of the bodies of requests and answers: they may hold credentials.
func (s *bodyless) Info(level int, msg string, kv ...any) {
	if slices.Contains(kv, any("body")) && strings.HasSuffix(msg, " Body") {
		return
	}
	s.next.Info(level, msg, kv...)
}

func (s *bodyless) Error(err error, msg string, kv ...any) { s.next.Error(err, msg, kv...) }

func (s *bodyless) WithName(name string) klog.LogSink { return &bodyless{s.next.WithName(name)} }

func (s *bodyless) WithValues(kv ...any) klog.LogSink { return &bodyless{s.next.WithValues(kv...)} }

// WithCallDepth lets a logger name the line that has called it.
func (s *bodyless) WithCallDepth(depth int) klog.LogSink { return &bodyless{deeper(s.next, depth)} }

// deeper has a sink report another caller, if it can.
func deeper(sink klog.LogSink, depth int) klog.LogSink {
	if s, ok := sink.(interface{ WithCallDepth(depth int) klog.LogSink }); ok {
		return s.WithCallDepth(depth)
	}
	return sink
}

// bodyLog logs bodies from verbosity 8 on, as client-go does, but none that may hold a token or a Secret.
type bodyLog struct{ next http.RoundTripper }

// WrappedRoundTripper lets client-go find the transport inside.
func (l *bodyLog) WrappedRoundTripper() http.RoundTripper { return l.next }

// RoundTrip implements http.RoundTripper.
func (l *bodyLog) RoundTrip(req *http.Request) (*http.Response, error) {
	logger := klog.FromContext(req.Context()).V(8)
	if !logger.Enabled() {
		return l.next.RoundTrip(req)
	}
	about := []any{"verb", req.Method, "url", req.URL.String()}
	if req.GetBody != nil {
		logger.Info("Body of a request", append(about, "content", bodyOf(logger, req))...)
	}
	answer, err := l.next.RoundTrip(req)
	if err != nil {
		return answer, err
	}
	if watch, _ := strconv.ParseBool(req.URL.Query().Get("watch")); watch {
		return answer, err // it ends when the watch does
	}
	content := masked
	if !secret(req.URL.Path) {
		content = readable(logger, take(answer))
	}
	logger.Info("Body of an answer", append(about, "status", answer.StatusCode, "content", content)...)
	return answer, err
}

// secret reports whether bodies at the path may hold Secrets or tokens: those of service accounts, and those that the
// API server is asked about.
func secret(path string) bool {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if part == "secrets" || part == "authentication.k8s.io" ||
			part == "token" && i >= 2 && parts[i-2] == "serviceaccounts" {
			return true
		}
	}
	return false
}

// bodyOf returns what of the request's body the log may have.
func bodyOf(logger klog.Logger, req *http.Request) string {
	if secret(req.URL.Path) {
		return masked
	}
	body, err := req.GetBody()
	if err != nil {
		return err.Error()
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return err.Error()
	}
	return readable(logger, data)
}

// take reads the body of the answer, and puts it back.
func take(answer *http.Response) []byte {
	data, err := io.ReadAll(answer.Body)
	again := io.Reader(bytes.NewReader(data))
	if err != nil { // who reads it is to meet the error, too
		again = io.MultiReader(again, failing{err})
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{again, answer.Body}
	return data
}

// failing is a reader that has failed.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// readable is the body as text, as much of it as the verbosity gives room for.
func readable(logger klog.Logger, body []byte) string {
	text := string(body)
	if bytes.ContainsFunc(body, func(r rune) bool { return r < '\t' }) { // protobuf
		text = hex.Dump(body)
	}
	room := 1 << 10
	switch {
	case logger.V(2).Enabled(): // 10 in all
		return text
	case logger.V(1).Enabled():
		room = 10 << 10
	}
	if len(text) <= room {
		return text
	}
	return text[:room] + fmt.Sprintf(" [%d bytes more]", len(text)-room)
}
