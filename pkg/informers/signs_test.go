package informers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

// wire is a server as a transport sees it.
type wire struct {
	status int // zero: it cannot be reached
	body   *io.PipeWriter
}

func (w *wire) RoundTrip(*http.Request) (*http.Response, error) {
	if w.status == 0 {
		return nil, errors.New("connection refused")
	}
	read, write := io.Pipe()
	w.body = write
	return &http.Response{StatusCode: w.status, Body: read}, nil
}

const (
	podsPath = "/api/v1/pods?watch=true&timeoutSeconds=300&allowWatchBookmarks=true"
	sent     = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}`
	ended    = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`
)

// observed is a transport that is observed, in virtual time.
type observed struct {
	*testing.T
	*wire
	signs *Signs
}

func observe(t *testing.T, test func(o observed)) {
	synctest.Test(t, func(t *testing.T) { test(observed{t, &wire{status: http.StatusOK}, NewSigns()}) })
}

// ask makes a request and reads what comes, like a reflector. The returned function ends it.
func (o observed) ask(path string) (end func()) {
	o.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://host/prefix"+path, nil)
	if err != nil {
		o.Fatal(err)
	}
	resp, err := o.signs.Wrap(o.wire).RoundTrip(r)
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}()
	body := o.body
	return func() { _ = body.Close(); <-done }
}

func (o observed) send(text string) {
	o.Helper()
	if _, err := io.WriteString(o.body, text); err != nil {
		o.Fatal(err)
	}
	synctest.Wait()
}

// want checks both questions about pods; text is part of the error, "" for none.
func (o observed) want(when, wedged, stale string) {
	o.Helper()
	sign := o.signs.Of("pods")
	for _, c := range []struct {
		what, want string
		err        error
	}{{"wedged", wedged, sign.Wedged(5 * time.Minute)}, {"stale", stale, sign.Stale(2 * time.Minute)}} {
		if (c.err == nil) != (c.want == "") || c.err != nil && !strings.Contains(c.err.Error(), c.want) {
			o.Errorf("%s, %s: got %v, want %q", when, c.what, c.err, c.want)
		}
	}
}

func TestAnOpenWatchThatFallsSilent(t *testing.T) {
	observe(t, func(o observed) {
		end := o.ask(podsPath)
		for range 20 { // a cluster at rest
			time.Sleep(time.Minute)
			o.send(sent)
			o.want("bookmarks come", "", "")
		}
		time.Sleep(3 * time.Minute)
		o.want("silent for 3m", "", "nothing has come for 3m0s")
		time.Sleep(3 * time.Minute)
		o.want("silent for 6m", "the watch is open, but nothing has come for 6m0s", "6m0s")
		o.send("any byte")
		o.want("it speaks again", "", "")
		time.Sleep(6 * time.Minute)
		end()
		o.want("its end is a sign, too", "", "no watch is open")
		end = o.ask(podsPath)
		o.want("another one is open", "", "")
		end()
	})
}

// A server that sends no bookmarks is no reason to restart, again and again, on a cluster at rest.
func TestAServerWithoutBookmarks(t *testing.T) {
	observe(t, func(o observed) {
		for range 20 {
			end := o.ask(podsPath)
			o.send(ended) // of the initial events: promises nothing
			time.Sleep(5 * time.Minute)
			o.want("silent for as long as it was asked to be open", "", "")
			end()
			time.Sleep(time.Second)
		}
		end := o.ask(podsPath)
		time.Sleep(7 * time.Minute)
		o.want("open for longer than it was asked to be", "nothing has come for 7m0s", "7m0s")
		end()
	})
}

// A server that cannot be reached is no reason to restart, but the caches grow old.
func TestFailingTriesAreNotWedged(t *testing.T) {
	for _, status := range []int{0, http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		observe(t, func(o observed) {
			end := o.ask(podsPath)
			o.send(sent)
			end()
			o.status = status
			for range 30 {
				time.Sleep(30 * time.Second)
				o.ask(podsPath)()
				o.want("tries fail", "", o.staleAfter(2*time.Minute))
			}
			o.status = http.StatusOK
			end = o.ask(podsPath)
			o.want("reached again", "", "")
			end()
		})
	}
}

// staleAfter is what is to be said of a cache that has heard nothing for longer than that.
func (o observed) staleAfter(bound time.Duration) string {
	if time.Since(o.signs.Of("pods").Heard()) > bound {
		return "no watch is open"
	}
	return ""
}

// A reflector that has ended, or a request that hangs, shows no sign at all.
func TestNeitherOpenNorTried(t *testing.T) {
	observe(t, func(o observed) {
		o.ask(podsPath)()
		time.Sleep(6 * time.Minute)
		o.want("nobody tries", "no watch is open, and nothing has come for 6m0s", "6m0s")
		o.ask("/api/v1/nodes?watch=true")()
		o.want("another resource has its own", "no watch is open", "no watch is open")
		o.ask(podsPath)()
		o.want("tried again", "", "")
	})
}

func TestWhatIsObserved(t *testing.T) {
	for _, c := range []struct{ method, path, resource string }{
		{http.MethodGet, "/api/v1/pods", "pods"},
		{http.MethodGet, "/apis/apps/v1/replicasets", "replicasets"},
		{http.MethodGet, "/clusters/a/apis/apps/v1/deployments", "deployments"},
		{http.MethodGet, "/healthz", ""},
		{http.MethodPost, "/api/v1/pods", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "https://host"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := resourceOf(r); ok != (c.resource != "") || ok && got != c.resource {
			t.Errorf("%s %s: %q, %v", c.method, c.path, got, ok)
		}
	}
}

func TestBookmarksAreKnown(t *testing.T) {
	for text, want := range map[string]bool{
		sent:                                 true,
		"\x00\x00\x00\x20\n\x08BOOKMARK\x12": true, // protobuf
		ended:                                false,
		`{"type":"ADDED","object":{"metadata":{"name":"BOOKMARK"}}}`: false,
	} {
		if got := hasBookmark([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestAllStarted(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	if _, err := Endpoints(f); err != nil {
		t.Fatal(err)
	}
	if _, err := ReplicaSets(f); err != nil {
		t.Fatal(err)
	}
	if all := AllStarted(f); len(all) != 0 {
		t.Errorf("before the start: %v", all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	all := AllStarted(f)
	if len(all) != 2 || all[0].Resource != "endpoints" || all[1].Resource != "replicasets" ||
		all[1].Informer != f.Apps().V1().ReplicaSets().Informer() {
		t.Errorf("%+v", all)
	}
}
