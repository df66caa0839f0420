package informers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestTroubleIsToldOfLessAndLess(t *testing.T) {
	var tr trouble
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var told []int
	for range 100 {
		at = at.Add(30 * time.Second)
		if n, news := tr.count(at); news {
			told = append(told, n)
		}
	}
	if got := fmt.Sprint(told); got != "[1 2 4 8 16 32 64]" {
		t.Error(got)
	}
	if n, news := tr.count(at.Add(quiet + 1)); n != 1 || !news {
		t.Errorf("after a quiet time: %d, %t", n, news)
	}
}

// logOf runs an informer whose lists end with err for that long, in virtual time, and returns what it logs.
func logOf(t *testing.T, err error, long time.Duration) (lines []string) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		informer := cache.NewSharedIndexInformer(&cache.ListWatch{
			ListFunc:  func(metav1.ListOptions) (runtime.Object, error) { return nil, err },
			WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { return nil, err },
		}, &corev1.Pod{}, 0, cache.Indexers{})
		if err := SetWatchErrorHandler(informer); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), long)
		defer cancel()
		informer.RunWithContext(ctx)
		for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
			lines = append(lines, fmt.Sprint(entry.Message, entry.Err, entry.WithKVList, entry.ParameterKVList))
		}
	})
	return lines
}

func TestWatchErrorsAreLoggedQuietly(t *testing.T) {
	lines := logOf(t, errors.New("connection refused"), time.Hour)
	if len(lines) < 2 || len(lines) > 9 { // some 120 failures
		t.Errorf("%d lines in an hour: %s", len(lines), strings.Join(lines, "\n"))
	}
	for _, want := range []string{"*v1.Pod", "connection refused", "failures 1"} {
		if len(lines) > 0 && !strings.Contains(strings.ReplaceAll(lines[0], "=", " "), want) {
			t.Errorf("%q is not in %q", want, lines[0])
		}
	}
}

func TestOrdinaryEndsAreNotLogged(t *testing.T) {
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, apierrors.NewResourceExpired("too old"), apierrors.NewGone("gone")} {
		if lines := logOf(t, err, time.Minute); len(lines) > 0 {
			t.Errorf("%v: %s", err, strings.Join(lines, "\n"))
		}
	}
}

// A running informer keeps the handler it has.
func TestSetWatchErrorHandlerTooLate(t *testing.T) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	informer.RunWithContext(ctx)
	if SetWatchErrorHandler(informer) == nil {
		t.Error("no error")
	}
}

// The caches of this package have the handler: a server that says no leads to one line, not to a stack of them.
func TestCachesLogQuietly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	f := NewFactory(must(kubernetes.NewForConfig(&rest.Config{Host: server.URL})), 0)
	must(Pods(f))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
	buffer := logger.GetSink().(ktesting.Underlier).GetBuffer()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	eventually(t, func() bool { return strings.Contains(buffer.String(), "A cache cannot be kept up to date") })
	if strings.Contains(buffer.String(), "Failed to watch") {
		t.Error(buffer.String())
	}
}
