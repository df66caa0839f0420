package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// protectionFlags switch on the controllers that protect claims and volumes, beside those of all sessions.
func protectionFlags() []string {
	return append(raisedLimits(), "--controllers=persistentvolumeclaim-protection-controller,persistentvolume-protection-controller")
}

// protection measures claims that are deleted while pods use them, and go with the pods.
func protection(ctx context.Context, b *bench) error {
	n := 1000
	if b.quick {
		n = 50
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, protectionFlags(), func(s *session) error { return b.letClaimsGo(ctx, t, s, n) })
		})
	})
}

// letClaimsGo deletes claims, then the pods that use them, and waits until the last claim has gone.
func (b *bench) letClaimsGo(ctx context.Context, t turn, s *session, n int) error {
	ns, err := s.plane.newNamespace(ctx)
	if err != nil {
		return err
	}
	clients, err := s.plane.clients(kubeletConnections)
	if err != nil {
		return err
	}
	if err := createUsedClaims(ctx, clients, ns, n); err != nil {
		return err
	}
	began, kept, lag := time.Now(), 0, time.Duration(0)
	c, err := s.costOf(ctx, func(ctx context.Context) (err error) {
		kept, lag, err = s.deleteUsedClaims(ctx, clients, ns, n)
		return err
	})
	if err != nil {
		return err
	}
	b.keepProtection(t, s, began, n, kept, lag, c.cpu)
	return nil
}

// deleteUsedClaims deletes n claims, and when the manager is quiet the pods that use them. It returns how many claims the pods have
// kept, and how long it took from the last pod's deletion until all claims were gone.
func (s *session) deleteUsedClaims(ctx context.Context, clients []kubernetes.Interface, ns string, n int) (int, time.Duration, error) {
	client := s.plane.client.CoreV1()
	if err := client.PersistentVolumeClaims(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return 0, 0, err
	}
	if err := s.quiet(ctx); err != nil {
		return 0, 0, err
	}
	kept, err := client.PersistentVolumeClaims(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	err = forEach(ctx, len(clients), n, func(ctx context.Context, worker, i int) error {
		return clients[worker].CoreV1().Pods(ns).Delete(ctx, fmt.Sprint("web-", i),
			metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	})
	if err != nil {
		return 0, 0, err
	}
	last := time.Now()
	err = until(ctx, "the claims are gone", 5*time.Millisecond, func() (bool, error) {
		list, err := client.PersistentVolumeClaims(ns).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return false, err
		}
		return len(list.Items) == 0, s.manager.running()
	})
	return len(kept.Items), time.Since(last), err
}

// keepProtection keeps what was measured of n claims.
func (b *bench) keepProtection(t turn, s *session, began time.Time, n, kept int, lag, cpu time.Duration) {
	seen := s.proxy.Requests()
	updates, lists := 0, 0
	for _, r := range seen.Rows {
		switch {
		case r.Resource == "persistentvolumeclaims" && r.Verb == "update":
			updates += r.Count
		case r.Resource == "pods" && (r.Verb == "list" || r.Verb == "get"):
			lists += r.Count
		}
	}
	floor := float64(n)
	b.keep(t, sample{Scenario: fmt.Sprintf("%d claims are deleted, and then the pods that use them", n), Began: began, Flags: s.flags,
		Writes: countWrites(seen).rows, Figures: []figure{
			exactly("claims that went before their pods", n-kept, 0),
			{Name: "updates", Value: float64(updates), Floor: &floor},
			count("live reads of pods", lists),
			seconds("from the last deletion of a pod until the last claim is gone", lag),
			seconds("CPU of the manager", cpu),
		}})
}

// createUsedClaims creates claims, each with a pod on a node that uses it.
func createUsedClaims(ctx context.Context, clients []kubernetes.Interface, ns string, n int) error {
	return forEach(ctx, len(clients), n, func(ctx context.Context, worker, i int) error {
		client, name := clients[worker].CoreV1(), fmt.Sprint("data-", i)
		_, err := client.PersistentVolumeClaims(ns).Create(ctx,
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(
					"1Gi")}},
			}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		_, err = client.Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}, Spec: corev1.PodSpec{
			NodeName: "node-0", Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}}},
		}}, metav1.CreateOptions{})
		return err
	})
}
