package listwatch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// A write waits until a consistent read has shown that a server whose watches were cut has not gone back.
func TestWritesAfterACutWatch(t *testing.T) {
	silence := func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	answers := func(version string, err error) versionReader {
		return func(context.Context) (string, error) { return version, err }
	}
	refused := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))
	busy, noUpstream := apierrors.NewTooManyRequests("initializing", 1), apierrors.NewServiceUnavailable("no upstream")
	for _, c := range []struct {
		name       string
		pods, jobs versionReader // pods were at 9, Jobs at 12
		uncut      bool
		sent, told bool
		waits      time.Duration
	}{
		{name: "no watch was cut", uncut: true, pods: answers("1", nil), jobs: answers("1", nil), sent: true},
		{name: "the server went on", jobs: answers("12", nil), pods: answers("1", nil), sent: true},
		{name: "the server went back", jobs: answers("11", nil), pods: answers("11", nil), told: true, waits: time.Minute},
		{name: "nobody answers", jobs: answers("", errAway), pods: answers("9", nil)},
		{name: "one resource may not be read", jobs: answers("", refused), pods: answers("9", nil), sent: true},
		{name: "one resource may not be read, and the other went back", jobs: answers("", refused), pods: answers("8", nil), told: true,
			waits: time.Minute},
		{name: "one resource is silent", jobs: silence, pods: answers("9", nil), sent: true, waits: proofTimeout},
		{name: "nothing may be read", jobs: answers("", refused), pods: answers("", refused), sent: true},
		{name: "all are put off", jobs: answers("", busy), pods: answers("", busy)},
		{name: "a proxy answers for all", jobs: answers("", noUpstream), pods: answers("", noUpstream)},
		{name: "one is put off, and the other answers", jobs: answers("", busy), pods: answers("9", nil), sent: true},
		{name: "one is put off, and the other went back", jobs: answers("", busy), pods: answers("8", nil), told: true, waits: time.Minute},
		{name: "all are silent", jobs: silence, pods: silence, waits: 2 * proofTimeout},
		{name: "versions that are no numbers", jobs: answers("a", nil), pods: answers("b", nil), sent: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := false
				client := &Client{liveness: NewLiveness()}
				client.OnRollback(func(error) { told = true })
				for resource, of := range map[string]struct {
					read versionReader
					at   string
				}{"pods": {c.pods, "9"}, "jobs.batch": {c.jobs, "12"}} {
					a := client.liveness.Of(resource)
					a.readBy(of.read)
					server := watch.NewFake()
					w := trackWatch(a, server, metav1.ListOptions{TimeoutSeconds: ptr.To[int64](300)}, nil)
					go server.Modify(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: of.at}})
					<-w.ResultChan()
					if c.uncut {
						time.Sleep(300 * time.Second)
					}
					server.Stop()
					<-w.ResultChan()
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := client.Continuous(ctx)
				if waited := time.Since(began); (err == nil) != c.sent || told != c.told || waited != c.waits {
					t.Errorf("%v after %v, told %t", err, waited, told)
				}
				if err != nil {
					if c.waits >= time.Minute {
						return
					}
					began = time.Now() // who else wants to write is told the same for a while, without requests
					if again := client.Continuous(t.Context()); again == nil || again.Error() != err.Error() || time.Since(began) > 0 {
						t.Errorf("%v after %v", again, time.Since(began))
					}
					time.Sleep(proofPause)
					for _, resource := range []string{"pods", "jobs.batch"} {
						client.liveness.Of(resource).readBy(answers("20", nil))
					}
					if err := client.Continuous(t.Context()); err != nil {
						t.Errorf("the server answers again: %v", err)
					}
					return
				}
				client.liveness.Of("jobs.batch").readBy(func(context.Context) (string, error) { t.Error("asked twice"); return "", nil })
				if err := client.Continuous(ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Many writes at once ask once.
func TestOneReadForManyWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, asked := &Client{liveness: NewLiveness()}, 0
		a := client.liveness.Of("pods")
		a.listed("7")
		a.cuts.Add(1)
		a.readBy(func(context.Context) (string, error) { asked++; time.Sleep(time.Second); return "8", nil })
		var writes sync.WaitGroup
		for range 10 {
			writes.Go(func() {
				if err := client.Continuous(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		writes.Wait()
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}
