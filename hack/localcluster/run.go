package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// rolloutTime is how long the rollout of examples may take. That of web.yaml takes about two seconds, and the first Job of a CronJob a
// minute at most.
const rolloutTime = 3 * time.Minute

// runRun is "make run": a cluster with our binary as its controller manager, a rollout to look at, and time to try things.
func runRun(ctx context.Context, flags *flag.FlagSet, args []string) error {
	name := flags.String("name", fmt.Sprintf("run-%d", os.Getpid()), "name of the cluster")
	manifest := flags.String("manifest", "", "what to apply; it has to have a Deployment called web (default examples/web.yaml)")
	all := flags.String("examples", "web", `which examples to roll out: "web", or "all" workloads of examples/`)
	ldflags := flags.String("build-manager", "", "first build bin/controller-manager, with these flags of the linker")
	o := createFlags(flags)
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	c, err := openCluster(*name)
	if err != nil {
		return err
	}
	repository := filepath.Join(c.tools.source, "..", "..")
	if o.controllerManager == "" {
		o.controllerManager = filepath.Join(repository, "bin", "controller-manager")
	}
	var first []batch
	if *ldflags != "" {
		first = []batch{managerBatch(repository, *ldflags)}
	}
	ownManifest := *manifest == ""
	switch {
	case *all != "web" && *all != "all":
		return fmt.Errorf(`--examples=%s: use "web" or "all"`, *all)
	case *all == "all" && *manifest != "":
		return errors.New("--manifest and --examples=all exclude one another")
	case *all == "all":
		o.csi = true
		*manifest = filepath.Join(repository, "examples")
	case *manifest == "":
		*manifest = filepath.Join(repository, "examples", "web.yaml")
	}
	if err := c.tools.buildForRun(ctx, o, first, *all == "web" && ownManifest); err != nil {
		return err
	}

	say("Starting a control plane with %s as its controller manager.", o.controllerManager)
	start := time.Now()
	d, owner, err := c.create(ctx, *o)
	if err != nil {
		return err
	}
	defer owner.Close()
	say("It is ready after %s.", time.Since(start).Round(100*time.Millisecond))

	err = c.demonstrate(ctx, d, *manifest, *all == "all")
	say("Ending the control plane.")
	err = errors.Join(err, c.delete(managerGrace))
	if err == nil {
		say("Nothing is left behind.")
	}
	return err
}

// managerBatch builds what "make build" builds.
func managerBatch(repository, ldflags string) batch {
	return batch{what: "controller-manager", dir: repository, packages: []string{"./cmd/controller-manager"},
		out: filepath.Join(repository, "bin"), ldflags: ldflags}
}

// buildForRun builds what is missing, kubectl only if there is nothing to see without it, and checks the options.
func (t *toolbox) buildForRun(ctx context.Context, o *options, first []batch, withoutKubectl bool) error {
	names := t.neededHere(ctx, o.csi)
	if withoutKubectl {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "kubectl" })
	}
	if len(first) == 0 {
		if err := o.check(); err != nil {
			return fmt.Errorf("%w ('make build' builds it)", err)
		}
	}
	if err := t.build(ctx, names, first...); err != nil {
		return err
	}
	return o.check()
}

// demonstrate rolls the examples out and then stays until ctx ends. It ends early when the controller manager does.
func (c *cluster) demonstrate(ctx context.Context, d *description, manifest string, all bool) error {
	alive, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.watch(alive, cancel, "kube-controller-manager")

	err := c.rollOut(alive, d, manifest, all)
	if err == nil {
		printHints(d, all)
		<-alive.Done()
	}
	ended := new(endedError)
	switch {
	case ctx.Err() != nil: // Ctrl-C: whatever failed, failed because of that
		return nil
	case errors.As(context.Cause(alive), &ended):
		return ended
	default:
		return fmt.Errorf("%w\n%s", err, c.logTail("kube-controller-manager"))
	}
}

// rollOut applies the manifest, waits until it is rolled out, and shows what there is then.
func (c *cluster) rollOut(ctx context.Context, d *description, manifest string, all bool) error {
	if !all {
		rollout := [][]string{{"apply", "--filename", manifest},
			{"rollout", "status", "deployment/web", "--timeout=" + rolloutTime.String()}}
		if !fileExists(d.Kubectl) {
			if err := c.rollOutByHand(ctx, d, manifest); err != nil {
				return err
			}
			rollout = nil
		}
		show := []string{"get", "deployments,replicasets,pods,services,endpointslices,serviceaccounts", "--output=wide"}
		return c.kubectl(ctx, d, append(rollout, show)...)
	}
	if err := c.serveMetrics(ctx, d); err != nil {
		return err
	}
	if err := c.kubectl(ctx, d, []string{"apply", "--filename", manifest}); err != nil {
		return err
	}
	a, err := c.api(d)
	if err != nil {
		return err
	}
	if err := a.awaitAll(ctx); err != nil {
		return err
	}
	if err := a.awaitVolumes(ctx); err != nil {
		return err
	}
	return c.kubectl(ctx, d,
		[]string{"get", "deployments,replicasets,daemonsets,statefulsets,persistentvolumeclaims,jobs,cronjobs," +
			"poddisruptionbudgets,horizontalpodautoscalers,pods,services,endpointslices", "--output=wide"},
		[]string{"get", "storageclasses,persistentvolumes,volumeattachments"},
		[]string{"get", "--namespace=team", "resourcequotas,deployments,pods"},
	)
}

// rollOutByHand does without kubectl, and then builds it.
func (c *cluster) rollOutByHand(ctx context.Context, d *description, manifest string) error {
	data, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	a, err := c.api(d)
	if err != nil {
		return err
	}
	if err := a.createFrom(ctx, string(data)); err != nil {
		return err
	}
	deadline, cancel := context.WithTimeout(ctx, rolloutTime)
	defer cancel()
	what, err := a.await(deadline, examples()[0])
	if err != nil {
		return err
	}
	say("Deployment web is rolled out: %s. kubectl follows.", what)
	return c.tools.build(ctx, []string{"kubectl"})
}

// kubectl runs kubectl with each of the lists of arguments, and shows what it says.
func (c *cluster) kubectl(ctx context.Context, d *description, all ...[]string) error {
	for _, args := range all {
		fmt.Printf("\n$ kubectl %s\n", strings.Join(args, " "))
		cmd := exec.CommandContext(ctx, d.Kubectl, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+d.Kubeconfig, "KUBECACHEDIR="+c.file("kubectl-cache"))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("kubectl %s: %w", args[0], err)
		}
	}
	return nil
}

func printHints(d *description, csi bool) {
	volumes := ""
	if csi {
		volumes = `  kubectl patch persistentvolumeclaim data-db-0 --patch='{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'
  kubectl get persistentvolumeclaims,persistentvolumes,volumeattachments
`
	}
	fmt.Printf(`
The control plane stays up until Ctrl-C. In another terminal:

  export KUBECONFIG=%[1]s
`, d.Kubeconfig)
	if installed, _ := exec.LookPath("kubectl"); installed != d.Kubectl {
		fmt.Printf("  alias kubectl=%s\n", d.Kubectl)
	}
	fmt.Printf(`
  kubectl get deployments,replicasets,pods
  kubectl scale deployment web --replicas=10
  kubectl set image deployment/web nginx=nginx:1.29 && kubectl rollout status deployment/web
  kubectl rollout history deployment/web
  kubectl rollout undo deployment/web
  kubectl create token default
  kubectl delete deployment web --cascade=foreground
  kubectl create namespace shop && kubectl delete namespace shop
  bin/localcluster kill-node node-0
%[2]s  tail -f %[1]s/kube-controller-manager.log

`, d.Logs, volumes)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
