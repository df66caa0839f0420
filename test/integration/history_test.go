package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/history"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// tells has the command why tell of a pod that is gone, and returns the answer and the exit code.
func (b *bench) tells(pod string, args ...string) (text string, code int) {
	b.Helper()
	m := b.ManagerExactly(b.T, append([]string{"why", "--deleted", "pod/" + pod, "--namespace=" + b.ns,
		"--kubeconfig=" + b.AdminKubeconfig},
		args...)...)
	code = m.Wait(b.T, patience)
	return m.Log(), code
}

// waitStory waits until the story of a pod has some texts in it.
func (b *bench) waitStory(pod string, want ...string) {
	b.Helper()
	b.wait("why tells of "+pod, func() error {
		text, code := b.tells(pod)
		for _, one := range want {
			if code != 0 || !strings.Contains(text, one) {
				return fmt.Errorf("exit code %d, there is no %q in\n%s", code, one, text)
			}
		}
		return nil
	})
}

// waitNoPods waits until no pod of the namespace is left, in any state.
func (b *bench) waitNoPods() {
	b.Helper()
	b.wait("all pods are gone", func() error {
		list, err := b.Client.CoreV1().Pods(b.ns).List(b.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are there", len(list.Items))
		}
		return err
	})
}

// The story of pods outlives them, their ReplicaSet and their Deployment, and the process that has deleted them. An observer with a
// folder of its own tells what it has planned and seen.
func TestHistory(t *testing.T) {
	b := alone(t)
	kept := "--history-dir=" + t.TempDir()
	m := b.Manager(t, kept, "--leader-elect=true")
	b.create(deployment("web", 3))
	b.waitComplete("web")
	before := b.pods()
	b.patch("web", `{"spec":{"replicas":2}}`)
	b.wait("one pod is deleted", func() error {
		if left := len(b.pods()); left != 2 {
			return fmt.Errorf("%d pods", left)
		}
		return nil
	})
	after := b.pods()
	i := slices.IndexFunc(before, func(p corev1.Pod) bool {
		return !slices.ContainsFunc(after, func(left corev1.Pod) bool { return left.UID == p.UID })
	})
	scaled, collected, set := before[i].Name, after[0].Name, b.sets()[0]
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if err := b.Client.AppsV1().Deployments(b.ns).Delete(t.Context(), "web", options); err != nil {
		t.Fatal(err)
	}
	b.waitNoPods()
	inTheMiddle := b.killInTheMiddle(m)
	m = b.Manager(t, kept, fmt.Sprintf("--secure-port=%d", b.ManagerPort), "--bind-address=127.0.0.1",
		"--authentication-kubeconfig="+b.ManagerKubeconfig, "--authorization-kubeconfig="+b.ManagerKubeconfig)
	pod := b.standsFor("controller-manager")
	chain := []string{"  Deployment " + b.ns + "/web  ", "\n    ReplicaSet " + b.ns + "/" + set.Name + "  ", "\n      Pod " + b.ns + "/"}
	b.waitStory(collected, append(chain, "Pod "+b.ns+"/"+collected+": garbage-collector-controller deleted it at ", "; gone since ",
		"somebody else deleted it: no controller that was asked planned it", "deployment-controller created ReplicaSet "+b.ns+"/"+set.Name,
		"replicaset-controller created Pod "+b.ns+"/"+collected, "pod kube-system/"+pod.name+" was asked")...)
	b.waitStory(scaled, append(chain, "Pod "+b.ns+"/"+scaled+": replicaset-controller deleted it at ", "change: replicas 3 -> 2",
		"precondition: uid", "saw: Running")...)
	for _, name := range inTheMiddle {
		b.waitStory(name, "Pod "+b.ns+"/"+name+": replicaset-controller ")
	}
	text, code := b.tells(scaled, "--output=json")
	var story history.Story
	if err := json.Unmarshal([]byte(text), &story); err != nil || code != 0 || story.Kind != "Story" || len(story.Chain) != 3 {
		t.Errorf("%d, %v: %s", code, err, text)
	}
	if text, code = b.tells("never-there"); code != 1 || !strings.Contains(text, "no history tells of it") ||
		strings.Count(text, "\n") != 1 {
		t.Errorf("%d: %s", code, text)
	}
	pod.remove()
	if code := m.Stop(t); code != 0 {
		t.Errorf("the manager ends with %d", code)
	}
	b.observerRemembers(metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID})
}

// killInTheMiddle kills the manager while it deletes pods, and returns those that it has deleted.
func (b *bench) killInTheMiddle(m *cluster.Manager) (deleted []string) {
	b.Helper()
	const all = 20
	b.create(deployment("many", all))
	b.waitComplete("many")
	before := b.pods()
	b.patch("many", `{"spec":{"replicas":0}}`)
	b.wait("a pod is deleted", func() error {
		if left := len(b.pods()); left == all {
			return fmt.Errorf("all %d are there", left)
		}
		return nil
	})
	m.Kill(b.T)
	after := b.pods()
	for _, p := range before {
		if !slices.ContainsFunc(after, func(left corev1.Pod) bool { return left.UID == p.UID }) {
			deleted = append(deleted, p.Name)
		}
	}
	return deleted
}

// observerRemembers has an observer plan to delete a pod whose owner is gone, while no manager runs, and tell of that when somebody has
// deleted the pod, also after a restart.
func (b *bench) observerRemembers(owner metav1.OwnerReference) {
	b.Helper()
	kept := "--history-dir=" + b.TempDir()
	o := b.observe(kept)
	pod := b.standsFor(observer)
	b.loose("left", "left", owner)
	rule := "garbage-collector-controller would have deleted it at "
	b.waitStory("left", rule, "(inferred); nothing shows that it is gone", "pod kube-system/"+pod.name+" was asked")
	if err := b.Client.CoreV1().Pods(b.ns).Delete(b.Context(), "left", *metav1.NewDeleteOptions(0)); err != nil {
		b.Fatal(err)
	}
	b.waitStory("left", "it is gone; "+rule, "(inferred); gone since ", "ReplicaSet "+b.ns+"/"+owner.Name)
	o.restart()
	b.waitStory("left", "it is gone; "+rule, "(inferred); gone since ")
	o.onlyRead()
}
