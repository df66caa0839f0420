package cpufloor

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Main is the client: it reads from in what to send, sends it, and writes the CPU time that this took to out.
func Main(in io.Reader, out io.Writer) error {
	var j job
	if err := gob.NewDecoder(in).Decode(&j); err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	certificate, err := x509.ParseCertificate(j.Certificate)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableCompression: true}
	defer transport.CloseIdleConnections()
	c := &client{transport: transport, server: j.Server}
	if err := c.send(Exchange{Method: http.MethodGet, URL: "/"}, ""); err != nil { // makes the connection
		return err
	}
	before, err := used()
	if err != nil {
		return err
	}
	if err := c.sendAll(j.Recording); err != nil {
		return err
	}
	after, err := used()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, after-before)
	return err
}

// used is the CPU time that this process has used.
func used() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

// client sends recorded requests, all over one connection, as client-go does.
type client struct {
	transport *http.Transport
	server    string
	buffers   sync.Pool // of *[]byte
}

// sendAll sends each request at its time, and returns when all are answered.
func (c *client) sendAll(recording Recording) error {
	failed := make([]error, len(recording))
	var wg sync.WaitGroup
	began := time.Now()
	for i, x := range recording {
		time.Sleep(time.Until(began.Add(x.Sent)))
		wg.Go(func() { failed[i] = c.send(x, strconv.Itoa(i)) })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// send sends one request, and reads its answer.
func (c *client) send(x Exchange, number string) error {
	r, err := http.NewRequest(x.Method, c.server+x.URL, bytes.NewReader(x.Body))
	if err != nil {
		return err
	}
	if r.Header = x.Header; r.Header == nil {
		r.Header = http.Header{}
	}
	if number != "" {
		r.Header.Set(numberHeader, number)
	}
	answer, err := c.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if x.Status != 0 && answer.StatusCode != x.Status {
		return fmt.Errorf("%s %s: answered with %d in place of %d", x.Method, x.URL, answer.StatusCode, x.Status)
	}
	return c.read(answer.Body)
}

// read reads an answer to its end.
func (c *client) read(body io.Reader) error {
	buffer, ok := c.buffers.Get().(*[]byte)
	if !ok {
		made := make([]byte, 32<<10)
		buffer = &made
	}
	defer c.buffers.Put(buffer)
	for {
		_, err := body.Read(*buffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
