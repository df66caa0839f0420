package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/cluster/countproxy"
)

// BenchmarkProxy tells what the counting proxy adds to a request that creates a pod: it must be little beside the API
// server's own part, which is a millisecond or so.
func BenchmarkProxy(b *testing.B) {
	pod, err := json.Marshal(loosePod("n", "a", "web"))
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(pod)
	}))
	defer server.Close()
	proxy, err := countproxy.StartFor(&rest.Config{Host: server.URL})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := proxy.Close(); err != nil {
			b.Error(err)
		}
	}()
	for _, c := range []struct{ name, url string }{{"direct", server.URL}, {"counted", proxy.URL()}} {
		b.Run(c.name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				for pb.Next() {
					resp, err := client.Post(c.url+"/api/v1/namespaces/n/pods", "application/json", http.NoBody)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			})
		})
	}
}
