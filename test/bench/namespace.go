package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// namespace is one in which pods are played and everything that happens is counted.
type namespace struct {
	name     string
	clients  []kubernetes.Interface // for what users do
	crowd    *crowd
	rollouts *rollouts
	kubelet  *kubelet
	errs     collect
	stop     func()
}

// follow makes a namespace and begins to play it. The caller stops it.
func (p *plane) follow(ctx context.Context) (*namespace, error) {
	name, err := p.newNamespace(ctx)
	if err != nil {
		return nil, err
	}
	return p.followExisting(ctx, name)
}

// followExisting begins to play the pods of a namespace.
func (p *plane) followExisting(ctx context.Context, name string) (*namespace, error) {
	clients, err := p.clients(kubeletConnections)
	if err != nil {
		return nil, err
	}
	nodes, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, node := range nodes.Items {
		names = append(names, node.Name)
	}
	ns := &namespace{name: name, clients: clients, crowd: newCrowd(), rollouts: newRollouts()}
	ns.kubelet = newKubelet(clients, names, &ns.errs)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	ns.stop = func() { cancel(); wg.Wait() }
	if err := errors.Join(ns.followPods(ctx, p.client, &wg), ns.followDeployments(ctx, p.client, &wg)); err != nil {
		ns.stop()
		return nil, err
	}
	wg.Go(func() { ns.kubelet.work(ctx) })
	return ns, nil
}

func (ns *namespace) followPods(ctx context.Context, client kubernetes.Interface, wg *sync.WaitGroup) error {
	pods := client.CoreV1().Pods(ns.name)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	see := func(kind watch.EventType, p *corev1.Pod) {
		ns.crowd.see(p, kind == watch.Deleted)
		ns.kubelet.see(p, kind == watch.Deleted)
	}
	for i := range list.Items {
		see(watch.Added, &list.Items[i])
	}
	w, err := watchFrom(ctx, list.ResourceVersion, pods.Watch)
	if err != nil {
		return err
	}
	wg.Go(func() { ns.errs.add(each(ctx, w, see)) })
	return nil
}

func (ns *namespace) followDeployments(ctx context.Context, client kubernetes.Interface, wg *sync.WaitGroup) error {
	deployments := client.AppsV1().Deployments(ns.name)
	list, err := deployments.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	see := func(_ watch.EventType, d *appsv1.Deployment) { ns.rollouts.see(d, time.Now()) }
	for i := range list.Items {
		see(watch.Added, &list.Items[i])
	}
	w, err := watchFrom(ctx, list.ResourceVersion, deployments.Watch)
	if err != nil {
		return err
	}
	wg.Go(func() { ns.errs.add(each(ctx, w, see)) })
	return nil
}

// watchFrom watches what comes after a version. When the API server ends the watch, as a busy one does at times, it is
// taken up again where it was.
func watchFrom(ctx context.Context, version string, open cache.WatchFuncWithContext) (watch.Interface, error) {
	return watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: open})
}

// each passes a watch's objects on until the context ends, which is the only good end.
func each[T any](ctx context.Context, w watch.Interface, see func(watch.EventType, T)) error {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.ResultChan():
			if ctx.Err() != nil {
				return nil
			}
			if !ok {
				return errors.New("a watch has ended by itself")
			}
			o, ok := e.Object.(T)
			if !ok {
				return fmt.Errorf("a watch brings %s: %+v", e.Type, e.Object)
			}
			see(e.Type, o)
		}
	}
}

// client spreads what users do over the connections.
func (ns *namespace) client(i int) kubernetes.Interface { return ns.clients[i%len(ns.clients)] }

// userWorkers is how many changes users make at once.
const userWorkers = 4

// createDeployments makes web-0, web-1, ... from first on. Their pods name their node, so nobody has to bind them: the
// benchmark shall not be what a rollout waits for.
func (ns *namespace) createDeployments(ctx context.Context, first, n, replicas int) error {
	return forEach(ctx, userWorkers, n, func(ctx context.Context, worker, i int) error {
		d := deployment(fmt.Sprintf("web-%d", first+i), replicas)
		d.Spec.Template.Spec.NodeName = fmt.Sprintf("node-%d", i%3)
		most, _ := roomOf(replicas)
		ns.crowd.allow(d.Name, most, 0)
		ns.rollouts.begin(d.Name, time.Now())
		_, err := ns.client(worker).AppsV1().Deployments(ns.name).Create(ctx, d, metav1.CreateOptions{})
		return err
	})
}

// updateDeployments changes the image of web-0, web-1, ... web-(n-1).
func (ns *namespace) updateDeployments(ctx context.Context, n, replicas int, image string) error {
	return forEach(ctx, userWorkers, n, func(ctx context.Context, worker, i int) error {
		name := fmt.Sprintf("web-%d", i)
		most, least := roomOf(replicas)
		ns.crowd.allow(name, most, least)
		return ns.patch(ctx, worker, name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, image))
	})
}

// scale changes the replicas of a Deployment.
func (ns *namespace) scale(ctx context.Context, name string, replicas int) error {
	ns.crowd.allow(name, replicas, 0)
	return ns.patch(ctx, 0, name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

func (ns *namespace) patch(ctx context.Context, worker int, name, document string) error {
	ns.rollouts.begin(name, time.Now())
	_, err := ns.client(worker).AppsV1().Deployments(ns.name).Patch(ctx, name, types.StrategicMergePatchType, []byte(document),
		metav1.PatchOptions{})
	return err
}

// waitRolledOut waits until all Deployments that users have changed are rolled out.
func (ns *namespace) waitRolledOut(ctx context.Context, running func() error) error {
	err := until(ctx, "all Deployments are rolled out", 2*time.Millisecond, func() (bool, error) {
		if err := errors.Join(ns.errs.first(), running()); err != nil {
			return false, err
		}
		n, _ := ns.rollouts.missing()
		return n == 0, nil
	})
	if n, example := ns.rollouts.missing(); err != nil && n > 0 {
		return fmt.Errorf("%w (%d Deployments are not, such as %s; %d pods are there)", err, n, example, ns.crowd.active())
	}
	return err
}

func deployment(name string, replicas int) *appsv1.Deployment {
	labels := map[string]string{appLabel: name}
	n := int32(replicas)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.Spec.Replicas = &n
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	return d
}
