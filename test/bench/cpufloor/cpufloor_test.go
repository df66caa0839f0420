package cpufloor

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "replay" {
		if err := Main(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve serves a handler over HTTP/2 and returns a client of it.
func serve(t *testing.T, handler http.Handler) *client {
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return &client{transport: server.Client().Transport.(*http.Transport), server: server.URL}
}

// text is what matters of a recording: all but times, and headers that HTTP adds.
func text(recording Recording) string {
	var b strings.Builder
	for _, x := range recording {
		var answer bytes.Buffer
		for _, piece := range x.Answer {
			answer.Write(piece.Data)
		}
		fmt.Fprintf(&b, "%s %s %q %q -> %d %q %q\n", x.Method, x.URL, x.Header.Get("Accept"), x.Body,
			x.Status, x.AnswerHeader.Get("Content-Type"), answer.String())
	}
	return b.String()
}

func TestTheSameIsSentAndAnsweredAgain(t *testing.T) {
	first := NewRecorder()
	c := serve(t, first.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		switch r.URL.Path {
		case "/watch":
			for i := range 3 {
				fmt.Fprintf(w, "event %d of %s", i, r.URL.RawQuery)
				_ = http.NewResponseController(w).Flush()
			}
		case "/none":
			w.WriteHeader(http.StatusNotFound)
		default:
			fmt.Fprintf(w, "you sent %s", body)
		}
	})))
	send := func(method, url, body string) {
		t.Helper()
		if err := c.send(Exchange{Method: method, URL: url, Body: []byte(body), Header: http.Header{"Accept": {"some/thing"}}},
			""); err != nil {
			t.Fatal(err)
		}
	}
	send("GET", "/before", "")
	first.Start()
	send("POST", "/pods", "a pod")
	send("GET", "/watch?watch=1", "")
	send("DELETE", "/none", "")
	recording := first.Stop()
	send("GET", "/after", "")

	want := `POST /pods "some/thing" "a pod" -> 200 "text/plain" "you sent a pod"
GET /watch?watch=1 "some/thing" "" -> 200 "text/plain" "event 0 of watch=1event 1 of watch=1event 2 of watch=1"
DELETE /none "some/thing" "" -> 404 "text/plain" ""
`
	if got := text(recording); got != want {
		t.Fatalf("recorded\n%s\nwant\n%s", got, want)
	}
	for i := range recording { // far enough from each other, so that they come in this order
		recording[i].Sent = time.Duration(i) * 200 * time.Millisecond
	}
	again := NewRecorder()
	c = serve(t, again.Wrap(answers(recording)))
	again.Start()
	if err := c.sendAll(recording); err != nil {
		t.Fatal(err)
	}
	if got := text(again.Stop()); got != want {
		t.Errorf("sent again\n%s\nwant\n%s", got, want)
	}
	took, err := Measure(t.Context(), recording, os.Args[0], "replay")
	if err != nil || took <= 0 || took > 10*time.Second {
		t.Errorf("CPU %v, %v", took, err)
	}
}

func TestAWatchThatRunsBelongsToTheRecording(t *testing.T) {
	r := NewRecorder()
	next, written := make(chan string), make(chan bool)
	c := serve(t, r.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for event := range next {
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
			written <- true
		}
	})))
	ended := make(chan error)
	go func() { ended <- c.send(Exchange{Method: "GET", URL: "/watch"}, "") }()
	next <- "before"
	<-written
	r.Start()
	next <- "while"
	<-written
	recording := r.Stop()
	next <- "after"
	<-written
	close(next)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got, want := text(recording), "GET /watch \"\" \"\" -> 200 \"\" \"while\"\n"; got != want || recording[0].Sent != 0 {
		t.Errorf("recorded %s at %v, want %s", got, recording[0].Sent, want)
	}
}

func TestAnotherAnswerIsAnError(t *testing.T) {
	c := serve(t, http.NotFoundHandler())
	err := c.sendAll(Recording{{Method: "GET", URL: "/x", Status: http.StatusOK}})
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

func TestAClientThatFailsIsAnError(t *testing.T) {
	if _, err := Measure(t.Context(), nil, os.Args[0], "-test.run=^$"); err == nil {
		t.Error("no error")
	}
}
