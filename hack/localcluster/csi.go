package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// driverProgram is the CSI driver in test/csidriver. It runs its sidecars.
	driverProgram = "csidriver"
	// driverName is its name in the API.
	driverName = "csi.localcluster.standalone-kcm.io"
)

// sidecars are the programs that speak to the API server for the driver.
var sidecars = []string{"csi-provisioner", "csi-attacher", "csi-resizer"}

// withCSI are the programs of a cluster with the driver, besides those of every cluster.
func withCSI() []string { return append(slices.Clone(sidecars), driverProgram) }

// startCSI gives the cluster the driver and its StorageClasses, and waits until all nodes have the driver.
func (c *cluster) startCSI(ctx context.Context, a *api, nodes int) error {
	for _, o := range csiObjects() {
		if _, err := a.do(ctx, "POST", o.path, o.manifest); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.csiFile("sidecars"), 0o700); err != nil {
		return err
	}
	// Through links in the cluster's folder, so that they count as its processes.
	links := map[string]string{driverProgram: c.file("bin", driverProgram)}
	for _, s := range sidecars {
		links[s] = c.csiFile("sidecars", s)
	}
	for name, link := range links {
		target, err := c.tools.path(name)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	if err := c.startDriver(ctx); err != nil {
		return err
	}
	return poll(ctx, "the nodes' CSI driver", func() error {
		data, err := a.do(ctx, "GET", "/apis/storage.k8s.io/v1/csinodes", nil)
		if err != nil {
			return err
		}
		have, err := countWithDriver(data)
		if err == nil && have < nodes {
			err = fmt.Errorf("%d of %d nodes have it", have, nodes)
		}
		return err
	})
}

// countWithDriver counts the CSINodes in a list that have the driver.
func countWithDriver(list []byte) (n int, err error) {
	var all struct {
		Items []struct {
			Spec struct{ Drivers []struct{ Name string } }
		}
	}
	err = json.Unmarshal(list, &all)
	for _, node := range all.Items {
		for _, d := range node.Spec.Drivers {
			if d.Name == driverName {
				n++
			}
		}
	}
	return n, err
}

// csiFile is a file of the driver.
func (c *cluster) csiFile(elem ...string) string {
	return c.file(append([]string{"localcluster", "csi"}, elem...)...)
}

// startDriver starts the driver, unless it runs, and waits until it can be told what to do. It runs until it is stopped or the
// cluster is deleted.
func (c *cluster) startDriver(ctx context.Context) error {
	running := func() ([]process, error) { return processesNamed(c.dir, driverProgram) }
	if ps, err := running(); err != nil || len(ps) > 0 {
		return err
	}
	control := c.csiFile("control") // the driver writes it when it is ready
	if err := os.Remove(control); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	ended, err := c.run(component{driverProgram, []string{
		"--name", driverName, "--folder", c.csiFile(), "--kubeconfig", c.file("kubeconfig.yaml"),
		"--sidecars", c.csiFile("sidecars"), "--logs", c.file("logs"),
	}})
	if err != nil {
		return err
	}
	return poll(ctx, "the CSI driver", func() error {
		select {
		case <-ended:
			return &endedError{driverProgram, c.logTail(driverProgram)}
		default:
		}
		_, err := os.Stat(control)
		return err
	})
}

// csiObject is what a cluster with the driver has for it.
type csiObject struct {
	path     string
	manifest []byte
}

// csiObjects are the driver, its default StorageClass, and one whose claims wait for a pod.
func csiObjects() (all []csiObject) {
	type object = map[string]any
	class := func(name, binding string, annotations object) object {
		return object{
			"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
			"metadata":    object{"name": name, "annotations": annotations},
			"provisioner": driverName, "volumeBindingMode": binding, "allowVolumeExpansion": true, "reclaimPolicy": "Delete",
		}
	}
	for _, o := range []struct {
		resource string
		object   object
	}{
		{"csidrivers", object{
			"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": object{"name": driverName},
			"spec": object{"attachRequired": true, "podInfoOnMount": false},
		}},
		{"storageclasses", class("csi", "Immediate", object{"storageclass.kubernetes.io/is-default-class": "true"})},
		{"storageclasses", class("csi-wait", "WaitForFirstConsumer", nil)},
	} {
		manifest, _ := json.Marshal(o.object)
		all = append(all, csiObject{"/apis/storage.k8s.io/v1/" + o.resource, manifest})
	}
	return all
}

// sourcesOf are the files that a program of this repository is built from.
func sourcesOf(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	return append(files, filepath.Join(folder, "go.mod"), filepath.Join(folder, "go.sum")), err
}
