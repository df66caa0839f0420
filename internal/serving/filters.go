package serving

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/standalone-kcm/controller-manager/internal/serving/reply"
	"github.com/standalone-kcm/controller-manager/internal/truncate"
)

// handler is what each request goes through. It answers 500 when something panics, and marks all answers as nothing
// to keep (MH-4).
func (s *Server) handler(handlers map[string]http.Handler) http.Handler {
	next := newRoutes(handlers)
	return http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		w := &buffered{ResponseWriter: inner, quick: s.config.Limits.QuickTimeout}
		release, ok := s.all.take(r.RemoteAddr)
		if !ok {
			panic(http.ErrAbortHandler) // the server ends
		}
		defer release()
		defer func() {
			cause := recover()
			switch {
			case cause == nil:
			case cause == http.ErrAbortHandler || w.begun:
				s.logPanic(r, cause)
				panic(http.ErrAbortHandler) // half an answer must not look whole
			default:
				s.logPanic(r, cause)
				w.discard()
				http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			}
			_ = w.send() // who has gone does not need it
		}()
		w.Header().Set("Cache-Control", "no-cache, private")
		s.answer(w, r, next)
	})
}

// logPanic logs a panic of a handler, but not the one by which a handler breaks off its answer.
func (s *Server) logPanic(r *http.Request, cause any) {
	if cause != http.ErrAbortHandler {
		s.logger.Error(nil, "Panic while serving", "path", cut(r.URL.Path), "panic", fmt.Sprint(cause), "stack",
			string(debug.Stack()))
	}
}

// answer finds out who asks, and whether they may (MH-2, MH-3), and lets the handler answer who may. All places have
// been given back when it returns, and the answer, if it is short, has not been sent yet.
func (s *Server) answer(w *buffered, r *http.Request, next http.Handler) {
	s.connections.began(r.Context())
	defer s.connections.ended(r.Context())
	if r.ContentLength != 0 {
		r.Body = http.MaxBytesReader(w, r.Body, s.config.Limits.BodyBytes)
		// The server reads on after an answer, so this is also for bodies that nobody wants.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.Limits.BodyTimeout))
		w.quick += s.config.Limits.BodyTimeout // with HTTP/1.1 it does so before the answer
	}
	probe := slices.Contains(s.probePaths, r.URL.Path)
	who := s.authenticate(w, r, probe)
	if who == nil {
		return
	}
	places := s.authenticated
	if who.GetName() == user.Anonymous {
		places = s.anonymous
		endConnection(w, r)
	}
	if probe {
		places = s.probes
	}
	release, ok := places.take(r.RemoteAddr)
	if !ok {
		tooMany(w)
		return
	}
	defer release()
	if !s.authorize(w, r, who) {
		return
	}
	if !probe {
		w.quick = 0
	}
	next.ServeHTTP(w, r)
}

// endConnection has a connection of HTTP/2 end after this answer. It can carry many requests at a time, which only
// clients that are known may send.
func endConnection(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
}

// tooMany answers that the server has no room for the request now.
func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	reply.Refuse(w, metav1.StatusReasonTooManyRequests, "Too many requests, please try again later.")
}

// authenticate returns the user of a request (MH-2), or nil if it has answered. It may ask the API server.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request, probe bool) user.Info {
	if len(r.Header.Values("Authorization")) > 0 {
		places := s.tokens
		if probe {
			places = s.probeTokens
		}
		release, ok := places.take(r.RemoteAddr)
		if !ok {
			endConnection(w, r)
			tooMany(w)
			return nil
		}
		defer release()
	}
	found, ok, err := s.current.Load().authenticator.AuthenticateRequest(r)
	if err == nil && ok {
		return found.User
	}
	if err != nil {
		s.logger.V(2).Info("Unable to authenticate the request", "path", cut(r.URL.Path), "reason", err.Error())
	}
	endConnection(w, r)
	reply.Refuse(w, metav1.StatusReasonUnauthorized, "Unauthorized")
	return nil
}

// authorize reports whether who asks may have what they ask for (MH-3). If not, it has answered.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, who user.Info) bool {
	verb, path := strings.ToLower(r.Method), r.URL.Path
	ok, reason, err := s.authorizer.Allowed(r.Context(), who, verb, path)
	switch {
	case err != nil: // the log knows why; a stranger need not
		http.Error(w, fmt.Sprintf("Internal Server Error: %q", cut(path)), http.StatusInternalServerError)
		return false
	case !ok:
		message := fmt.Sprintf("forbidden: User %q cannot %s path %q", cut(who.GetName()), cut(verb), cut(path))
		if reason != "" {
			message += ": " + cut(reason)
		}
		reply.Refuse(w, metav1.StatusReasonForbidden, message)
		return false
	}
	return true
}

// mostEchoed is how much of what a client has sent an answer repeats: answers to who may have nothing are short.
const mostEchoed = 256

// cut returns the beginning of a text that is too long to repeat.
func cut(s string) string { return truncate.Text(s, mostEchoed) }

// routes finds the handler of a path. Unlike http.ServeMux it takes paths as they are: what was authorized is what is
// served.
type routes struct {
	exact    map[string]http.Handler
	subtrees []string // paths that end in a slash, the longest first
}

// newRoutes sorts handlers: those for one path, and those for all below one, the longest path first.
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

// ServeHTTP serves a request by the handler of its path, or of the longest path above it.
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
