package suite

import (
	"context"
	"encoding/json"
	"errors"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// Patience is how long a User waits for something: longer than the longest back-off, and than the minute for which a manager that has just
// been started may hold what a quota says is used.
const Patience = 75 * time.Second

// By is who users are, where it is recorded who writes.
const By = "user"

// User does what users do in one namespace, on a real control plane or in a simulation: scenarios, write budgets, and the lines of scripts.
type User struct {
	testing.TB
	Client    kubernetes.Interface
	Namespace string
	// Wait waits until check returns nil, and fails the test after the timeout.
	Wait func(what string, timeout time.Duration, check func() error)
	// As returns the client of somebody else, such as a kubelet. It may be nil: then all is done by one client.
	As func(who string) kubernetes.Interface
	// Backdate has the API server believe that it has created an object so long ago. It may be nil: then nobody can.
	Backdate func(resource schema.GroupVersionResource, namespace, name string, ago time.Duration) error
	// Machines may be nil: then nobody can tell the machines of the cluster what to do.
	Machines Machines
	// Alone says that nobody else works in the cluster: what has no namespace is called as scripts call it.
	Alone bool
}

func ctx() context.Context { return context.Background() }

// in returns the user as working in another namespace.
func (u *User) in(namespace string) *User {
	other := *u
	other.Namespace = namespace
	return &other
}

// as returns somebody else in the place of the user.
func (u *User) as(who string) *User {
	other := *u
	if u.As != nil {
		other.Client = u.As(who)
	}
	return &other
}

// unique is the name of something without a namespace. Each user of a cluster has others.
func (u *User) unique(name string) string {
	if u.Alone {
		return name
	}
	return u.Namespace + "-" + name
}

// Try repeats a request of the test's own until it succeeds: faults must not hit the test.
func (u *User) Try(what string, request func() error) {
	u.Helper()
	u.Wait(what, Patience, request)
}

// Create creates an object. It is no mistake if it is there: the answer to an earlier try may have been lost.
func (u *User) Create(o Object) {
	u.Helper()
	u.Try("create "+o.GetName(), func() error { return ignoreExists(create(u, o)) })
}

// Patch sends a merge patch for an object of a kind.
func Patch[T Object](u *User, name, document string, subresource ...string) {
	u.Helper()
	u.Try("patch "+name, func() error { return patch[T](u, name, document, subresource...) })
}

// Remove deletes an object. It is no mistake if it is not there.
func Remove[T Object](u *User, name string, options ...metav1.DeleteOptions) {
	u.Helper()
	u.Try("delete "+name, func() error { return ignoreNotFound(remove[T](u, name, options...)) })
}

// Await waits until an object is as it should be: check says what is wrong with it.
func Await[T Object](u *User, name string, check func(T) error) {
	u.Helper()
	u.Wait(name+" is as it should be", Patience, func() error {
		o, err := get[T](u, name)
		if err == nil {
			err = check(o)
		}
		return err
	})
}

// AwaitAll waits until there are so many objects of a kind, each as it should be.
func AwaitAll[T Object](u *User, n int, check func(T) error) {
	u.Helper()
	u.Wait(fmt.Sprintf("there are %d %ss as they should be", n, kindOf(empty[T]()).Kind), Patience, func() error {
		all, err := list[T](u)
		if err == nil && len(all) != n {
			err = fmt.Errorf("there are %d", len(all))
		}
		for _, o := range all {
			if err != nil {
				break
			}
			if wrong := check(o); wrong != nil {
				err = fmt.Errorf("%s: %w", o.GetName(), wrong)
			}
		}
		return err
	})
}

// AwaitGone waits until there is no object of that name.
func AwaitGone[T Object](u *User, name string) {
	u.Helper()
	u.Wait(name+" is gone", Patience, func() error {
		o, err := get[T](u, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(fmt.Errorf("it is there, with the finalizers %v", o.GetFinalizers()), err)
	})
}

// unless returns an error that shows a value unless it is as it should be.
func unless(ok bool, value any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%+v", value)
}

// Rolling is the strategy of a rolling update.
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

// Deployment is one whose pods have the label app of its name.
func Deployment(name string, replicas int32, edits ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labelsOf(name)}
	d.Spec.Template = Template(name, "web:1")
	d.Spec.Template.Spec.Containers[0].Name = "web"
	for _, edit := range edits {
		edit(d)
	}
	return d
}

// Expose makes a service for the pods of an app.
func (u *User) Expose(app string) {
	u.Helper()
	u.Create(newService(app, app))
}

// SetImage changes the image of a Deployment.
func (u *User) SetImage(name, image string) {
	u.Helper()
	u.Try("set the image of "+name, func() error { return setImage(u, name, image) })
}

// Patch patches a Deployment.
func (u *User) Patch(name, document string) {
	u.Helper()
	Patch[*appsv1.Deployment](u, name, document)
}

// Get reads a Deployment.
func (u *User) Get(name string) (d *appsv1.Deployment) {
	u.Helper()
	u.Try("read "+name, func() (err error) {
		d, err = get[*appsv1.Deployment](u, name)
		return err
	})
	return d
}

// Pods are those of the user's namespace.
func (u *User) Pods() (pods []*corev1.Pod) {
	u.Helper()
	u.Try("list pods", func() (err error) {
		pods, err = list[*corev1.Pod](u)
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

// WaitComplete waits until a Deployment is rolled out.
func (u *User) WaitComplete(name string) {
	u.Helper()
	Await(u, name, Complete)
}

// Season waits until all pods have been ready for so long that no manager can have missed it: S6 says nothing of the deletion
// of others, for they may have been chosen as pods that are not ready.
func (u *User) Season() {
	u.Helper()
	u.SeasonFor(7 * time.Second) // oracle.Options.Lag of test/chaos, and what the times of conditions, in seconds, lack
}

// SeasonFor waits until all pods have been ready for so long.
func (u *User) SeasonFor(known time.Duration) {
	u.Helper()
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

// newService is one for the pods of an app.
func newService(name, app string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Selector = labelsOf(app)
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}}
	return s
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

// ofNamespace is the label by which test/chaos tells them apart.
const ofNamespace = "of-namespace"

// mark labels an object of the whole cluster with the namespace of the user.
func (u *User) mark(o metav1.Object) {
	if u.Alone {
		return
	}
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ofNamespace] = u.Namespace
	o.SetLabels(labels)
}
