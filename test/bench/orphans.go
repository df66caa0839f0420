package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// orphans measures podgc: how long it takes for many finished pods, and how long pods stay whose node vanishes meanwhile.
func orphans(ctx context.Context, b *bench) error {
	finished, orphaned := 5000, 50
	if b.quick {
		finished = 200
	}
	return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			done, err := p.newNamespace(ctx)
			if err != nil {
				return err
			}
			if err := p.makeFinishedPods(ctx, done, finished); err != nil {
				return err
			}
			left, err := p.makeDoomedPods(ctx, orphaned)
			if err != nil {
				return err
			}
			s, err := p.standby(t.contender, false, "--terminated-pod-gc-threshold=1")
			if err != nil {
				return err
			}
			err = b.collectGarbage(ctx, t, s, done, left, finished)
			return errors.Join(err, s.end())
		})
	})
}

const doomedNode = "doomed"

// makeDoomedPods makes a node and pods that run there, in a namespace of their own.
func (p *plane) makeDoomedPods(ctx context.Context, n int) (ns string, err error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: doomedNode}}
	if _, err := p.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if ns, err = p.newNamespace(ctx); err != nil {
		return "", err
	}
	return ns, forEach(ctx, 8, n, func(ctx context.Context, _, i int) error {
		pod := loosePod(ns, fmt.Sprintf("orphan-%d", i), "orphan")
		pod.Spec.NodeName = doomedNode
		_, err := makeReadyPod(ctx, p.client, pod, uint32(i))
		return err
	})
}

// collectGarbage lets the node vanish once the first finished pod has been deleted. It asks seldom: lists of thousands of
// pods would take their share of the machine.
func (b *bench) collectGarbage(ctx context.Context, t turn, s *session, done, left string, finished int) error {
	wait := func(what, ns string, enough func(n int) bool) error {
		return until(ctx, what, 250*time.Millisecond, func() (bool, error) {
			n, err := s.plane.countPods(ctx, ns)
			return enough(n), errors.Join(err, s.manager.running())
		})
	}
	if err := wait("podgc begins", done, func(n int) bool { return n < finished }); err != nil {
		return err
	}
	began := time.Now()
	if err := s.plane.client.CoreV1().Nodes().Delete(ctx, doomedNode, metav1.DeleteOptions{}); err != nil {
		return err
	}
	vanished := make(chan error, 1)
	var orphansGone time.Duration
	go func() {
		err := wait("the orphans are gone", left, func(n int) bool { return n == 0 })
		orphansGone = time.Since(began)
		vanished <- err
	}()
	err := wait("the finished pods are gone", done, func(n int) bool { return n <= 1 })
	finishedGone := time.Since(began)
	if err := errors.Join(err, <-vanished); err != nil {
		return err
	}
	_, peak, err := s.manager.memory()
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("podgc of %d finished pods while a node vanishes, default limits", finished), Began: began,
		Flags: s.flags, Figures: []figure{
			seconds("from the node's end to the last orphan's", orphansGone),
			seconds("from the first finished pod's end to the last one's", finishedGone),
			megabytes("resident memory at its highest", peak),
		}})
	return nil
}

// countPods counts at little cost for the API server: with a limit it tells how many there are beyond.
func (p *plane) countPods(ctx context.Context, ns string) (int, error) {
	list, err := p.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
}
