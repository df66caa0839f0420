package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// growing is a workload that grows by one pod at a time.
type growing struct {
	kind   string
	create func(ctx context.Context, c kubernetes.Interface, ns string) error
	grow   func(ctx context.Context, c kubernetes.Interface, ns string, pods int) error
}

// workload is the name of each, and the label of its pods.
const workload = "web"

// reactions measures how soon a workload has one more pod that grows a moment after it was reconciled: its last pod has just begun to
// run. That is when a key may be left alone for a while, or waits for its caches.
func reactions(ctx context.Context, b *bench) error {
	changes := 200
	if b.quick {
		changes = 20
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, raisedLimits(), func(s *session) error {
				for _, g := range growings() {
					if err := b.react(ctx, t, s, g, changes); err != nil {
						return fmt.Errorf("%s: %w", g.kind, err)
					}
				}
				return nil
			})
		})
	})
}

// react grows a workload so many times, from no pod on.
func (b *bench) react(ctx context.Context, t turn, s *session, g growing, changes int) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		ns.crowd.allow(workload, changes, 0)
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		c := ns.client(0)
		list, err := c.CoreV1().Pods(ns.name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods, err := watchFrom(ctx, list.ResourceVersion, c.CoreV1().Pods(ns.name).Watch)
		if err != nil {
			return err
		}
		defer pods.Stop()
		if err := errors.Join(g.create(ctx, c, ns.name), s.quiet(ctx)); err != nil {
			return err
		}
		began := time.Now()
		took := make([]time.Duration, changes)
		for i := range took {
			asked := time.Now()
			if err := g.grow(ctx, c, ns.name, i+1); err != nil {
				return err
			}
			if took[i], err = awaitPod(ctx, pods, asked); err != nil {
				return errors.Join(err, ns.errs.first(), s.manager.running())
			}
			if err := sleep(ctx, time.Duration(i%10)*2*time.Millisecond); err != nil {
				return err
			}
		}
		b.keep(t, sample{Scenario: fmt.Sprintf("a %s grows by one pod, %d times in a row", g.kind, changes), Began: began, Flags: s.flags,
			Figures: latencies("from the change until the pod is created", took)})
		return nil
	})
}

// awaitPod waits until a new pod runs, and returns how long after a time it was created.
func awaitPod(ctx context.Context, pods watch.Interface, asked time.Time) (created time.Duration, err error) {
	limit := time.After(time.Minute)
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-limit:
			return 0, errors.New("no new pod runs after a minute")
		case e, ok := <-pods.ResultChan():
			p, isPod := e.Object.(*corev1.Pod)
			switch {
			case !ok || !isPod:
				return 0, fmt.Errorf("the watch of pods brings %s: %v", e.Type, e.Object)
			case e.Type == watch.Added:
				created = time.Since(asked)
			case created > 0 && p.Status.Phase == corev1.PodRunning:
				return created, nil
			}
		}
	}
}

// growings are the workloads whose size is a number.
func growings() []growing {
	labels := map[string]string{appLabel: workload}
	meta := metav1.ObjectMeta{Name: workload}
	pod := deployment(workload, 0).Spec.Template
	pod.Spec.NodeName = "node-0"
	replicas := func(pods int) []byte { return fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, pods) }
	selector := &metav1.LabelSelector{MatchLabels: labels}
	return []growing{{
		"Deployment",
		func(ctx context.Context, c kubernetes.Interface, ns string) error {
			d := deployment(workload, 0)
			d.Spec.Template = pod
			_, err := c.AppsV1().Deployments(ns).Create(ctx, d, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, c kubernetes.Interface, ns string, pods int) error {
			_, err := c.AppsV1().Deployments(ns).Patch(ctx, workload, types.MergePatchType, replicas(pods), metav1.PatchOptions{})
			return err
		},
	}, {
		"ReplicaSet",
		func(ctx context.Context, c kubernetes.Interface, ns string) error {
			_, err := c.AppsV1().ReplicaSets(ns).Create(ctx, &appsv1.ReplicaSet{ObjectMeta: meta,
				Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0), Selector: selector, Template: pod}}, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, c kubernetes.Interface, ns string, pods int) error {
			_, err := c.AppsV1().ReplicaSets(ns).Patch(ctx, workload, types.MergePatchType, replicas(pods), metav1.PatchOptions{})
			return err
		},
	}, {
		"ReplicationController",
		func(ctx context.Context, c kubernetes.Interface, ns string) error {
			_, err := c.CoreV1().ReplicationControllers(ns).Create(ctx, &corev1.ReplicationController{ObjectMeta: meta,
				Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](0), Selector: labels, Template: &pod}},
				metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, c kubernetes.Interface, ns string, pods int) error {
			_, err := c.CoreV1().ReplicationControllers(ns).Patch(ctx, workload, types.MergePatchType, replicas(pods),
				metav1.PatchOptions{})
			return err
		},
	}, {
		"StatefulSet",
		func(ctx context.Context, c kubernetes.Interface, ns string) error {
			_, err := c.AppsV1().StatefulSets(ns).Create(ctx, newStatefulSet(workload, 0), metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, c kubernetes.Interface, ns string, pods int) error {
			_, err := c.AppsV1().StatefulSets(ns).Patch(ctx, workload, types.MergePatchType, replicas(pods), metav1.PatchOptions{})
			return err
		},
	}, {
		"Job",
		func(ctx context.Context, c kubernetes.Interface, ns string) error {
			j := newJob(workload, 1, 0)
			j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
			_, err := c.BatchV1().Jobs(ns).Create(ctx, j, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, c kubernetes.Interface, ns string, pods int) error {
			_, err := c.BatchV1().Jobs(ns).Patch(ctx, workload, types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"parallelism":%d,"completions":%d}}`, pods, pods), metav1.PatchOptions{})
			return err
		},
	}}
}
