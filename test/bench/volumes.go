package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/test/cluster/countproxy"
)

// benchDriver is the driver that the benchmark stands in for.
const benchDriver = "bench.example.com"

// binding is how many pairs are bound that name each other, how many claims get volumes from a driver, and how many Released volumes
// lie about.
type binding struct{ pairs, made, released int }

// volumes measures claims that are bound: to volumes that are there, and to those that a driver makes, first among few and then among
// many Released volumes.
func volumes(ctx context.Context, b *bench) error {
	sizes := binding{pairs: 500, made: 1000, released: 10_000}
	if b.quick {
		sizes = binding{pairs: 50, made: 50, released: 200}
	}
	flags := append(raisedLimits(), "--controllers=persistentvolume-binder-controller")
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			err := b.withManager(ctx, p, t, flags, func(s *session) error {
				return errors.Join(b.boundPairs(ctx, t, s, sizes.pairs), b.madeVolumes(ctx, t, s, sizes.made, ""))
			})
			if err != nil {
				return err
			}
			if err := p.releasedVolumes(ctx, sizes.released); err != nil {
				return err
			}
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return b.madeVolumes(ctx, t, s, sizes.made, fmt.Sprintf(", among %d Released ones", sizes.released))
			})
		})
	})
}

func gibibyte() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

func newVolume(name, class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: gibibyte(), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: benchDriver,
			VolumeHandle: name}},
	}}
}

func newClaim(name, class, volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class, VolumeName: volume,
		Resources: corev1.VolumeResourceRequirements{Requests: gibibyte()},
	}}
}

// boundPairs creates volumes and claims that name each other, and waits until all are bound.
func (b *bench) boundPairs(ctx context.Context, t turn, s *session, n int) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		// the four that bind, and the claim says that it is unused; a volume may be Available before
		writes := figure{Floor: new(float64(5 * n)), Most: new(float64(6 * n))}
		return b.keepCost(ctx, t, s, fmt.Sprintf("%d volumes and claims that name each other are bound", n), writes,
			func(ctx context.Context) ([]figure, error) {
				return s.bindAll(ctx, ns.name, n, func(ctx context.Context, i int) error {
					name := fmt.Sprintf("pair-%s-%d", ns.name, i)
					v := newVolume(name, "shelf")
					v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ns.name, Name: name}
					if _, err := s.plane.client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{}); err != nil {
						return err
					}
					_, err := s.plane.client.CoreV1().PersistentVolumeClaims(ns.name).Create(ctx, newClaim(name, "shelf", name),
						metav1.CreateOptions{})
					return err
				}, nil)
			})
	})
}

// madeVolumes creates claims of a class, stands in for its driver, and waits until all are bound.
func (b *bench) madeVolumes(ctx context.Context, t turn, s *session, n int, among string) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "made-" + ns.name}, Provisioner: benchDriver}
		if _, err := s.plane.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
		// to ask, the three that bind, and the claim says that it is unused
		writes := figure{Floor: new(float64(5 * n)), Most: new(float64(5 * n))}
		return b.keepCost(ctx, t, s, fmt.Sprintf("%d claims get volumes from a driver%s", n, among), writes,
			func(ctx context.Context) ([]figure, error) {
				return s.bindAll(ctx, ns.name, n, func(ctx context.Context, i int) error {
					_, err := s.plane.client.CoreV1().PersistentVolumeClaims(ns.name).Create(ctx,
						newClaim(fmt.Sprint("data-", i), class.Name, ""), metav1.CreateOptions{})
					return err
				}, func(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
					v := newVolume("pvc-"+string(c.UID), class.Name)
					v.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": benchDriver}
					v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: ns.name,
						Name: c.Name, UID: c.UID}
					_, err := s.plane.client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
					return err
				})
			})
	})
}

// bindAll creates claims, has a driver make the volumes of those that ask for it, and says how long it took from the creation of each
// until it was bound.
func (s *session) bindAll(ctx context.Context, ns string, n int, create func(context.Context, int) error,
	drive func(context.Context, *corev1.PersistentVolumeClaim) error) ([]figure, error) {
	claims := s.plane.client.CoreV1().PersistentVolumeClaims(ns)
	list, err := claims.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	w, err := watchFrom(ctx, list.ResourceVersion, claims.Watch)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	before := conflicts(s.proxy.Requests())
	created := make(chan error, 1)
	go func() {
		created <- forEach(ctx, 8, n, func(ctx context.Context, _, i int) error { return create(ctx, i) })
	}()
	took, err := s.awaitBound(ctx, w, n, drive)
	if err := errors.Join(err, <-created); err != nil {
		return nil, err
	}
	return append(latencies("from the creation of a claim until it is bound", took),
		exactly("writes that were refused as outdated", conflicts(s.proxy.Requests())-before, 0)), nil
}

// awaitBound follows claims until so many are bound.
func (s *session) awaitBound(ctx context.Context, w watch.Interface, n int,
	drive func(context.Context, *corev1.PersistentVolumeClaim) error) (took []time.Duration, err error) {
	began, asked, made := map[string]time.Time{}, map[string]bool{}, make(chan error, n)
	alive := time.NewTicker(time.Second)
	defer alive.Stop()
	for len(took) < n {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-alive.C:
			if err := s.manager.running(); err != nil {
				return nil, err
			}
		case err := <-made:
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return nil, err
			}
		case e, ok := <-w.ResultChan():
			c, is := e.Object.(*corev1.PersistentVolumeClaim)
			if !ok || !is {
				return nil, fmt.Errorf("the watch of claims has ended: %v", e.Object)
			}
			if began[c.Name].IsZero() {
				began[c.Name] = time.Now()
			}
			if drive != nil && !asked[c.Name] && c.Annotations["volume.kubernetes.io/storage-provisioner"] == benchDriver {
				asked[c.Name] = true
				go func() { made <- drive(ctx, c) }()
			}
			if since := began[c.Name]; c.Status.Phase == corev1.ClaimBound && !since.Equal(bound) {
				took, began[c.Name] = append(took, time.Since(since)), bound
			}
		}
	}
	return took, nil
}

// bound stands for the beginning of a claim that is bound.
var bound = time.Unix(0, 0)

// conflicts counts the writes that were refused as outdated.
func conflicts(seen countproxy.Summary) int { return countWrites(seen).conflicts }

// releasedVolumes makes volumes whose claims are gone since long.
func (p *plane) releasedVolumes(ctx context.Context, n int) error {
	volumes := p.client.CoreV1().PersistentVolumes()
	return forEach(ctx, 16, n, func(ctx context.Context, _, i int) error {
		v := newVolume(fmt.Sprint("released-", i), "shelf")
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "gone",
			Name: fmt.Sprint("data-", i), UID: "gone"}
		made, err := volumes.Create(ctx, v, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		made.Status.Phase = corev1.VolumeReleased
		_, err = volumes.UpdateStatus(ctx, made, metav1.UpdateOptions{})
		return err
	})
}
