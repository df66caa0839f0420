package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// Patience is how long a User waits for something.
const Patience = 60 * time.Second

// By is who users are, where writes are recorded.
const By = "user"

// User does what users and nodes do in one namespace of a real control plane.
type User struct {
	testing.TB
	Client    kubernetes.Interface
	Namespace string
	// Wait waits until check returns nil, and fails the test after the timeout.
	Wait func(what string, timeout time.Duration, check func() error)
}

func ctx() context.Context { return context.Background() }

// Try repeats a request of the test's own until it succeeds: faults must not hit the test.
func (u *User) Try(what string, request func() error) {
	u.Helper()
	u.Wait(what, Patience, request)
}

func Rolling(surge, unavailable int) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		s, u := intstr.FromInt(surge), intstr.FromInt(unavailable)
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
		}
	}
}

// Recreate is the strategy by which pods are only made when those of before, which take their time, are gone.
func Recreate(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	d.Spec.Template.Annotations = map[string]string{cluster.TerminateAfter: "300ms"}
}

func Deployment(name string, replicas int32, edits ...func(*appsv1.Deployment)) *appsv1.Deployment {
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

func (u *User) Create(d *appsv1.Deployment) {
	u.Helper()
	u.Try("create "+d.Name, func() error {
		_, err := u.Client.AppsV1().Deployments(u.Namespace).Create(ctx(), d, metav1.CreateOptions{})
		return ignoreExists(err)
	})
}

// Expose makes a service for the pods of a Deployment.
func (u *User) Expose(name string) {
	u.Helper()
	s := newService(name)
	u.Try("expose "+name, func() error {
		_, err := u.Client.CoreV1().Services(u.Namespace).Create(ctx(), s, metav1.CreateOptions{})
		return err
	})
}

func (u *User) Patch(name, document string) {
	u.Helper()
	u.Try("patch "+name, func() error {
		_, err := u.Client.AppsV1().Deployments(u.Namespace).Patch(ctx(), name, types.StrategicMergePatchType, []byte(document), metav1.PatchOptions{})
		return err
	})
}

func (u *User) SetImage(name, image string) {
	u.Helper()
	u.Patch(name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, image))
}

func (u *User) Get(name string) (d *appsv1.Deployment) {
	u.Helper()
	u.Try("read "+name, func() (err error) {
		d, err = u.Client.AppsV1().Deployments(u.Namespace).Get(ctx(), name, metav1.GetOptions{})
		return err
	})
	return d
}

func (u *User) Pods() (pods []corev1.Pod) {
	u.Helper()
	u.Try("list pods", func() error {
		list, err := u.Client.CoreV1().Pods(u.Namespace).List(ctx(), metav1.ListOptions{})
		if err == nil {
			pods = list.Items
		}
		return err
	})
	return pods
}

// Complete says what a Deployment lacks to be rolled out; nil if nothing (DEP-71, DEP-76).
func Complete(d *appsv1.Deployment) error {
	s, n := d.Status, *d.Spec.Replicas
	available := slices.ContainsFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable"
	})
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != n || s.Replicas != n || s.AvailableReplicas != n || !available {
		text, _ := json.Marshal(s)
		return fmt.Errorf("generation %d of %d replicas: %s", d.Generation, n, text)
	}
	return nil
}

func (u *User) WaitComplete(name string) {
	u.Helper()
	u.Wait(name+" is rolled out", Patience, func() error { return Complete(u.Get(name)) })
}

// Season waits until all pods have been ready for so long that no manager can have missed it: S6 says nothing of the deletion
// of others, for they may have been chosen as pods that are not ready.
func (u *User) Season() {
	u.Helper()
	const known = 7 * time.Second // oracle.Options.Lag of test/chaos, and what the times of conditions, in seconds, lack
	u.Wait("all pods have been ready for a while", Patience, func() error {
		for _, p := range u.Pods() {
			for _, c := range p.Status.Conditions {
				if since := time.Since(c.LastTransitionTime.Time); c.Type == corev1.PodReady && since < known {
					return fmt.Errorf("%s for %v", p.Name, since)
				}
			}
		}
		return nil
	})
}

// DeleteLikeTheCollector deletes a Deployment and then what it owns, one kind after the other, as the garbage collector
// would, which does not run here.
func (u *User) DeleteLikeTheCollector(name string) {
	u.Helper()
	labelled := metav1.ListOptions{LabelSelector: "app=" + name}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	u.Try("delete "+name, func() error {
		err := u.Client.AppsV1().Deployments(u.Namespace).Delete(ctx(), name, now)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	u.Wait("what it owned is gone", Patience, func() error {
		sets, err := u.Client.AppsV1().ReplicaSets(u.Namespace).List(ctx(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, set := range sets.Items {
			if err := u.Client.AppsV1().ReplicaSets(u.Namespace).Delete(ctx(), set.Name, now); err != nil {
				return err
			}
		}
		if len(sets.Items) > 0 {
			return fmt.Errorf("%d ReplicaSets", len(sets.Items))
		}
		if err := u.Client.CoreV1().Pods(u.Namespace).DeleteCollection(ctx(), now, labelled); err != nil {
			return err
		}
		if left := len(u.Pods()); left > 0 {
			return fmt.Errorf("%d pods", left)
		}
		return nil
	})
}

// Each does something n times, four at a time.
func (u *User) Each(n int, do func(i int) error) {
	u.Helper()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < n; i += 4 {
				if err := do(i); err != nil {
					u.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func newService(app string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app}}
	s.Spec.Selector = map[string]string{"app": app}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt(8080)}}
	return s
}

// ignoreExists returns nil if the object is there already: an answer to an earlier try may have been lost.
func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Follow waits until n Deployments of the namespace are rolled out, after work has been begun on them, and says how long
// each took from the version at which it was changed. It watches: asking again and again would take its share of the
// machine.
func (u *User) Follow(n int, work func()) (latencies []time.Duration) {
	u.Helper()
	ctx, cancel := context.WithTimeout(ctx(), 3*time.Minute)
	defer cancel()
	list, err := u.Client.AppsV1().Deployments(u.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		u.Fatal(err)
	}
	w, err := u.Client.AppsV1().Deployments(u.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		u.Fatal(err)
	}
	defer w.Stop()
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	began := map[string]time.Time{}
	for e := range w.ResultChan() {
		d, ok := e.Object.(*appsv1.Deployment)
		if !ok {
			u.Fatalf("watch: %+v", e.Object)
		}
		if _, ok := began[d.Name]; !ok {
			began[d.Name] = time.Now()
		}
		if Complete(d) == nil {
			latencies = append(latencies, time.Since(began[d.Name]))
			if len(latencies) == n {
				break
			}
		}
	}
	<-done
	if len(latencies) < n {
		u.Fatalf("%d of %d are rolled out", len(latencies), n)
	}
	slices.Sort(latencies)
	u.Logf("from change to rolled out: median %v, 99%% %v, last %v", latencies[n/2], latencies[n*99/100], latencies[n-1])
	return latencies
}

// mark labels an object of the whole cluster with the namespace of the user, so that test/chaos can tell them apart.
func (u *User) mark(o metav1.Object) {
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels["of-namespace"] = u.Namespace
	o.SetLabels(labels)
}
