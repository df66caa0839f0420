package main

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// act is what a kubelet, or a scheduler, has to do about a pod.
type act int

const (
	nothing act = iota
	run         // bind the pod to a node, if it is not yet, and set it running and ready, or ended
	finish      // remove a pod that is being deleted
)

const (
	kubeletConnections = 4
	kubeletWorkers     = 32 // requests under way at once, over all connections
)

// kubelet plays scheduler and kubelet for the pods of a namespace: it binds them, sets them running and ready at once, and
// removes them as soon as they are being deleted. As an administrator it is not queued by the API server.
type kubelet struct {
	clients []kubernetes.Interface
	nodes   []string
	errs    *collect
	address atomic.Uint32 // the last one given to a pod

	mu    sync.Mutex
	more  *sync.Cond // signals that there is work, or no more to come
	queue []task
	over  bool
	acted map[types.UID]act // the last act for each pod
	took  []time.Duration   // from a pod seen to what was due done
}

// task is a pod that something is due for.
type task struct {
	pod   *corev1.Pod
	since time.Time
}

func newKubelet(clients []kubernetes.Interface, nodes []string, errs *collect) *kubelet {
	k := &kubelet{clients: clients, nodes: nodes, errs: errs, acted: map[types.UID]act{}}
	k.more = sync.NewCond(&k.mu)
	return k
}

// endsAtOnce is the label of pods that have succeeded as soon as they run.
const endsAtOnce = "bench/ends-at-once"

// due is the act that a pod's state asks for.
func due(p *corev1.Pod) act {
	switch {
	case p.DeletionTimestamp != nil:
		return finish
	case p.Status.Phase == corev1.PodPending || p.Status.Phase == "":
		return run
	}
	return nothing
}

// see is told of each change of a pod. It does not wait.
func (k *kubelet) see(p *corev1.Pod, deleted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if deleted {
		delete(k.acted, p.UID)
		return
	}
	if a := due(p); a > k.acted[p.UID] { // what has been begun is not begun again
		k.acted[p.UID] = a
		k.queue = append(k.queue, task{p, time.Now()})
		k.more.Signal()
	}
}

// work plays the pods it was told of until the context ends.
func (k *kubelet) work(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.over = true
		k.more.Broadcast()
	})
	defer stop()
	var wg sync.WaitGroup
	for worker := range kubeletWorkers {
		wg.Go(func() {
			client := k.clients[worker%len(k.clients)]
			for t := k.next(); t.pod != nil; t = k.next() {
				k.errs.add(k.insist(ctx, client, t.pod))
				k.done(t)
			}
		})
	}
	wg.Wait()
}

func (k *kubelet) done(t task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.took = append(k.took, time.Since(t.since))
}

// take returns how long each pod took and forgets it. It tells how much of a rollout's time is the benchmark's own.
func (k *kubelet) take() []time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	took := k.took
	k.took = nil
	return took
}

// next waits for a task. It has no pod when there is no more to be done.
func (k *kubelet) next() task {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.queue) == 0 && !k.over {
		k.more.Wait()
	}
	if k.over {
		return task{}
	}
	t := k.queue[0]
	k.queue = k.queue[1:]
	return t
}

// insist plays a pod, again and again if a busy server fails, until the context ends.
func (k *kubelet) insist(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		err := k.play(ctx, client, p)
		if err == nil {
			return nil
		}
		if attempt == attempts {
			return fmt.Errorf("kubelet: pod %s: %w", p.Name, err)
		}
		if sleep(ctx, 200*time.Millisecond) != nil {
			return nil
		}
	}
}

// play does what is due. The pod may have gone, or may be going, meanwhile.
func (k *kubelet) play(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	pods := client.CoreV1().Pods(p.Namespace)
	if due(p) == finish {
		options := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
		return gone(pods.Delete(ctx, p.Name, options))
	}
	n := k.address.Add(1)
	if p.Spec.NodeName == "" {
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID}}
		binding.Target = corev1.ObjectReference{Kind: "Node", Name: cmp.Or(podutil.TargetNode(p), k.nodes[int(n)%len(k.nodes)])}
		// A conflict says that the pod is bound already, by an attempt that had no answer, or is being deleted.
		if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsConflict(err) {
			return gone(err)
		}
	}
	ready := p.DeepCopy()
	ready.ResourceVersion = "" // binding has changed it; nobody else writes the status
	ready.Status = readyStatus(p, addressOf(n))
	if p.Labels[endsAtOnce] != "" {
		ready.Status = endedStatus(p, addressOf(n))
	}
	_, err := pods.UpdateStatus(ctx, ready, metav1.UpdateOptions{})
	return gone(err)
}

// gone forgives what happens to a pod that is deleted while it is played.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// addressOf numbers the addresses from 10.64.0.0.
func addressOf(n uint32) string {
	return fmt.Sprintf("10.%d.%d.%d", 64+n>>16&0x3f, n>>8&0xff, n&0xff)
}

// readyStatus is that of a pod that runs and is ready.
func readyStatus(p *corev1.Pod, address string) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		HostIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}}, QOSClass: p.Status.QOSClass}
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized,
		corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range p.Spec.Containers {
		started := true
		status.ContainerStatuses = append(status.ContainerStatuses,
			corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, Started: &started,
				ContainerID: "containerd://" + string(p.UID),
				State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	return status
}

// endedStatus is that of a pod that has succeeded.
func endedStatus(p *corev1.Pod, address string) corev1.PodStatus {
	status := readyStatus(p, address)
	status.Phase = corev1.PodSucceeded
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.Reason = corev1.ConditionFalse, "PodCompleted"
		}
	}
	for i := range status.ContainerStatuses {
		c, runs := &status.ContainerStatuses[i], false
		c.Ready, c.Started = false, &runs
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: *status.StartTime, FinishedAt: *status.StartTime, ContainerID: c.ContainerID,
		}}
	}
	return status
}
