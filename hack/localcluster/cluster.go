package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"time"
)

var (
	//go:embed config/kwok.yaml
	kwokConfig string
	//go:embed config/stages.yaml
	stages string
	//go:embed config/audit-policy.yaml
	auditPolicy string
	//go:embed config/scheduler.yaml.tmpl
	schedulerConfig string
)

// managerGrace is how long a controller manager may take to end by itself.
const managerGrace = 15 * time.Second

// cluster is a control plane and its folder.
type cluster struct {
	tools *toolbox
	name  string
	dir   string
}

// description is what a user of a cluster has to know about it.
type description struct {
	Name              string `json:"name"`
	Dir               string `json:"dir"`
	Server            string `json:"server"`
	Etcd              string `json:"etcd"`              // its address, without encryption
	Kubeconfig        string `json:"kubeconfig"`        // of the cluster's administrator
	ManagerKubeconfig string `json:"managerKubeconfig"` // of the user system:kube-controller-manager
	CAFile            string `json:"caFile"`
	Kubectl           string `json:"kubectl"`
	Logs              string `json:"logs"`
	AuditLog          string `json:"auditLog"`
	ManagerPort       int    `json:"managerPort"` // of a controller manager, to which the port 10257 of all pods leads
}

func (t *toolbox) cluster(name string) (*cluster, error) {
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,60}$`).MatchString(name) {
		return nil, fmt.Errorf("cluster name %q: use up to 61 lower-case letters, digits and dashes", name)
	}
	return &cluster{tools: t, name: name, dir: filepath.Join(t.state, "clusters", name)}, nil
}

// clusters are all that have a folder, running or not.
func (t *toolbox) clusters() ([]*cluster, error) {
	entries, err := os.ReadDir(filepath.Join(t.state, "clusters"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var found []*cluster
	for _, entry := range entries {
		if c, err := t.cluster(entry.Name()); err == nil && entry.IsDir() {
			found = append(found, c)
		}
	}
	return found, nil
}

func (c *cluster) file(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *cluster) exists() bool { return fileExists(c.dir) }

// ownerLock is a file that the cluster's owner keeps locked. A cluster that has the file, but whose lock is free, is left
// over from an owner that died. A cluster without the file stays until someone deletes it.
func (c *cluster) ownerLock() string { return c.file("localcluster", "owner.lock") }

// orphaned tells whether the cluster's owner has died.
func (c *cluster) orphaned() bool {
	if !fileExists(c.ownerLock()) {
		return false
	}
	lock, err := tryLockFile(c.ownerLock())
	if lock == nil || err != nil {
		return false
	}
	lock.Close()
	return true
}

// prune deletes the clusters whose owner has died.
func (t *toolbox) prune() error {
	clusters, err := t.clusters()
	if err != nil {
		return err
	}
	for _, c := range clusters {
		if !c.orphaned() {
			continue
		}
		fmt.Fprintf(os.Stderr, "Deleting cluster %s, whose owner has died.\n", c.name)
		if err := c.delete(0); err != nil {
			return err
		}
	}
	return os.RemoveAll(t.trash())
}

// options of a new cluster.
type options struct {
	controllerManager string // the binary; none if empty
	nodes             int
	timeout           time.Duration
	kubeadmAdmission  bool // exactly the admission plugins of kubeadm
	untainted         bool // without the admission plugin that taints new nodes
	csi               bool // a driver that provides volumes
}

// create makes a cluster and waits until it is ready. The caller owns it until it closes the returned lock.
func (c *cluster) create(ctx context.Context, o options) (*description, *os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	owner, err := c.launch(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.complete(ctx, o)
	if err != nil {
		err = errors.Join(err, c.delete(0))
		owner.Close()
		return nil, nil, err
	}
	return d, owner, nil
}

// complete waits until a launched cluster is ready and adds nodes and the manager's identity. It gives up early when one of
// the programs dies.
func (c *cluster) complete(ctx context.Context, o options) (*description, error) {
	d, err := c.describe(ctx)
	if err != nil {
		return nil, err
	}
	api, err := c.api(d)
	if err != nil {
		return nil, err
	}
	alive, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.watch(alive, cancel, etcd, apiServer, scheduler, kwok)

	err = api.waitReady(alive)
	if err == nil && o.controllerManager != "" {
		if err = c.start(onlyManager); err == nil {
			go c.watch(alive, cancel, manager)
		}
	}
	if err == nil {
		err = api.createNodes(alive, o.nodes)
	}
	switch {
	case err != nil || o.controllerManager == "" && o.kubeadmAdmission: // the nodes keep their taint
	case o.controllerManager == "":
		err = api.untaint(alive)
	default: // the controller manager takes the taint away
		err = api.awaitUntainted(alive, func(taintedNode) error { return nil })
	}
	if err == nil && o.csi {
		err = c.startCSI(alive, api, o.nodes)
	}
	if ended := new(endedError); errors.As(context.Cause(alive), &ended) {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	return d, c.writeManagerKubeconfig(d)
}

// endedError says that one of a cluster's programs is gone though nobody stopped it.
type endedError struct {
	component, log string
}

func (e *endedError) Error() string {
	return fmt.Sprintf("%s ended by itself\n%s", e.component, e.log)
}

// watch cancels with an endedError when one of the components' processes is gone.
func (c *cluster) watch(ctx context.Context, cancel context.CancelCauseFunc, components ...string) {
	for {
		for _, component := range components {
			running, err := processesNamed(c.dir, component)
			if err == nil && len(running) == 0 {
				cancel(&endedError{component, c.logTail(component)})
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// api is a client with the administrator's rights.
func (c *cluster) api(d *description) (*api, error) {
	admin, err := adminCredentials(c.file("pki"))
	if err != nil {
		return nil, err
	}
	return newAPI(d.Server, admin)
}

// fillIn makes a file of its template.
func fillIn(text string, data any) ([]byte, error) {
	var out bytes.Buffer
	err := template.Must(template.New("").Parse(text)).Execute(&out, data)
	return out.Bytes(), err
}

// describe gathers what the cluster's folder says.
func (c *cluster) describe(ctx context.Context) (*description, error) {
	p, err := c.plan()
	if err != nil {
		return nil, err
	}
	kubectl, err := c.tools.kubectl(ctx)
	if err != nil {
		return nil, err
	}
	return &description{
		Name:              c.name,
		Dir:               c.dir,
		Server:            "https://" + address(p.Ports.APIServer),
		Etcd:              "http://" + address(p.Ports.Etcd),
		Kubeconfig:        c.file("kubeconfig.yaml"),
		ManagerKubeconfig: c.file("localcluster", "manager.kubeconfig"),
		CAFile:            c.file("pki", "ca.crt"),
		Kubectl:           kubectl,
		Logs:              c.file("logs"),
		AuditLog:          c.file("logs", "audit.log"),
		ManagerPort:       p.Ports.Manager,
	}, nil
}

func (c *cluster) writeManagerKubeconfig(d *description) error {
	creds, err := newCredentials(c.file("pki"), managerUser)
	if err != nil {
		return err
	}
	data, err := creds.kubeconfig(c.name, managerUser, d.Server)
	if err != nil {
		return err
	}
	return os.WriteFile(d.ManagerKubeconfig, data, 0o600)
}

// delete ends the cluster's processes and removes its folder. The controller manager may take grace to end by itself, the
// other programs have nothing to lose.
func (c *cluster) delete(grace time.Duration) error {
	managers := func() ([]process, error) { return processesNamed(c.dir, manager) }
	if err := terminate(managers, grace); err != nil {
		return err
	}
	if err := terminate(func() ([]process, error) { return processes(c.dir) }, 0); err != nil {
		return err
	}
	return c.tools.discard(c.dir)
}

// discard removes a folder, in one step as far as others can see. What is left of it when we die halfway is removed by the
// next prune.
func (t *toolbox) discard(dir string) error {
	if err := os.MkdirAll(t.trash(), 0o700); err != nil {
		return err
	}
	doomed, err := os.MkdirTemp(t.trash(), filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	if err := os.Rename(dir, filepath.Join(doomed, "cluster")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(doomed)
}

func (t *toolbox) trash() string { return filepath.Join(t.state, "trash") }

// stopComponent ends one of the cluster's programs: by SIGKILL at once, or by SIGTERM.
func (c *cluster) stopComponent(name string, kill bool) error {
	running := func() ([]process, error) { return processesNamed(c.dir, name) }
	grace := 5 * time.Second // the API server would wait a minute for its watches to end
	if kill {
		grace = 0
	}
	return terminate(running, grace)
}

// hasComponent tells whether the cluster has the named program.
func (c *cluster) hasComponent(name string) bool {
	return name != "" && filepath.Base(name) == name && fileExists(c.file("bin", name))
}

// logTail is the end of a component's log, for error messages.
func (c *cluster) logTail(component string) string {
	const lines, most = 25, 16 << 10
	f, err := os.Open(c.log(component))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return fmt.Sprintf("The last lines of %s.log:\n%s", component, strings.Join(all[max(0, len(all)-lines):], "\n"))
}
