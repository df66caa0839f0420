package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// metricsServer is the program that serves metrics of pods. It lies in the cluster's folder, so that it ends with the cluster.
const metricsServer = "metrics-server"

// serveMetrics builds the program in test/metricsapi/serve and runs it until ctx ends. It returns when there are metrics.
func (c *cluster) serveMetrics(ctx context.Context, d *description) error {
	program := c.file("localcluster", metricsServer)
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "./test/metricsapi/serve")
	build.Dir = filepath.Join(c.tools.source, "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the server of metrics: %w\n%s", err, out)
	}
	log, err := os.Create(c.file("logs", metricsServer+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	serve := exec.CommandContext(ctx, program, "--kubeconfig", d.Kubeconfig)
	serve.Stdout, serve.Stderr = log, log
	if err := serve.Start(); err != nil {
		return err
	}
	go func() { _ = serve.Wait() }() // if it ends before, there are no metrics, and its log says why
	a, err := c.api(d)
	if err != nil {
		return err
	}
	return poll(ctx, "the server of metrics", func() error {
		_, err := a.do(ctx, "GET", "/apis/metrics.k8s.io/v1beta1/pods", nil)
		return err
	})
}
