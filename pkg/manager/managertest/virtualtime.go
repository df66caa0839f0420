package managertest

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// InVirtualTime runs a test in a bubble of testing/synctest at this time or later, with a server that has no objects.
// It returns what was logged meanwhile, a line for each entry.
func InVirtualTime(t *testing.T, begin time.Time, test func(t *testing.T, server *clienttest.Server)) (log string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		lines := &lines{}
		klog.SetLogger(funcr.New(lines.add, funcr.Options{}))
		defer klog.ClearLogger()
		test(t, clienttest.NewServer())
		log = lines.String()
	})
	return log
}

// lines are what was logged. Controllers log from several goroutines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) add(_, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(args + "\n")
}

// String returns all lines.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Putter returns a function that stores an object, and waits until the controllers have done what they do at once.
func Putter[T plan.Object](t *testing.T, server *clienttest.Server) func(T) {
	return func(o T) {
		t.Helper()
		if _, err := server.Put(o); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
}
