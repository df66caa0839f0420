package listwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestErrorsAreLoggedAtALimitedRate(t *testing.T) {
	var tr errorLimiter
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
	if n, news := tr.count(at.Add(resetAfter + 1)); n != 1 || !news {
		t.Errorf("after a quiet time: %d, %t", n, news)
	}
}

func buffered(t *testing.T) (klog.Logger, fmt.Stringer) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
	return logger, logger.GetSink().(ktesting.Underlier).GetBuffer()
}

// An informer that cannot list for an hour of virtual time fails more than a hundred times.
func TestWatchErrorsAreLoggedQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, buffer := buffered(t)
		failures := 0
		fail := func() error { failures++; return errors.New("connection refused") }
		informer := cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, fail() },
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, fail() },
		}, &corev1.Pod{}, 0, cache.Indexers{})
		if err := SetWatchErrorHandler(informer); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), time.Hour)
		defer cancel()
		informer.RunWithContext(ctx)
		lines := strings.Split(strings.TrimSpace(buffer.String()), "\n")
		if len(lines) < 2 || len(lines) > 10 || failures < 100 {
			t.Errorf("%d lines for %d failures:\n%s", len(lines), failures, buffer)
		}
		for _, want := range []string{`type="*v1.Pod"`, "connection refused", "failures=1"} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("%s is not in %s", want, lines[0])
			}
		}
	})
}

func TestOrdinaryEndsAreNotLogged(t *testing.T) {
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, apierrors.NewResourceExpired("too old")} {
		logger, buffer := buffered(t)
		if new(errorLimiter).log(logger, err); buffer.String() != "" {
			t.Errorf("%v: %s", err, buffer)
		}
	}
}

// What the API server refuses will not pass by itself: from the second time on that is an error.
func TestRefusalsAreErrors(t *testing.T) {
	pods := corev1.Resource("pods")
	for _, err := range []error{apierrors.NewUnauthorized("who?"), apierrors.NewForbidden(pods, "", errors.New("no"))} {
		logger, buffer := buffered(t)
		var tr errorLimiter
		for range 4 {
			tr.log(logger, err)
		}
		lines := strings.Split(strings.TrimSpace(buffer.String()), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "INFO ") || !strings.HasPrefix(lines[1], "ERROR ") ||
			!strings.HasPrefix(lines[2], "ERROR ") ||
			!strings.Contains(lines[2], err.Error()) {
			t.Errorf("%v: %s", err, buffer)
		}
	}
	logger, buffer := buffered(t)
	var tr errorLimiter
	for range 4 {
		tr.log(logger, errors.New("connection refused"))
	}
	if strings.Contains(buffer.String(), "ERROR") {
		t.Error(buffer)
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
