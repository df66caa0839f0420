package reply

import (
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// repeated is how soon another problem of one kind is logged: each request, and each look at a file, may meet it again.
const repeated = time.Minute

// Problems logs each problem once, until it is over. The zero value logs nothing.
type Problems struct {
	logger klog.Logger
	mu     sync.Mutex
	// logged is what was said and is not over.
	logged map[string]problem
}

// NewProblems returns problems that it logs.
func NewProblems(logger klog.Logger) *Problems { return &Problems{logger: logger} }

// problem is what was logged last of one kind, and when.
type problem struct {
	text string
	at   time.Time
}

// Report logs err, unless that has been done. A text that changes (it may name a port) is worth a line a minute.
func (l *Problems) Report(kind string, err error, message string, keysAndValues ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.logged[kind]
	if known && (last.text == err.Error() || time.Since(last.at) < repeated) {
		return
	}
	if l.logged == nil {
		l.logged = map[string]problem{}
	}
	l.logged[kind] = problem{err.Error(), time.Now()}
	l.logger.Error(err, message, keysAndValues...)
}

// Over forgets a problem, and reports whether there was one.
func (l *Problems) Over(kind string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.logged[kind]
	delete(l.logged, kind)
	return known
}
