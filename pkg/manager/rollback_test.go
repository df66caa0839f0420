package manager

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// When the API server goes back, all work stops, and a new manager takes the place of the old one.
func TestBeginsAnewAfterARollback(t *testing.T) {
	client, _ := server(t, http.StatusOK)
	leaks := goleak.IgnoreCurrent()
	running := make(chan struct{})
	again := Controller{Name: "c", Account: "c", Init: func(Context) (Runner, error) {
		runs := make(chan struct{})
		go func() {
			<-runs
			running <- struct{}{}
		}()
		return fakeWorker{runs, untilDone}, nil
	}}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	defer cancel()
	m, err := New(client, options(again))
	if err != nil {
		t.Fatal(err)
	}
	first := m.current.Load()
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	<-running
	first.rolledBack(errors.New("the lease was at version 7 and is at 6 now"))
	<-running
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if second := m.current.Load(); second == first || !first.ending.Load() || !second.ending.Load() {
		t.Error("not one after the other")
	}
	if text := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); strings.Count(text, "was at version 7") != 1 {
		t.Errorf("log: %s", text)
	}
	goleak.VerifyNone(t, leaks)
}
