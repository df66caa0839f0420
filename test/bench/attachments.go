package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// disks are volumes of nodes, a pod for each, and what stands in for the driver.
type disks struct {
	nodes, each int // half of the nodes have volumes at first, so many each

	*session
	*namespace
}

func (d *disks) all() int { return d.nodes / 2 * d.each }

// attachments measures volumes that are attached, moved to other nodes, and detached when one of these is drained.
func attachments(ctx context.Context, b *bench) error {
	nodes, each := 80, 50
	if b.quick {
		nodes, each = 10, 20
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			if err := p.makeNodes(ctx, nodes, 0); err != nil {
				return err
			}
			flags := append(raisedLimits(), "--controllers=attachdetach")
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return s.inNamespace(ctx, func(ns *namespace) error {
					d := &disks{nodes, each, s, ns}
					ctx, cancel := context.WithCancel(ctx)
					failed := make(chan error, 1)
					go func() { failed <- d.attacher(ctx) }()
					err := errors.Join(d.bind(ctx), b.volumesAreAttached(ctx, t, d), b.volumesMove(ctx, t, d), b.nodeIsDrained(ctx, t, d))
					cancel()
					return errors.Join(err, <-failed)
				})
			})
		})
	})
}

// attacher does what the external-attacher of a driver does that takes no time: it says that volumes are attached. Nothing is to be
// done before a VolumeAttachment goes. Both contenders have it.
func (d *disks) attacher(ctx context.Context) error {
	client := d.plane.client.StorageV1().VolumeAttachments()
	attached := []byte(`{"status":{"attached":true}}`)
	for ctx.Err() == nil {
		changes, err := client.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
		names := make(chan string, 10_000)
		workers := make(chan error, 1)
		go func() {
			workers <- forEach(ctx, 8, 8, func(ctx context.Context, _, _ int) error {
				for name := range names {
					if _, err := client.Patch(ctx, name, types.MergePatchType, attached, metav1.PatchOptions{}, "status"); err != nil &&
						ctx.Err() == nil {
						continue // it is gone by now
					}
				}
				return nil
			})
		}()
		for change := range changes.ResultChan() {
			if a, ok := change.Object.(*storagev1.VolumeAttachment); ok && change.Type == watch.Added && !a.Status.Attached {
				names <- a.Name
			}
		}
		close(names)
		if err := <-workers; err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// bind makes the volumes and claims, bound to each other, and lets the controller attach.
func (d *disks) bind(ctx context.Context) error {
	core := d.plane.client.CoreV1()
	managed := []byte(`{"metadata":{"annotations":{"volumes.kubernetes.io/controller-managed-attach-detach":"true"}}}`)
	err := forEach(ctx, 8, d.nodes, func(ctx context.Context, _, i int) error {
		_, err := core.Nodes().Patch(ctx, nodeName(i), types.MergePatchType, managed, metav1.PatchOptions{})
		return errors.Join(err, (&kubelets{plane: d.plane}).reportReady(ctx, i))
	})
	if err != nil {
		return err
	}
	bound, one, size := []byte(`{"status":{"phase":"Bound"}}`), []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return forEach(ctx, 8, d.all(), func(ctx context.Context, _, i int) error {
		name := fmt.Sprintf("%s-%d", d.namespace.name, i)
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("disk-", i)},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: one, VolumeName: name, StorageClassName: ptr.To(""),
				Resources: corev1.VolumeResourceRequirements{Requests: size}}}
		c, err := core.PersistentVolumeClaims(d.namespace.name).Create(ctx, c, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			AccessModes: one, Capacity: size, ClaimRef: &corev1.ObjectReference{Namespace: d.namespace.name, Name: c.Name, UID: c.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com",
				VolumeHandle: name}}}}
		if _, err := core.PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err1 := core.PersistentVolumes().Patch(ctx, name, types.MergePatchType, bound, metav1.PatchOptions{}, "status")
		_, err2 := core.PersistentVolumeClaims(d.namespace.name).Patch(ctx, c.Name, types.MergePatchType, bound, metav1.PatchOptions{},
			"status")
		return errors.Join(err1, err2)
	})
}

// use makes pods that use the volumes, on half of the nodes, from one on.
func (d *disks) use(ctx context.Context, prefix string, first int) error {
	return forEach(ctx, 8, d.all(), func(ctx context.Context, _, i int) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, i)}}
		p.Spec.NodeName = nodeName(first + i%(d.nodes/2))
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}}
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		p.Spec.Volumes = []corev1.Volume{{Name: "disk",
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint(
				"disk-", i)}}}}
		_, err := d.plane.client.CoreV1().Pods(d.namespace.name).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// listed waits until nodes, from one on, list so many volumes, and there are so many VolumeAttachments.
func (d *disks) listed(ctx context.Context, from, to, volumes, attachments int) error {
	return until(ctx, fmt.Sprintf("%d volumes are attached", volumes), 50*time.Millisecond, func() (bool, error) {
		n := 0
		for i := from; i < to; i++ {
			node, err := d.plane.client.CoreV1().Nodes().Get(ctx, nodeName(i), metav1.GetOptions{ResourceVersion: "0"})
			if err != nil {
				return false, err
			}
			n += len(node.Status.VolumesAttached)
		}
		list, err := d.plane.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil || n != volumes || len(list.Items) != attachments {
			return false, errors.Join(err, d.manager.running())
		}
		return true, nil
	})
}

func (b *bench) volumesAreAttached(ctx context.Context, t turn, d *disks) error {
	floor := float64(2*d.all() + d.nodes/2) // and each claim says that it is used
	name := fmt.Sprintf("%d volumes are attached to %d nodes", d.all(), d.nodes/2)
	return b.keepCost(ctx, t, d.session, name, figure{Floor: &floor, Most: new(10 * floor)}, func(ctx context.Context) ([]figure, error) {
		if err := d.use(ctx, "a-", 0); err != nil {
			return nil, err
		}
		began := time.Now()
		err := d.listed(ctx, 0, d.nodes/2, d.all(), d.all())
		return []figure{seconds("from the last pod until all are attached", time.Since(began))}, err
	})
}

// volumesMove has all pods go at once, and others use their volumes on other nodes.
func (b *bench) volumesMove(ctx context.Context, t turn, d *disks) error {
	floor := float64(2*d.all() + d.nodes)
	name := fmt.Sprintf("%d volumes move to other nodes", d.all())
	return b.keepCost(ctx, t, d.session, name, figure{Floor: &floor, Most: new(10 * floor)}, func(ctx context.Context) ([]figure, error) {
		if err := d.use(ctx, "b-", d.nodes/2); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := d.end(ctx, "a-", 0, 1); err != nil {
			return nil, err
		}
		ended := time.Now()
		err := d.listed(ctx, d.nodes/2, d.nodes, d.all(), d.all())
		return []figure{
			seconds("from the first deletion of a pod until all are attached to the other nodes", time.Since(began)),
			seconds("the same from the last deletion", time.Since(ended)),
		}, err
	})
}

// nodeIsDrained has the pods of one node go.
func (b *bench) nodeIsDrained(ctx context.Context, t turn, d *disks) error {
	floor := float64(2*d.each + 1) // and each claim says that it is not used any more
	return b.keepCost(ctx, t, d.session, fmt.Sprintf("a node of %d volumes is drained", d.each),
		figure{Floor: &floor, Most: new(10 * floor)}, func(ctx context.Context) ([]figure, error) {
			began := time.Now()
			err := d.end(ctx, "b-", 0, d.nodes/2)
			if err == nil {
				err = d.listed(ctx, d.nodes/2, d.nodes/2+1, 0, d.all()-d.each)
			}
			return []figure{seconds("until all are detached", time.Since(began))}, err
		})
}

// end ends pods at once: every so manieth, from one on.
func (d *disks) end(ctx context.Context, prefix string, first, step int) error {
	return forEach(ctx, 8, (d.all()-first+step-1)/step, func(ctx context.Context, _, i int) error {
		return d.plane.client.CoreV1().Pods(d.namespace.name).Delete(ctx, fmt.Sprint(prefix, first+i*step),
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
}
