package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// launcher starts control planes with the program in hack/localcluster.
type launcher struct {
	source  string // hack/localcluster
	program string // built from it
	started int

	controllers string // what all contenders run beside the controllers of a scenario
	profiles    profiles
}

// newLauncher builds the program into dir.
func newLauncher(ctx context.Context, dir string) (*launcher, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	repository, err := findRepository(wd)
	if err != nil {
		return nil, err
	}
	l := &launcher{source: filepath.Join(repository, "hack", "localcluster"), program: filepath.Join(dir, "localcluster")}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", l.program, ".")
	build.Dir = l.source
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build hack/localcluster: %w\n%s", err, out)
	}
	return l, nil
}

// findRepository looks for the folder that has hack/localcluster, from dir upwards.
func findRepository(dir string) (string, error) {
	for parent := dir; ; parent = filepath.Dir(parent) {
		if _, err := os.Stat(filepath.Join(parent, "hack", "localcluster", "go.mod")); err == nil {
			return parent, nil
		}
		if parent == filepath.Dir(parent) {
			return "", fmt.Errorf("no hack/localcluster from %s upwards", dir)
		}
	}
}

// run runs the program and returns what it prints.
func (l *launcher) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.program, args...)
	cmd.Dir = l.source
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("localcluster %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// plane is a running control plane without scheduler and without anything that plays pods. It ends with this process,
// however that ends, and takes all processes along whose program was started from its folder.
type plane struct {
	Name              string `json:"name"`
	Dir               string `json:"dir"`
	Kubeconfig        string `json:"kubeconfig"`
	ManagerKubeconfig string `json:"managerKubeconfig"`

	config *rest.Config         // with the rights of an administrator, whom the API server lets pass without queueing
	client kubernetes.Interface // the same

	holder *exec.Cmd
	hold   io.Closer // ends the control plane

	controllers string // see launcher
	profiles    *profiles
}

// start starts a control plane. The caller stops it.
func (l *launcher) start(ctx context.Context) (*plane, error) {
	l.started++
	p := &plane{
		controllers: l.controllers, profiles: &l.profiles,
		holder: exec.Command(l.program, "create", "--hold", "--no-build", "--without-node-taints", "--name",
			fmt.Sprintf("bench-%d-%d", os.Getpid(), l.started)),
	}
	p.holder.Dir = l.source
	var stderr bytes.Buffer
	p.holder.Stderr = &stderr
	stdout, err := p.holder.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.hold, err = p.holder.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.holder.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(stdout).Decode(p); err != nil {
		_ = p.stop() // it has failed, and says why on standard error
		return nil, fmt.Errorf("start a control plane: %w\n%s", err, &stderr)
	}
	if err := l.prepare(ctx, p); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// prepare stops what would play pods or take its share of the machine, and makes the clients.
func (l *launcher) prepare(ctx context.Context, p *plane) error {
	for _, component := range []string{"kube-scheduler", "kwok-controller"} {
		if _, err := l.run(ctx, "stop-component", "--kill", "--name", p.Name, component); err != nil {
			return err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return err
	}
	config.CertFile, config.KeyFile, config.CAFile = "", "", "" // files would be looked at again and again, even when they are gone
	config.QPS = -1
	config.UserAgent = "bench"
	config.WarningHandler = rest.NoWarnings{} // that Endpoints are deprecated is known
	config.ContentType = runtime.ContentTypeProtobuf
	p.config = config
	p.client, err = kubernetes.NewForConfig(config)
	return err
}

// clients returns n clients that don't share a connection.
func (p *plane) clients(n int) ([]kubernetes.Interface, error) {
	clients := make([]kubernetes.Interface, 0, n)
	for range n {
		config := rest.CopyConfig(p.config)
		config.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext // client-go shares connections among those that have none
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// dynamic returns a client for objects of any kind.
func (p *plane) dynamic() (dynamic.Interface, error) {
	config := rest.CopyConfig(p.config)
	config.ContentType = runtime.ContentTypeJSON
	return dynamic.NewForConfig(config)
}

// bareNamespace makes a namespace with nothing in it and returns its name.
func (p *plane) bareNamespace(ctx context.Context) (string, error) {
	made, err := p.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}},
		metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return made.Name, nil
}

// newNamespace makes a namespace in which pods can be created: with a ServiceAccount, which not all managers make.
func (p *plane) newNamespace(ctx context.Context) (string, error) {
	name, err := p.bareNamespace(ctx)
	if err != nil {
		return "", err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := p.client.CoreV1().ServiceAccounts(name).Create(ctx, account, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return "", err
	}
	return name, nil
}

// dropLease removes the leader's lease, so that the next manager need not wait until it expires.
func (p *plane) dropLease(ctx context.Context) error {
	return client404IsFine(p.client.CoordinationV1().Leases("kube-system").Delete(ctx, leaseName, metav1.DeleteOptions{}))
}

// stop ends the control plane and waits until nothing of it is left.
func (p *plane) stop() error {
	err := p.hold.Close()
	ended := make(chan error, 1)
	go func() { ended <- p.holder.Wait() }()
	select {
	case waitErr := <-ended:
		return errors.Join(err, waitErr)
	case <-time.After(time.Minute):
		return errors.Join(err, errors.New("localcluster did not end in a minute"), p.holder.Process.Kill())
	}
}
