package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestProfilesAreTakenUntilTheWorkIsDone(t *testing.T) {
	requests := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case requests <- struct{}{}:
			_, _ = w.Write([]byte("a profile"))
		case <-r.Context().Done(): // the work ends before the profile is complete
		}
	}))
	defer server.Close()
	p := &profiles{dir: t.TempDir()}
	stop := p.take(t.Context(), "ours", strings.TrimPrefix(server.URL, "https://"))
	<-requests
	<-requests
	if err := stop(); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(files); n < 1 || n > 2 || files[0].Name() != "ours-001.pprof" { // the second may have been on its way
		t.Errorf("files: %v", files)
	}
}

func TestAProfileThatIsRefusedIsAnError(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	p := &profiles{dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	address := strings.TrimPrefix(server.URL, "https://")
	if err := fetchProfile(ctx, address, p.dir+"/x"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
	if files, _ := os.ReadDir(p.dir); len(files) > 0 {
		t.Errorf("files: %v", files)
	}
}

func TestProfiledManagersServe(t *testing.T) {
	flags, address, err := profiled(commonFlags("deployment"))
	if err != nil {
		t.Fatal(err)
	}
	port := address[strings.LastIndex(address, ":")+1:]
	if slices.Contains(flags, "--secure-port=0") || !slices.Contains(flags, "--secure-port="+port) {
		t.Error(flags)
	}
}
