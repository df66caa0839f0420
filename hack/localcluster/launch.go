package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// launch lays out the cluster's folder and starts its programs, apart from the controller manager, which would wait for the API server in
// vain on a busy machine. One cluster is launched at a time, so that no two choose the same ports.
func (c *cluster) launch(ctx context.Context, o options) (owner *os.File, err error) {
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o700); err != nil {
		return nil, err
	}
	lock, err := lockFile(ctx, filepath.Join(c.tools.state, "clusters.lock"), func() {
		fmt.Fprintln(os.Stderr, "Another cluster is being created; waiting for it.")
	})
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := c.tools.prune(); err != nil {
		return nil, err
	}
	if c.exists() {
		return nil, fmt.Errorf("cluster %s exists already: delete it or choose another name", c.name)
	}
	if err := os.MkdirAll(c.file("localcluster"), 0o700); err != nil {
		return nil, err
	}
	if owner, err = tryLockFile(c.ownerLock()); err != nil {
		return nil, err
	}
	if err = c.layOut(o); err == nil {
		err = c.start(withoutManager)
	}
	if err != nil {
		err = errors.Join(err, c.delete(0))
		owner.Close()
		return nil, err
	}
	return owner, nil
}

// layOut writes everything that the cluster's programs are started with.
func (c *cluster) layOut(o options) error {
	for _, dir := range []string{"bin", "logs", "pki", "etcd"} {
		if err := os.MkdirAll(c.file(dir), 0o700); err != nil {
			return err
		}
	}
	if err := c.linkPrograms(o); err != nil {
		return err
	}
	p, err := c.writePlan(o)
	if err != nil {
		return err
	}
	if err := errors.Join(writePKI(c.ownPKI("")), writeClusterPKI(c.pki(""))); err != nil {
		return err
	}
	admin, err := adminCredentials(c.pki(""))
	if err != nil {
		return err
	}
	kubeconfig, err := admin.kubeconfig(c.name, adminUser, "https://"+address(p.Ports.APIServer))
	if err != nil {
		return err
	}
	scheduler, err := fillIn(schedulerConfig, map[string]any{"Kubeconfig": c.file("kubeconfig.yaml"), "CSI": o.csi})
	if err != nil {
		return err
	}
	kwok, err := fillIn(kwokConfig, p.Ports)
	if err != nil {
		return err
	}
	for file, data := range map[string][]byte{
		c.file("kubeconfig.yaml"):     kubeconfig,
		c.config("scheduler.yaml"):    scheduler,
		c.config("audit-policy.yaml"): []byte(auditPolicy),
		c.config("kwok.yaml"):         append(kwok, stages...),
		c.file("logs", "audit.log"):   nil,
	} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// linkPrograms puts a link to each program in the cluster's folder: a process counts as the cluster's by the path of its program.
func (c *cluster) linkPrograms(o options) error {
	links := map[string]string{}
	for name, program := range map[string]string{etcd: "etcd", apiServer: "kube-apiserver", scheduler: "kube-scheduler", kwok: "kwok"} {
		path, err := c.tools.path(program)
		if err != nil {
			return err
		}
		links[name] = path
	}
	if o.controllerManager != "" {
		links[manager] = o.controllerManager
	}
	for name, target := range links {
		if err := os.Symlink(target, c.file("bin", name)); err != nil {
			return err
		}
	}
	return nil
}

func withoutManager(name string) bool { return name != manager }
func onlyManager(name string) bool    { return name == manager }

// start starts those of the wanted components that do not run.
func (c *cluster) start(wanted func(name string) bool) error {
	p, err := c.plan()
	if err != nil {
		return err
	}
	for _, component := range p.Components {
		if !wanted(component.Name) {
			continue
		}
		running, err := processesNamed(c.dir, component.Name)
		if err == nil && len(running) == 0 {
			err = c.runUntilSeen(component)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runUntilSeen starts a component and waits until it is among the cluster's processes. A script is not until its interpreter runs.
func (c *cluster) runUntilSeen(o component) error {
	ended, err := c.run(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	gone := false
	err = poll(ctx, o.Name, func() error {
		select {
		case <-ended:
			gone = true
			return nil
		default:
		}
		running, err := processesNamed(c.dir, o.Name)
		if err == nil && len(running) == 0 {
			err = errors.New("it is not among the processes of the cluster")
		}
		return err
	})
	if gone {
		return &endedError{o.Name, c.logTail(o.Name)}
	}
	return err
}

// run starts a component, which goes on when this process ends. The returned channel is closed when it ends before.
func (c *cluster) run(o component) (ended <-chan struct{}, err error) {
	log, err := os.OpenFile(c.log(o.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(c.file("bin", o.Name), o.Args...)
	cmd.Dir = c.dir // not the user's folder, which it would keep in use
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "KWOK_") })
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for localcluster, which ends it
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // why it has ended is in its log
	}()
	return done, nil
}

// startComponents starts the cluster's stopped programs and waits until the API server is ready.
func (c *cluster) startComponents(ctx context.Context) error {
	d, err := c.describe(ctx)
	if err != nil {
		return err
	}
	if err := c.start(withoutManager); err != nil {
		return err
	}
	a, err := c.api(d)
	if err != nil {
		return err
	}
	if err := a.waitReady(ctx); err != nil {
		return err
	}
	return c.start(onlyManager)
}
