package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// An API server that has its hands full: it works on a few writes at a time.
const (
	writesAtOnce = 4
	writeTakes   = 20 * time.Millisecond
	users        = 4 // who change Deployments, each as fast as the server lets them
)

// When many rollouts share an API server, those that began first end first, and don't wait for all others. Half of them take
// about half of the time of all, each from its own change; in step with each other they would take nearly all of it.
func TestManyRolloutsEndOneAfterTheOther(t *testing.T) {
	skipLarge(t)
	const many, floor = 250, 250 * 11
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t)
		b.each(many, func(name string) { b.create(name) })
		b.rolledOut(many, 1)
		b.writes.Store(0)
		began := time.Now()
		sent := make([]time.Time, many)
		go b.each(many, func(name string) {
			var i int
			_, _ = fmt.Sscanf(name, "web-%d", &i)
			sent[i] = time.Now()
			b.update(name)
		})
		ended := b.rolledOut(many, 2)
		wall := time.Since(began)
		var took []time.Duration
		for i := range many {
			took = append(took, ended[fmt.Sprint("web-", i)].Sub(sent[i]))
		}
		slices.Sort(took)
		median := took[many/2]
		t.Logf("%d rollouts in %v, half of them in at most %v, 99%% in %v; %d writes, floor %d", many, wall, median, took[many*99/100], b.writes.Load(), floor)
		if median > wall*6/10 {
			t.Error("the rollouts go in step")
		}
		if n := b.writes.Load(); n > floor*105/100 {
			t.Errorf("%d writes, floor %d: in so long a time some reports of progress are due, but fewer", n, floor)
		}
	})
}

// busy is a cluster whose API server has its hands full.
type busy struct {
	apiserver.Network
	*testing.T
	server *apiserver.Server
	slots  chan struct{}
	seen   uint64       // the version up to which prompt has looked at changes
	writes atomic.Int64 // of the manager, without events and leases
}

// newBusy starts the server, a kubelet and a manager.
func newBusy(t *testing.T) *busy {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(script.Script{Seed: 1}, controllers.Registry)
	b := &busy{T: t, server: w.server, slots: make(chan struct{}, writesAtOnce), Network: newLink(1, time.Millisecond)}
	if err := w.cluster.AddNode("node-0"); err != nil { // without it podgc would collect the pods
		t.Fatal(err)
	}
	client := &apiserver.Client{Server: b.server, Name: "m0.1", Network: b}
	ended := make(chan error)
	go func() {
		ended <- manager.Run(ctx, w.processes[0].config(&rest.Config{Host: "http://simulation", Transport: client}), w.registry)
	}()
	go b.kubelet(ctx)
	t.Cleanup(func() { cancel(); <-ended })
	return b
}

// serve takes the time that the server needs for a write.
func (b *busy) serve() {
	b.slots <- struct{}{}
	time.Sleep(writeTakes)
	<-b.slots
}

// Send implements apiserver.Network.
func (b *busy) Send(ctx context.Context, r apiserver.Request) error {
	if r.Write() {
		b.serve()
		if r.Resource != "events" && r.Resource != "leases" {
			b.writes.Add(1)
		}
	}
	return b.Network.Send(ctx, r)
}

// kubelet lets pods run as soon as they are there, and go as soon as they shall.
func (b *busy) kubelet(ctx context.Context) {
	for version := uint64(0); ctx.Err() == nil; {
		changed := b.server.Changed()
		for _, e := range b.server.Since("pods", version) {
			version = e.Version
			p := e.Object.(*corev1.Pod)
			if before, _ := e.Before.(*corev1.Pod); before == nil || p.DeletionTimestamp != nil && before.DeletionTimestamp == nil {
				go b.act(p)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (b *busy) act(p *corev1.Pod) {
	var err error
	switch {
	case p.DeletionTimestamp != nil:
		b.serve()
		_, err = b.server.Do(apiserver.Write{By: "kubelet", Verb: apiserver.Delete, Resource: "pods", Namespace: p.Namespace, Name: p.Name,
			Options: metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}})
	case p.Status.Phase != corev1.PodRunning:
		b.serve()
		_, err = actors.Edit(b.server, "kubelet", p.Namespace, p.Name, "status", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			ready := corev1.ConditionTrue
			if actors.Character(p) == actors.Bad {
				ready = corev1.ConditionFalse
			}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now().Rfc3339Copy()}}
		})
	}
	if err != nil {
		b.Error(err)
	}
}

// each has the users do something to each of n Deployments.
func (b *busy) each(n int, do func(name string)) {
	done := make(chan bool)
	for u := range users {
		go func() {
			for i := u; i < n; i += users {
				b.serve()
				do(fmt.Sprint("web-", i))
			}
			done <- true
		}()
	}
	for range users {
		<-done
	}
}

func (b *busy) create(name string) { b.apply(name, 2) }

func (b *busy) apply(name string, replicas int32) {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: template(labels),
		},
	}
	if _, err := b.server.Do(apiserver.Write{By: "user", Verb: apiserver.Create, Object: d}); err != nil {
		b.Error(err)
	}
}

func template(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
}

func (b *busy) update(name string) { b.setImage(name, "web:2") }

func (b *busy) setImage(name, image string) {
	edit(b, name, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
}

// edit lets a user change an object.
func edit[T apiserver.Object](b *busy, name string, change func(T)) {
	b.Helper()
	if _, err := actors.Edit(b.server, "user", metav1.NamespaceDefault, name, "", change); err != nil {
		b.Error(err)
	}
}

// rolledOut waits until n Deployments are rolled out in a generation, and tells when each was.
func (b *busy) rolledOut(n int, generation int64) map[string]time.Time {
	ended := map[string]time.Time{}
	for version := uint64(0); len(ended) < n; {
		changed := b.server.Changed()
		for _, e := range b.server.Since("deployments", version) {
			version = e.Version
			d := e.Object.(*appsv1.Deployment)
			s := d.Status
			if _, known := ended[d.Name]; !known && d.Generation == generation && s.ObservedGeneration == generation &&
				s.UpdatedReplicas == *d.Spec.Replicas && s.Replicas == s.UpdatedReplicas && s.AvailableReplicas == s.UpdatedReplicas {
				ended[d.Name] = e.Time
			}
		}
		if len(ended) < n {
			<-changed
		}
	}
	return ended
}
