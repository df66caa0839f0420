package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"
)

const (
	// killer holds the Leases of nodes that are to be dead: kwok renews no Lease that somebody else holds.
	killer = "localcluster-kill-node"
	// stopped is the annotation of pods on dead nodes, which kwok leaves alone.
	stopped = "localcluster.standalone-kcm.io/stopped"
)

func runKillNode(ctx context.Context, flags *flag.FlagSet, args []string) error {
	name := flags.String("name", "", "name of the cluster (default the only one)")
	follow := flags.Bool("follow", true, "show what becomes of the node and its pods, until Ctrl-C")
	a, node, err := parseNode(flags, name, args)
	if err != nil {
		return err
	}
	if err := errors.Join(a.holdLease(ctx, node, fmt.Sprintf("%q", killer)), a.annotatePods(ctx, node, `"true"`)); err != nil {
		return err
	}
	fmt.Printf("   0s %s renews its Lease no longer. 'bin/localcluster revive-node %[1]s' brings it back.\n", node)
	if !*follow {
		return nil
	}
	return a.follow(ctx, node, time.Now())
}

func runReviveNode(ctx context.Context, flags *flag.FlagSet, args []string) error {
	name := flags.String("name", "", "name of the cluster (default the only one)")
	a, node, err := parseNode(flags, name, args)
	if err != nil {
		return err
	}
	return errors.Join(a.holdLease(ctx, node, "null"), a.annotatePods(ctx, node, "null"))
}

// parseNode reads the arguments of a command about a node.
func parseNode(flags *flag.FlagSet, name *string, args []string) (*api, string, error) {
	if err := parse(flags, args, 1); err != nil {
		return nil, "", err
	}
	t, err := newToolbox()
	if err != nil {
		return nil, "", err
	}
	all, err := t.clusters()
	if err != nil {
		return nil, "", err
	}
	if *name != "" {
		all = slices.DeleteFunc(all, func(c *cluster) bool { return c.name != *name })
	}
	if len(all) != 1 {
		return nil, "", fmt.Errorf("there are %d such clusters: 'localcluster list' lists them, --name=NAME chooses one", len(all))
	}
	d, err := all[0].describe(context.Background())
	if err != nil {
		return nil, "", err
	}
	a, err := all[0].api(d)
	return a, flags.Arg(0), err
}

// holdLease has somebody hold the Lease of a node, as JSON: null for nobody, so that kwok takes it back within ten seconds.
func (a *api) holdLease(ctx context.Context, node, holder string) error {
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":%s,"leaseDurationSeconds":%d}}`, holder, 1<<30)
	_, err := a.do(ctx, "PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+node, []byte(patch))
	return err
}

// annotatePods sets the annotation that a pod is stopped, of all pods on a node, as JSON.
func (a *api) annotatePods(ctx context.Context, node, value string) error {
	data, err := a.do(ctx, "GET", "/api/v1/pods?fieldSelector=spec.nodeName="+node, nil)
	if err != nil {
		return err
	}
	var pods struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
		}
	}
	if err := json.Unmarshal(data, &pods); err != nil {
		return err
	}
	for _, p := range pods.Items {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, stopped, value)
		if _, err := a.do(ctx, "PATCH", "/api/v1/namespaces/"+p.Metadata.Namespace+"/pods/"+p.Metadata.Name, []byte(patch)); err != nil &&
			!errors.Is(err, errNotFound) {
			return err
		}
	}
	return nil
}

// nodeState is what is shown of a node and its pods.
type nodeState struct {
	ready                string
	taints               []string
	pods, working, going int
}

// follow shows what changes, until ctx ends.
func (a *api) follow(ctx context.Context, node string, began time.Time) error {
	var last nodeState
	for {
		s, err := a.nodeState(ctx, node)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errNotFound) {
			s, err = nodeState{ready: "gone"}, nil
		}
		if err != nil {
			return err
		}
		for _, line := range s.since(last, node) {
			fmt.Printf("%4.0fs %s\n", time.Since(began).Seconds(), line)
		}
		last = s
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (a *api) nodeState(ctx context.Context, name string) (s nodeState, err error) {
	var node struct {
		Spec struct {
			Taints []struct{ Key, Effect string }
		}
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	var pods struct {
		Items []struct {
			Metadata struct{ DeletionTimestamp string }
			Status   struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	for path, into := range map[string]any{"/api/v1/nodes/" + name: &node, "/api/v1/pods?fieldSelector=spec.nodeName=" + name: &pods} {
		data, err := a.do(ctx, "GET", path, nil)
		if err != nil {
			return s, err
		}
		if err := json.Unmarshal(data, into); err != nil {
			return s, err
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == "Ready" {
			s.ready = fmt.Sprintf("Ready is %s: %s", c.Status, c.Message)
		}
	}
	for _, t := range node.Spec.Taints {
		s.taints = append(s.taints, t.Key+":"+t.Effect)
	}
	for _, p := range pods.Items {
		s.pods++
		if p.Metadata.DeletionTimestamp != "" {
			s.going++
		}
		for _, c := range p.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				s.working++
			}
		}
	}
	return s, nil
}

// since says what has changed.
func (s nodeState) since(last nodeState, node string) (lines []string) {
	if s.ready != last.ready {
		lines = append(lines, node+": "+s.ready)
	}
	for _, t := range s.taints {
		if !slices.Contains(last.taints, t) {
			lines = append(lines, node+" gets the taint "+t)
		}
	}
	for _, t := range last.taints {
		if !slices.Contains(s.taints, t) {
			lines = append(lines, node+" loses the taint "+t)
		}
	}
	if s.pods != last.pods || s.working != last.working || s.going != last.going {
		lines = append(lines, fmt.Sprintf("%d pods are on it: %d are ready, %d are being deleted", s.pods, s.working, s.going))
	}
	return lines
}

// notReady is the taint that the admission plugin TaintNodesByCondition gives to new nodes.
const notReady = "node.kubernetes.io/not-ready"

// taint is kept as it is, whatever fields it has.
type taint map[string]any

func (t taint) notReady() bool { return t["key"] == notReady && t["effect"] == "NoSchedule" }

// taintedNode is as much of a node as it takes to change its taints.
type taintedNode struct {
	Metadata struct{ Name, ResourceVersion string }
	Spec     struct{ Taints []taint }
}

// notReadyNodes are those in a list that have the taint.
func notReadyNodes(list []byte) (found []taintedNode, err error) {
	var nodes struct{ Items []taintedNode }
	err = json.Unmarshal(list, &nodes)
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Spec.Taints, taint.notReady) {
			found = append(found, node)
		}
	}
	return found, err
}

// awaitUntainted waits until no node has the taint. It lets each do something about those that have it.
func (a *api) awaitUntainted(ctx context.Context, each func(taintedNode) error) error {
	return poll(ctx, "the nodes", func() error {
		data, err := a.do(ctx, "GET", "/api/v1/nodes", nil)
		if err != nil {
			return err
		}
		nodes, err := notReadyNodes(data)
		if err != nil || len(nodes) == 0 {
			return err
		}
		err = fmt.Errorf("%d nodes have the taint %s", len(nodes), notReady)
		for _, node := range nodes {
			err = errors.Join(err, each(node))
		}
		return err
	})
}

// untaint takes the taint from all nodes, which are ready, as node-lifecycle-controller does.
func (a *api) untaint(ctx context.Context) error {
	return a.awaitUntainted(ctx, func(node taintedNode) error {
		_, err := a.do(ctx, "PATCH", "/api/v1/nodes/"+node.Metadata.Name, untaintPatch(node))
		return err
	})
}

// untaintPatch leaves a node all taints but the one, unless somebody has changed it meanwhile.
func untaintPatch(node taintedNode) []byte {
	type object = map[string]any
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), taint.notReady)
	patch, _ := json.Marshal(object{"metadata": object{"resourceVersion": node.Metadata.ResourceVersion}, "spec": object{"taints": taints}})
	return patch
}
