package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// options are the flags.
type options struct {
	name       string
	folder     string
	kubeconfig string
	programs   string
	logs       string
}

// The files in the folder.
const (
	socketFile  = "csi.sock"     // where the driver answers
	volumesFile = "volumes.json" // what it has
	controlFile = "control"      // the URL at which it is told what to do
)

func main() {
	var o options
	flag.StringVar(&o.name, "name", "csi.localcluster.standalone-kcm.io", "name of the driver")
	flag.StringVar(&o.folder, "folder", "", "folder for its socket, its volumes and the URL for tests; what is there is used again")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "of the cluster in which it plays the kubelets and runs sidecars (default none)")
	flag.StringVar(&o.programs, "sidecars", "", "folder with csi-provisioner, csi-attacher and csi-resizer, which are run (default none)")
	flag.StringVar(&o.logs, "logs", "", "folder for the logs of the sidecars")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		klog.ErrorS(err, "The driver ends")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

// run serves until ctx ends, or something cannot go on.
func run(ctx context.Context, o options) error {
	// The path of the socket is short from here. One from the root may be longer than a socket's may be.
	if err := os.Chdir(o.folder); err != nil {
		return err
	}
	store, err := openStore(volumesFile)
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(o.folder, volumesFile), err)
	}
	asked := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)

	stage := &stage{store: store}
	if err := os.Remove(socketFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	socket, err := net.Listen("unix", socketFile)
	if err != nil {
		return err
	}
	server := newServer(&driver{name: o.name, store: store}, stage)
	defer server.Stop() // after the sidecars have ended
	go func() { cancel(server.Serve(socket)) }()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: control(store, stage), ReadHeaderTimeout: time.Minute}
	defer web.Close()
	go func() { cancel(web.Serve(listener)) }()

	if o.kubeconfig != "" {
		client, err := newClient(o.kubeconfig)
		if err != nil {
			return err
		}
		kubelets, err := newKubelets(client, o.name, ctx.Done())
		if err != nil {
			return err
		}
		work.Go(func() { kubelets.run(ctx) })
	}
	if o.programs != "" {
		s := sidecars{programs: o.programs, logs: o.logs, kubeconfig: o.kubeconfig, endpoint: endpoint(o.folder)}
		work.Go(func() { s.run(ctx) })
	}
	if err := writeFile(controlFile, "http://"+listener.Addr().String()); err != nil {
		return err
	}
	<-ctx.Done()
	work.Wait()
	if asked.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// endpoint is where sidecars, which run in the folder, find the driver. They want a path from the root.
func endpoint(folder string) string {
	if runtime.GOOS == "linux" {
		folder = "/proc/self/cwd"
	}
	return "unix://" + filepath.Join(folder, socketFile)
}

func newServer(d *driver, s *stage) *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	return server
}

// newClient returns a client without limits of its own.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.UserAgent = "csidriver"
	return kubernetes.NewForConfig(config)
}

// writeFile writes a file in one step.
func writeFile(name, content string) error {
	if err := os.WriteFile(name+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
