package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// streams is a server whose watches stay open, and whose initial lists are over at once.
func streams() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isWatch(r) {
			fmt.Fprint(w, "a list")
			return
		}
		fmt.Fprint(w, "objects ")
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			fmt.Fprint(w, "k8s.io/initial-events-end")
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
}

func TestValveCutsWatchesAndMakesThemListAnew(t *testing.T) {
	server := streams()
	defer server.Close()
	v, err := newValve(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	get := func(agent, query string) (int, io.ReadCloser) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+"/api/v1/pods"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", agent)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Body
	}
	const list, goOn = "?watch=true&sendInitialEvents=true", "?watch=true&resourceVersion=7"
	code, stream := get("kcm", list)
	if code != http.StatusOK || v.cut() != 1 {
		t.Fatalf("status %d", code)
	}
	if text, _ := io.ReadAll(stream); !strings.HasPrefix(string(text), "objects ") { // it ends
		t.Errorf("%q", text)
	}
	for _, row := range []struct {
		agent, query string
		want         int
	}{
		{"other", goOn, http.StatusOK}, {"kcm", "", http.StatusOK}, {"kcm", list, http.StatusOK},
		{"kcm", goOn, http.StatusGone}, {"kcm", goOn, http.StatusOK}, // refused once
	} {
		code, body := get(row.agent, row.query)
		if code != row.want {
			t.Errorf("%+v: status %d", row, code)
		}
		if code == http.StatusGone {
			if text, _ := io.ReadAll(body); string(text) != expiredStatus {
				t.Errorf("%q", text)
			}
		}
		if row.query == "" {
			_, _ = io.ReadAll(body)
		}
	}
	// Two lists of its own kind, by watch, and one plain.
	if err := until(t.Context(), "the lists are seen", time.Millisecond,
		func() (bool, error) { n, first := v.pods(); return n == 3 && !first.IsZero(), nil }); err != nil {
		t.Error(err)
	}
	if got, least := v.received.Load(), int64(4*len("objects ")); got < least || v.open() == 0 {
		t.Errorf("%d bytes were received, want at least %d; %d watches", got, least, v.open())
	}
	if err := v.close(); err != nil {
		t.Error(err)
	}
}

func TestSpyFindsAMarkerInPieces(t *testing.T) {
	for size := 1; size < 12; size++ {
		found := 0
		s := &spy{ReadCloser: io.NopCloser(strings.NewReader("abcabab-MARK-abMARK")), over: func() { found++ }, marker: []byte("-MARK-")}
		piece := make([]byte, size)
		for {
			if _, err := s.Read(piece); err == io.EOF {
				break
			}
		}
		if found != 1 {
			t.Errorf("in pieces of %d: found %d times", size, found)
		}
	}
	s := &spy{ReadCloser: io.NopCloser(strings.NewReader("-MAR-KMARK")), over: func() { t.Error("found what is not there") },
		marker: []byte("-MARK-")}
	_, _ = io.ReadAll(s)
}
