package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// defaultName is the cluster that commands work on unless told another.
const defaultName = "dev"

func nameFlag(flags *flag.FlagSet) *string {
	return flags.String("name", defaultName, "name of the cluster")
}

// createFlags are those of the commands that create a cluster.
func createFlags(flags *flag.FlagSet) *options {
	o := &options{}
	flags.StringVar(&o.controllerManager, "kube-controller-manager-binary", "",
		"run this program as the cluster's controller manager (default none)")
	flags.IntVar(&o.nodes, "nodes", 3, "number of simulated nodes, each with room for 10,000 pods")
	flags.BoolVar(&o.kubeadmAdmission, "kubeadm-admission", false,
		"exactly the admission plugins of kubeadm, and nodes that keep the taint not-ready until a controller manager takes it away")
	flags.BoolVar(&o.untainted, "without-node-taints", false,
		"without the admission plugin that gives new nodes the taint not-ready, for tests without node-lifecycle-controller")
	flags.BoolVar(&o.csi, "with-csi", false, "a CSI driver with its sidecars, which provides volumes, and a scheduler that waits for them")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long the cluster may take to get ready")
	return o
}

// check makes the options complete, or says what is wrong with them.
func (o *options) check() error {
	if o.nodes < 0 || o.nodes > 250 {
		return fmt.Errorf("--nodes=%d: use 0 to 250", o.nodes)
	}
	if o.controllerManager == "" {
		return nil
	}
	path, err := filepath.Abs(o.controllerManager)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil {
		return fmt.Errorf("--kube-controller-manager-binary: %w", err)
	} else if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("--kube-controller-manager-binary: %s is not a program", path)
	}
	o.controllerManager = path
	return nil
}

func runCreate(ctx context.Context, flags *flag.FlagSet, args []string) error {
	name := nameFlag(flags)
	o := createFlags(flags)
	hold := flags.Bool("hold", false, "stay, and delete the cluster when standard input ends or on a signal")
	noBuild := flags.Bool("no-build", false, "fail if the control plane's programs are not built yet")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	c, err := openCluster(*name)
	if err != nil {
		return err
	}
	if *hold {
		ctx = untilEnd(ctx, os.Stdin)
	}
	if err := c.tools.ensureBuilt(ctx, o.csi, *noBuild); err != nil {
		return err
	}
	d, owner, err := c.create(ctx, *o)
	if err != nil {
		return err
	}
	defer owner.Close()
	if !*hold {
		if err := os.Remove(c.ownerLock()); err != nil {
			return err
		}
		return printJSON(d)
	}
	err = printJSON(d)
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, c.delete(managerGrace))
}

// ensureBuilt builds what is missing of the control plane's programs, unless that is unwanted.
func (t *toolbox) ensureBuilt(ctx context.Context, csi, noBuild bool) error {
	names := t.neededHere(ctx, csi)
	if !noBuild {
		return t.build(ctx, names)
	}
	missing, err := t.missing(names)
	if err == nil && len(missing) > 0 {
		command := "make localcluster"
		if csi {
			command = "go -C hack/localcluster run . build --with-csi"
		}
		err = fmt.Errorf("the control plane's programs are not built yet (%s): run '%s' first, which takes %s",
			strings.Join(programNames(missing), ", "), command, usualTime(missing))
	}
	return err
}

// untilEnd returns a context that ends when in does. Whoever holds the other end of in need not do anything for that: the
// system closes it when they die.
func untilEnd(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx
}

func printJSON(v any) error {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

func runDelete(_ context.Context, flags *flag.FlagSet, args []string) error {
	name := nameFlag(flags)
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	c, err := openCluster(*name)
	if err != nil {
		return err
	}
	return c.delete(managerGrace) // of one that doesn't exist, there is nothing to delete
}

func runList(_ context.Context, flags *flag.FlagSet, args []string) error {
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	t, err := newToolbox()
	if err != nil {
		return err
	}
	clusters, err := t.clusters()
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "NAME\tOWNER\tRUNNING\tKUBECONFIG")
	for _, c := range clusters {
		owner := "none"
		if c.orphaned() {
			owner = "dead"
		} else if fileExists(c.ownerLock()) {
			owner = "alive"
		}
		running, err := processes(c.dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", c.name, owner, describeProcesses(running), c.file("kubeconfig.yaml"))
	}
	return out.Flush()
}

func runPrune(ctx context.Context, flags *flag.FlagSet, args []string) error {
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	t, err := newToolbox()
	if err != nil {
		return err
	}
	lock, err := lockFile(ctx, filepath.Join(t.state, "clusters.lock"), func() {})
	if err != nil {
		return err
	}
	defer lock.Close()
	return t.prune()
}

func runStopComponent(_ context.Context, flags *flag.FlagSet, args []string) error {
	name := nameFlag(flags)
	kill := flags.Bool("kill", false, "by SIGKILL instead of SIGTERM")
	c, component, err := parseComponent(flags, name, args)
	if err != nil {
		return err
	}
	return c.stopComponent(component, *kill)
}

func runStartComponent(ctx context.Context, flags *flag.FlagSet, args []string) error {
	name := nameFlag(flags)
	timeout := flags.Duration("timeout", 2*time.Minute, "how long the API server may take to get ready")
	c, component, err := parseComponent(flags, name, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if component == driverProgram {
		return c.startDriver(ctx)
	}
	return c.startComponents(ctx)
}

func parseComponent(flags *flag.FlagSet, name *string, args []string) (*cluster, string, error) {
	if err := parse(flags, args, 1); err != nil {
		return nil, "", err
	}
	c, err := openCluster(*name)
	if err != nil {
		return nil, "", err
	}
	component := flags.Arg(0)
	if !c.exists() {
		return nil, "", fmt.Errorf("no cluster %s", c.name)
	}
	if !c.hasComponent(component) {
		return nil, "", fmt.Errorf("cluster %s has no component %q", c.name, component)
	}
	return c, component, nil
}

func runClean(_ context.Context, flags *flag.FlagSet, args []string) error {
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	t, err := newToolbox()
	if err != nil {
		return err
	}
	clusters, err := t.clusters()
	if err != nil {
		return err
	}
	for _, c := range clusters {
		if err := c.delete(managerGrace); err != nil {
			return err
		}
	}
	return os.RemoveAll(t.state)
}

func openCluster(name string) (*cluster, error) {
	t, err := newToolbox()
	if err != nil {
		return nil, err
	}
	return t.cluster(name)
}
