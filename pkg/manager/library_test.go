package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// reader is a controller that reads fields of pods.
func reader(name string, caches []rbac.Resource, paths ...string) Controller {
	return Controller{Name: name, Account: name, Rights: func() rbac.Rights { return rbac.Rights{Caches: caches} },
		Init: func(c Context) (Runner, error) {
			_, err := informers.Pods(c.Informers, informers.PodFields{Paths: paths})
			return fakeWorker{make(chan struct{}), untilDone}, err
		}}
}

// The cache keeps what any controller reads: none empties the fields of another one, and who names none reads all.
func TestEachControllerGetsTheFieldsThatItReads(t *testing.T) {
	pods := []rbac.Resource{{Name: "pods"}}
	node, phase, whole := reader("node", pods, "spec.nodeName"), reader("phase", pods, "status.phase"), reader("whole", pods)
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Hostname: "h"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, c := range []struct {
		controllers []Controller
		want        string
	}{
		{[]Controller{node}, "n  "},
		{[]Controller{phase}, "  Running"},
		{[]Controller{node, phase}, "n  Running"},
		{[]Controller{phase, node}, "n  Running"},
		{[]Controller{node, whole}, "n h Running"},
	} {
		m, err := New(&rest.Config{Host: "http://api"}, options(c.controllers...))
		if err != nil {
			t.Fatal(err)
		}
		defer m.current.Load().close()
		kept, err := m.Projection()
		if err != nil {
			t.Fatal(err)
		}
		p := kept.ProjectPod(pod)
		if got := strings.Join([]string{p.Spec.NodeName, p.Spec.Hostname, string(p.Status.Phase)}, " "); got != c.want {
			t.Errorf("%d controllers: %q, want %q", len(c.controllers), got, c.want)
		}
	}
}

// A cache without the right to it, or of a field that does not exist, is found when the manager is built.
func TestAForgottenRightIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		controller Controller
		want       string
	}{
		"no right": {reader("toy", []rbac.Resource{{Name: "nodes"}, {Group: "example.com", Name: "pods"}}),
			"controller toy: cache of pods: the controller has no right to list and watch pods"},
		"no such field": {reader("toy", []rbac.Resource{{Name: "pods"}}, "status.faze"), "controller toy: cache of pods: "},
	} {
		if _, err := New(&rest.Config{Host: "http://api"}, options(c.controller)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A controller without rights has no role that could lack something, so it may cache anything.
func TestAControllerWithoutRights(t *testing.T) {
	toy := reader("toy", nil)
	toy.Rights = nil
	m, err := New(&rest.Config{Host: "http://api"}, options(toy))
	if err != nil {
		t.Fatal(err)
	}
	m.current.Load().close()
}

// WaitUntilRunning waits for the caches and the controllers, and says what it waits for.
func TestWaitUntilRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &refusing{}
		w := fakeWorker{make(chan struct{}), untilDone}
		m, err := New(&rest.Config{Host: "http://api", Transport: server},
			options(Controller{Name: "a", Account: "a", Init: func(c Context) (Runner, error) {
				_, err := informers.Pods(c.Informers)
				return w, err
			}}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		short, end := context.WithTimeout(ctx, time.Minute)
		defer end()
		if err := m.WaitUntilRunning(short); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "cache-pods: the cache has not been filled yet") {
			t.Errorf("without its rights: %v", err)
		}
		server.allows.Store(true)
		if err := m.WaitUntilRunning(ctx); err != nil {
			t.Error(err)
		}
		<-w.runs
		if err := m.Run(ctx); err == nil {
			t.Error("it runs twice")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A manager that ends before it runs says why.
func TestWaitUntilRunningOfOneThatEnds(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	broken := fakeWorker{make(chan struct{}), func(context.Context) error { return errors.New("no file") }}
	m, err := New(&rest.Config{Host: "http://api", Transport: &refusing{}},
		options(entry("a", broken), Controller{Name: "b", Account: "b", Init: func(c Context) (Runner, error) {
			_, err := informers.Pods(c.Informers) // which are never there
			return fakeWorker{make(chan struct{}), untilDone}, err
		}}))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- m.Run(t.Context()) }()
	if err := m.WaitUntilRunning(t.Context()); err == nil || !strings.Contains(err.Error(), "no file") {
		t.Errorf("got %v", err)
	}
	<-done
	goleak.VerifyNone(t, leaks)
}

// What no manager can work with is refused, all of it at once.
func TestControllersThatCannotRun(t *testing.T) {
	good := Controller{Name: "a", Init: func(Context) (Runner, error) { return nil, nil }}
	_, err := New(&rest.Config{Host: "http://api"}, Options{ServiceAccounts: true, Controllers: []Controller{
		good, good, {Init: good.Init}, {Name: "b"},
	}})
	for _, want := range []string{"controller 2 has no name", `two controllers have the name "a"`, "controller b has no Init",
		"controller a has no Account"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
