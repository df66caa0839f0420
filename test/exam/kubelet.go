package exam

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// playKubelet writes the status of pods, and events about them.
func (p *Place) playKubelet(ctx context.Context, k *Kubelet) error {
	pods, err := p.awaitPods(ctx, k)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := p.writeStatus(ctx, pod.Name, k); err != nil {
			return fmt.Errorf("write the status of pod %s: %w", pod.Name, err)
		}
		about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		for _, e := range k.Events {
			if err := p.writeEvent(ctx, about, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitPods waits until the pods have nodes, and until kwok has done what it does about them.
func (p *Place) awaitPods(ctx context.Context, k *Kubelet) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	err := await(ctx, fmt.Sprintf("there are %d pods with %s on nodes", max(k.Count, 1), k.Pods), func(ctx context.Context) error {
		list, err := p.client.CoreV1().Pods(p.NS).List(ctx, metav1.ListOptions{LabelSelector: k.Pods})
		if err != nil {
			return err
		}
		pods = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
			played := pod.Annotations[cluster.Pending] == "true" || pod.Status.Phase != corev1.PodPending
			return pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || !played
		})
		if len(pods) < max(k.Count, 1) {
			return fmt.Errorf("there are %d, of which %d are ready to be played", len(list.Items), len(pods))
		}
		return nil
	})
	return pods, err
}

func (p *Place) writeStatus(ctx context.Context, name string, k *Kubelet) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pod, err := p.client.CoreV1().Pods(p.NS).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		k.fill(pod, metav1.NewTime(time.Now()))
		_, err = p.client.CoreV1().Pods(p.NS).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// fill sets the status of a pod. What is not said of it is as a kubelet would say it.
func (k *Kubelet) fill(pod *corev1.Pod, now metav1.Time) {
	s := &pod.Status
	s.Phase = corev1.PodPhase(orElse(string(k.Phase), string(corev1.PodPending)))
	s.Reason, s.Message = k.Reason, k.Message
	if s.StartTime == nil {
		s.StartTime = &now
	}
	s.InitContainerStatuses = statuses(pod.Spec.InitContainers, k.InitContainers, corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}})
	otherwise := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	if s.Phase != corev1.PodPending {
		otherwise = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	}
	initialized := !slices.ContainsFunc(s.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil || c.State.Terminated.ExitCode != 0
	})
	if !initialized {
		otherwise = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	}
	s.ContainerStatuses = statuses(pod.Spec.Containers, k.Containers, otherwise)
	setCondition(s, now, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue})
	setCondition(s, now, truth(corev1.PodInitialized, initialized, "ContainersNotInitialized", "containers with incomplete status: "+
		unready(s.InitContainerStatuses)))
	message := "containers with unready status: " + unready(s.ContainerStatuses)
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(s, now, truth(kind, unready(s.ContainerStatuses) == "[]", "ContainersNotReady", message))
	}
	for _, c := range k.Conditions {
		setCondition(s, now, c)
	}
}

// statuses returns the states of containers. Those of which nothing is said are as given.
func statuses(containers []corev1.Container, said []corev1.ContainerStatus,
	otherwise corev1.ContainerState) (all []corev1.ContainerStatus) {
	for _, c := range containers {
		status := corev1.ContainerStatus{Name: c.Name, State: otherwise, Ready: otherwise.Running != nil || otherwise.Terminated != nil}
		if i := slices.IndexFunc(said, func(s corev1.ContainerStatus) bool { return s.Name == c.Name }); i >= 0 {
			status = said[i]
		}
		status.Image = c.Image
		started := status.State.Running != nil
		status.Started = &started
		all = append(all, status)
	}
	return all
}

func unready(all []corev1.ContainerStatus) string {
	var names []string
	for _, s := range all {
		if !s.Ready {
			names = append(names, s.Name)
		}
	}
	return "[" + strings.Join(names, " ") + "]"
}

func truth(kind corev1.PodConditionType, is bool, reason, message string) corev1.PodCondition {
	if is {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}
}

func setCondition(s *corev1.PodStatus, now metav1.Time, c corev1.PodCondition) {
	c.LastTransitionTime = now
	i := slices.IndexFunc(s.Conditions, func(old corev1.PodCondition) bool { return old.Type == c.Type })
	if i < 0 {
		s.Conditions = append(s.Conditions, c)
		return
	}
	s.Conditions[i] = c
}
