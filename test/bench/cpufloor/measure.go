package cpufloor

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// numberHeader says which exchange of the recording a request is. It adds a few bytes to each request.
const numberHeader = "Replay-Exchange"

// job is what the process of the client reads from its standard input, as a gob.
type job struct {
	Server      string // its address
	Certificate []byte // of the server
	Recording   Recording
}

// Measure sends the recorded requests again, and returns the CPU time that the client has taken, user and system. The client is
// the program at the path, called with the argument, which calls [Main]. It takes as long as the recording did.
func Measure(ctx context.Context, recording Recording, program, argument string) (time.Duration, error) {
	server := httptest.NewUnstartedServer(answers(recording))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	var input, stderr bytes.Buffer
	j := job{Server: server.URL, Certificate: server.Certificate().Raw, Recording: recording}
	if err := gob.NewEncoder(&input).Encode(j); err != nil {
		return 0, err
	}
	client := exec.CommandContext(ctx, program, argument)
	client.Env = append(os.Environ(), "GOGC=100")
	client.Stdin, client.Stderr = &input, &stderr
	out, err := client.Output()
	if err != nil {
		return 0, fmt.Errorf("send the recorded requests again: %w\n%s", err, &stderr)
	}
	return time.ParseDuration(strings.TrimSpace(string(out)))
}

// answers answers as recorded, each piece as long after the request as it was then.
func answers(recording Recording) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := r.Header.Get(numberHeader)
		if number == "" {
			return // the first request, which makes the connection
		}
		began := time.Now()
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= len(recording) {
			http.Error(w, "no such exchange", http.StatusBadRequest)
			return
		}
		if err := answer(w, r, recording[i], began); err != nil {
			panic(http.ErrAbortHandler) // the client sees that something is missing
		}
	})
}

func answer(w http.ResponseWriter, r *http.Request, x Exchange, began time.Time) error {
	for name, values := range x.AnswerHeader {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length") // the end of the recording may have cut off the rest
	flush := http.NewResponseController(w).Flush
	w.WriteHeader(x.Status)
	for i, piece := range x.Answer {
		if wait := time.Until(began.Add(piece.At - x.Sent)); wait > 0 {
			if i == 0 && len(x.Answer) > 1 { // a watch: its header comes before its first event
				if err := flush(); err != nil {
					return err
				}
			}
			select {
			case <-r.Context().Done():
				return errors.New("the client has gone")
			case <-time.After(wait):
			}
		}
		if _, err := w.Write(piece.Data); err != nil {
			return err
		}
		if i < len(x.Answer)-1 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return nil
}
