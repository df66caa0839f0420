package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// api is as much of a Kubernetes client as it takes to see that a cluster is ready, to give it nodes and to roll out examples.
type api struct {
	server string
	http   *http.Client
}

func newAPI(server string, c credentials) (*api, error) {
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.ca) {
		return nil, errors.New("no CA certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}}
	return &api{server: server, http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}, nil
}

func (a *api) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if len(body) > 0 && body[0] != '{' {
		req.Header.Set("Content-Type", "application/yaml")
	}
	if method == "PATCH" {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		err := fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(data)))
		if resp.StatusCode == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", errNotFound, err)
		}
		return nil, err
	}
	return data, nil
}

var errNotFound = errors.New("not found")

// waitReady waits until the API server has set up everything it sets up by itself, such as RBAC roles and namespaces.
func (a *api) waitReady(ctx context.Context) error {
	return poll(ctx, "the API server", func() error {
		if _, err := a.do(ctx, "GET", "/readyz", nil); err != nil {
			return err
		}
		for _, namespace := range []string{"default", "kube-system"} {
			if _, err := a.do(ctx, "GET", "/api/v1/namespaces/"+namespace, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// createNodes makes n nodes with room for 10,000 pods each.
func (a *api) createNodes(ctx context.Context, n int) error {
	for i := range n {
		if _, err := a.do(ctx, "POST", "/api/v1/nodes", nodeManifest(i)); err != nil {
			return err
		}
	}
	return poll(ctx, "the nodes", func() error {
		data, err := a.do(ctx, "GET", "/api/v1/nodes", nil)
		if err != nil {
			return err
		}
		ready, err := countReady(data)
		if err == nil && ready < n {
			err = fmt.Errorf("%d of %d are ready", ready, n)
		}
		return err
	})
}

func nodeManifest(i int) []byte {
	name := fmt.Sprintf("node-%d", i)
	podCIDR := fmt.Sprintf("10.%d.0.0/16", i+1) // Services have addresses in 10.0.0.0/24
	room := map[string]string{"cpu": "10k", "memory": "100Ti", "pods": "10k"}
	type object = map[string]any
	manifest, _ := json.Marshal(object{
		"apiVersion": "v1",
		"kind":       "Node",
		"metadata": object{
			"name":        name,
			"annotations": object{"kwok.x-k8s.io/node": "fake"},
			"labels": object{
				"kubernetes.io/hostname": name,
				"kubernetes.io/os":       "linux",
				"kubernetes.io/arch":     "amd64",
			},
		},
		"spec": object{"podCIDR": podCIDR, "podCIDRs": []string{podCIDR}},
		"status": object{
			"capacity":    room,
			"allocatable": room,
			// The API server talks to a kubelet by its Hostname: that is kwok. No one talks to the InternalIP, which only
			// shows as the address of host-network pods.
			"addresses": []object{
				{"type": "Hostname", "address": "localhost"},
				{"type": "InternalIP", "address": fmt.Sprintf("198.18.0.%d", i+1)},
			},
		},
	})
	return manifest
}

// countReady counts the nodes in a list whose condition Ready is true.
func countReady(list []byte) (int, error) {
	var nodes struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal(list, &nodes); err != nil {
		return 0, err
	}
	ready := 0
	for _, node := range nodes.Items {
		for _, c := range node.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				ready++
			}
		}
	}
	return ready, nil
}

// poll calls check until it succeeds; when the time is up it returns check's last error.
func poll(ctx context.Context, what string, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// collections are where objects of the kinds in examples/web.yaml are created.
var collections = map[string]string{
	"Deployment": "/apis/apps/v1/namespaces/default/deployments",
	"Service":    "/api/v1/namespaces/default/services",
}

// createFrom creates the objects in a file of YAML documents.
func (a *api) createFrom(ctx context.Context, manifest string) error {
	for _, document := range strings.Split(manifest, "\n---\n") {
		kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(document)
		if kind == nil || collections[kind[1]] == "" {
			return fmt.Errorf("it is not known how to create\n%s", document)
		}
		if _, err := a.do(ctx, "POST", collections[kind[1]], []byte(document)); err != nil {
			return err
		}
	}
	return nil
}
