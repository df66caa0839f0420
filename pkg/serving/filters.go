package serving

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// handler is what each request goes through.
func (s *Server) handler(handlers map[string]http.Handler) http.Handler {
	return s.recovering(s.limited(s.admitted(newRoutes(handlers))))
}

// noting knows whether an answer has begun.
type noting struct {
	http.ResponseWriter
	begun bool
}

func (w *noting) WriteHeader(code int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(code)
}

func (w *noting) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the rest.
func (w *noting) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recovering answers 500 when a handler panics, and marks all answers as nothing to keep (MH-4).
func (s *Server) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		w := &noting{ResponseWriter: inner}
		defer func() {
			cause := recover()
			switch {
			case cause == nil:
			case cause == http.ErrAbortHandler || w.begun:
				s.logPanic(r, cause)
				panic(http.ErrAbortHandler) // half an answer must not look whole
			default:
				s.logPanic(r, cause)
				plain(w, http.StatusInternalServerError, "Internal Server Error")
			}
		}()
		w.Header().Set("Cache-Control", "no-cache, private")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) logPanic(r *http.Request, cause any) {
	if cause != http.ErrAbortHandler {
		s.logger.Error(nil, "Panic while serving", "path", r.URL.Path, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	}
}

// limited lets so many requests run at the same time, and bounds what can be sent with one. Those for probes have places of
// their own, if they can be answered without the API server, which may be slow.
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		places := s.requests
		if slices.Contains(s.config.Probes, r.URL.Path) && len(r.Header.Values("Authorization")) == 0 {
			places = s.probes
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			w.Header().Set("Retry-After", "1")
			refuse(w, metav1.StatusReasonTooManyRequests, "Too many requests, please try again later.")
			return
		}
		s.connections.began(r.Context())
		defer s.connections.ended(r.Context())
		if r.ContentLength != 0 {
			r.Body = http.MaxBytesReader(w, r.Body, s.config.Limits.BodyBytes)
			// The server reads on after an answer, so this is also for bodies that nobody wants.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.Limits.BodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// admitted finds out who asks, and whether they may (MH-2, MH-3).
func (s *Server) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, ok, err := s.current.Load().authenticator.AuthenticateRequest(r)
		if err != nil || !ok {
			if err != nil {
				s.logger.V(2).Info("Unable to authenticate the request", "path", r.URL.Path, "reason", err.Error())
			}
			refuse(w, metav1.StatusReasonUnauthorized, "Unauthorized")
			return
		}
		verb, path := strings.ToLower(r.Method), r.URL.Path
		ok, reason, err := s.access.allowed(r.Context(), found.User, verb, path)
		switch {
		case err != nil: // the log knows why; a stranger need not
			plain(w, http.StatusInternalServerError, fmt.Sprintf("Internal Server Error: %q", path))
		case !ok:
			message := fmt.Sprintf("forbidden: User %q cannot %s path %q", found.User.GetName(), verb, path)
			if reason != "" {
				message += ": " + reason
			}
			refuse(w, metav1.StatusReasonForbidden, message)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// routes finds the handler of a path. Unlike http.ServeMux it takes paths as they are: what was authorized is what is
// served.
type routes struct {
	exact    map[string]http.Handler
	subtrees []string // paths that end in a slash, the longest first
}

func newRoutes(handlers map[string]http.Handler) *routes {
	r := &routes{exact: handlers}
	for path := range handlers {
		if strings.HasSuffix(path, "/") {
			r.subtrees = append(r.subtrees, path)
		}
	}
	slices.SortFunc(r.subtrees, func(a, b string) int { return len(b) - len(a) })
	return r
}

func (rs *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := rs.exact[r.URL.Path]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	for _, subtree := range rs.subtrees {
		if strings.HasPrefix(r.URL.Path, subtree) {
			rs.exact[subtree].ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}
