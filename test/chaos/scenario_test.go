package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// scenario is a piece of work for a manager that ends in the same state each time.
type scenario struct {
	name    string
	prepare func(*run) // before the manager starts; may be nil
	play    func(*run)
}

var scenarios = []scenario{
	{name: "create", play: func(r *run) {
		r.expose("web")
		r.create(deployment("web", 3))
		r.waitComplete("web")
	}},
	{name: "rolling update", play: func(r *run) {
		r.expose("web")
		r.create(deployment("web", 3, rolling(1, 0)))
		r.waitComplete("web")
		r.season()
		r.setImage("web", "web:2")
		r.waitComplete("web")
	}},
	{name: "rollback", play: func(r *run) {
		r.create(deployment("web", 3, rolling(1, 1)))
		r.waitComplete("web")
		r.season()
		r.setImage("web", "web:2")
		r.waitComplete("web")
		r.setImage("web", "web:1")
		r.waitComplete("web")
	}},
	{name: "scale in the middle", play: func(r *run) {
		r.create(deployment("web", 4, rolling(2, 1)))
		r.waitComplete("web")
		r.season()
		r.patch("web", `{"spec":{"template":{"metadata":{"annotations":{"`+cluster.ReadyAfter+`":"600ms"}}}}}`)
		r.wait("the rollout is half done", patience, func() error {
			if d := r.get("web"); d.Status.UpdatedReplicas < 2 {
				return fmt.Errorf("%d pods are updated", d.Status.UpdatedReplicas)
			}
			return nil
		})
		r.patch("web", `{"spec":{"replicas":7}}`)
		r.waitComplete("web")
	}},
	{name: "Recreate", play: func(r *run) {
		r.create(deployment("web", 3, recreate))
		r.waitComplete("web")
		r.setImage("web", "web:2")
		r.waitComplete("web")
	}},
	{name: "delete", play: func(r *run) {
		r.expose("web")
		r.create(deployment("web", 3))
		r.waitComplete("web")
		r.deleteLikeTheCollector("web")
	}},
	{name: "podgc", prepare: (*run).brokenPods, play: func(r *run) {
		r.wait("the pods that are to go are gone", patience, func() error {
			pods := r.pods()
			if len(pods) != 6 { // five terminated ones, and the one on the node out of service that does not terminate
				var names []string
				for _, p := range pods {
					names = append(names, p.Name)
				}
				return fmt.Errorf("left are %s", strings.Join(names, ", "))
			}
			return nil
		})
	}},
}

// terminatedThreshold is how many terminated pods podgc leaves.
const terminatedThreshold = 5

func ctx() context.Context { return context.Background() }

// try repeats a request of the test's own until it succeeds: faults must not hit the test.
func (r *run) try(what string, request func() error) {
	r.Helper()
	r.wait(what, patience, request)
}

func rolling(surge, unavailable int) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		s, u := intstr.FromInt(surge), intstr.FromInt(unavailable)
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
		}
	}
}

// recreate is the strategy by which pods are only made when those of before, which take their time, are gone.
func recreate(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	d.Spec.Template.Annotations = map[string]string{cluster.TerminateAfter: "300ms"}
}

func deployment(name string, replicas int32, edits ...func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

func (r *run) create(d *appsv1.Deployment) {
	r.Helper()
	r.try("create "+d.Name, func() error {
		_, err := r.Client.AppsV1().Deployments(r.ns).Create(ctx(), d, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// expose makes a service for the pods of a Deployment.
func (r *run) expose(name string) {
	r.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Selector = map[string]string{"app": name}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt(8080)}}
	r.try("expose "+name, func() error {
		_, err := r.Client.CoreV1().Services(r.ns).Create(ctx(), s, metav1.CreateOptions{})
		return err
	})
}

func (r *run) patch(name, document string) {
	r.Helper()
	r.try("patch "+name, func() error {
		_, err := r.Client.AppsV1().Deployments(r.ns).Patch(ctx(), name, types.StrategicMergePatchType, []byte(document), metav1.PatchOptions{})
		return err
	})
}

func (r *run) setImage(name, image string) {
	r.Helper()
	r.patch(name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, image))
}

func (r *run) get(name string) (d *appsv1.Deployment) {
	r.Helper()
	r.try("read "+name, func() (err error) {
		d, err = r.Client.AppsV1().Deployments(r.ns).Get(ctx(), name, metav1.GetOptions{})
		return err
	})
	return d
}

func (r *run) pods() (pods []corev1.Pod) {
	r.Helper()
	r.try("list pods", func() error {
		list, err := r.Client.CoreV1().Pods(r.ns).List(ctx(), metav1.ListOptions{})
		if err == nil {
			pods = list.Items
		}
		return err
	})
	return pods
}

// complete says what a Deployment lacks to be rolled out; nil if nothing (DEP-71, DEP-76).
func complete(d *appsv1.Deployment) error {
	s, n := d.Status, *d.Spec.Replicas
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != n || s.Replicas != n || s.AvailableReplicas != n {
		text, _ := json.Marshal(s)
		return fmt.Errorf("generation %d of %d replicas: %s", d.Generation, n, text)
	}
	return nil
}

func (r *run) waitComplete(name string) {
	r.Helper()
	r.wait(name+" is rolled out", patience, func() error { return complete(r.get(name)) })
}

// season waits until all pods have been ready for so long that no manager can have missed it: S6 says nothing of the deletion
// of others, for they may have been chosen as pods that are not ready.
func (r *run) season() {
	r.Helper()
	const known = 12 * time.Second // oracle.Options.Lag, and what the times of conditions, in seconds, lack
	r.wait("all pods have been ready for a while", patience, func() error {
		for _, p := range r.pods() {
			for _, c := range p.Status.Conditions {
				if since := time.Since(c.LastTransitionTime.Time); c.Type == corev1.PodReady && since < known {
					return fmt.Errorf("%s for %v", p.Name, since)
				}
			}
		}
		return nil
	})
}

// deleteLikeTheCollector deletes a Deployment and then what it owns, one kind after the other, as the garbage collector
// would, which does not run here.
func (r *run) deleteLikeTheCollector(name string) {
	r.Helper()
	labelled := metav1.ListOptions{LabelSelector: "app=" + name}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	r.try("delete "+name, func() error {
		err := r.Client.AppsV1().Deployments(r.ns).Delete(ctx(), name, now)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	r.wait("what it owned is gone", patience, func() error {
		sets, err := r.Client.AppsV1().ReplicaSets(r.ns).List(ctx(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, set := range sets.Items {
			if err := r.Client.AppsV1().ReplicaSets(r.ns).Delete(ctx(), set.Name, now); err != nil {
				return err
			}
		}
		if len(sets.Items) > 0 {
			return fmt.Errorf("%d ReplicaSets", len(sets.Items))
		}
		if err := r.Client.CoreV1().Pods(r.ns).DeleteCollection(ctx(), now, labelled); err != nil {
			return err
		}
		if left := len(r.pods()); left > 0 {
			return fmt.Errorf("%d pods", left)
		}
		return nil
	})
}

// brokenPods makes pods for each of podgc's rules but the one for orphans, which takes its time.
func (r *run) brokenPods() {
	r.Helper()
	for i := range terminatedThreshold + 5 {
		r.bound(fmt.Sprintf("ended-%02d", i), "")
		r.fail(fmt.Sprintf("ended-%02d", i))
		time.Sleep(5 * time.Millisecond)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "out-" + r.ns}}
	node.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown", Effect: "NoExecute"}}
	r.try("create a node out of service", func() error {
		_, err := r.Client.CoreV1().Nodes().Create(ctx(), node, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	r.Cleanup(func() {
		if err := r.Client.CoreV1().Nodes().Delete(ctx(), node.Name, metav1.DeleteOptions{}); err != nil {
			r.Errorf("clean up: %v", err)
		}
	})
	r.bound("stays", node.Name)
	for _, name := range []string{"stuck-1", "stuck-2"} {
		r.bound(name, node.Name)
		r.try("delete "+name, func() error {
			err := r.Client.CoreV1().Pods(r.ns).Delete(ctx(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(300))})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
}

// bound makes a pod that nobody plays, on a node, or none.
func (r *run) bound(name, node string) {
	r.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.NodeName, p.Spec.SchedulerName = node, "nobody"
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	r.try("create "+name, func() error {
		_, err := r.Client.CoreV1().Pods(r.ns).Create(ctx(), p, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func (r *run) fail(name string) {
	r.Helper()
	r.try("end "+name, func() error {
		_, err := r.Client.CoreV1().Pods(r.ns).Patch(ctx(), name, types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
		return err
	})
}
