package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// profiles takes CPU profiles of the managers while they are measured. It costs them a little time.
type profiles struct {
	dir   string // "" for none
	taken int
}

// profileTime is how long one profile lasts. "go tool pprof" adds up as many as it is given.
const profileTime = 2 * time.Second

// profiled are the flags of a manager that can be asked for its profile at address, without credentials.
func profiled(flags []string) (changed []string, address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	address = l.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, "", err
	}
	changed = slices.DeleteFunc(slices.Clone(flags), func(flag string) bool { return flag == "--secure-port=0" })
	return append(changed, "--secure-port="+port, "--bind-address=127.0.0.1", "--authorization-always-allow-paths=/debug/pprof/*"), address,
		nil
}

// take takes profiles of the manager at address until the returned function is called. What is not complete by then is
// left out.
func (p *profiles) take(ctx context.Context, contender, address string) (stop func() error) {
	if p.dir == "" {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		for {
			p.taken++
			err := fetchProfile(ctx, address, filepath.Join(p.dir, fmt.Sprintf("%s-%03d.pprof", contender, p.taken)))
			if ctx.Err() != nil {
				done <- nil
				return
			}
			if err != nil {
				done <- fmt.Errorf("take a profile: %w", err)
				return
			}
		}
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// insecure does not check whose certificate it is: the manager has made it itself, on this machine.
var insecure = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// fetchProfile asks a manager for a profile and writes it to a file, if it is complete.
func fetchProfile(ctx context.Context, address, file string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("https://%s/debug/pprof/profile?seconds=%d", address, int(profileTime.Seconds())), nil)
	if err != nil {
		return err
	}
	answer, err := insecure.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, body)
	}
	return os.WriteFile(file, body, 0o644)
}
