package persistentvolumebinder

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/gauge"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (PV-61..63).
type collectors struct {
	caches                                   *caches
	took                                     *metrics.HistogramVec
	failures, oldFailures                    *metrics.CounterVec
	adopted, adoptErrors                     *metrics.Counter
	released                                 *metrics.Counter
	volumes, bound, unbound, claims, waiting *gauge.Gauge
	oldest                                   *gauge.Gauge // how long drivers have not answered

	mu       sync.Mutex
	asked    map[types.UID]begun  // claims whose driver was asked
	deleting map[types.UID]begun  // volumes that their driver is to delete
	stopped  map[string]types.UID // volumes that the brake holds
}

// begun is when something began, and with which driver.
type begun struct {
	driver string
	at     time.Time
}

const collector = "pv_collector" // the subsystem of most gauges

// The names of operations.
const provisioning, deletion = "provision", "delete"

func newCollectors(k *caches) *collectors {
	operation := []string{"plugin_name", "operation_name"}
	counter := func(name, help string, level metrics.StabilityLevel) *metrics.Counter {
		return metrics.NewCounter(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: level})
	}
	failures := func(name string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{Name: name, StabilityLevel: metrics.ALPHA, Help: "Volumes that could not be provisioned or deleted, because nothing does."}, operation)
	}
	claim := []string{"namespace", "storage_class", "volume_attributes_class"}
	c := &collectors{
		caches: k,
		took: metrics.NewHistogramVec(&metrics.HistogramOpts{Name: "volume_operation_total_seconds", StabilityLevel: metrics.BETA,
			Help:    "Seconds from when a driver was asked for a volume until its claim was bound, and from when a volume was released until it was gone.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}}, operation),
		failures: failures("volume_operation_errors_total"), oldFailures: failures("volume_operation_total_errors"),
		adopted:     counter("retroactive_storageclass_total", "Claims that got the default class after their creation.", metrics.ALPHA),
		adoptErrors: counter("retroactive_storageclass_errors_total", "Claims that could not be given the default class.", metrics.ALPHA),
		released:    counter("pv_binder_released_volumes_total", "Volumes that were released, because their claims are gone.", metrics.ALPHA),
		volumes: count(collector, "total_pv_count", "Volumes.", []string{"plugin_name", "volume_mode"}, func(add func(float64, ...string)) {
			for v := range k.volumes.All() {
				add(1, countedAs(v), string(volumeMode(v.Spec.VolumeMode)))
			}
		}),
		bound:   k.volumeGauge("bound_pv_count", "Volumes that are bound.", true),
		unbound: k.volumeGauge("unbound_pv_count", "Volumes that are not bound.", false),
		claims:  k.claimGauge("bound_pvc_count", "Claims that are bound.", claim, true),
		waiting: k.claimGauge("unbound_pvc_count", "Claims that are not bound.", claim, false),
		asked:   map[types.UID]begun{}, deleting: map[types.UID]begun{}, stopped: map[string]types.UID{},
	}
	c.oldest = count("pv_binder", "oldest_request_seconds", "How long the claim has waited that has waited longest for a volume from the driver.",
		[]string{"driver"}, c.unanswered)
	return c
}

// term has claims follow the volumes that many of them wait for, and forgets at its end what was begun: another process may lead now.
func (c *collectors) term(ctx context.Context, enqueue func(plan.Key)) {
	c.caches.follow(ctx, enqueue)
	c.caches.lost.forget()
	c.caches.gone.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.asked)
	clear(c.deleting)
	if clear(c.stopped); c.caches.brake != nil {
		c.caches.brake.Release(heldVolumes, brake.NothingLeft)
	}
}

// unanswered has each driver that was asked, with how long the claim has waited that has waited longest.
func (c *collectors) unanswered(set func(float64, ...string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := map[string]time.Time{}
	for _, b := range c.asked {
		if first, ok := oldest[b.driver]; !ok || b.at.Before(first) {
			oldest[b.driver] = b.at
		}
	}
	for driver, since := range oldest {
		set(time.Since(since).Seconds(), driver)
	}
}

// all lists the metrics for a registry.
func (c *collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.took, c.failures, c.oldFailures, c.adopted, c.adoptErrors, c.released, c.volumes, c.bound, c.unbound, c.claims, c.waiting, c.oldest}
}

// count returns a gauge of what a function adds up.
func count(subsystem, name, help string, labels []string, each func(add func(n float64, labels ...string))) *gauge.Gauge {
	opts := &metrics.GaugeOpts{Subsystem: subsystem, Name: name, StabilityLevel: metrics.ALPHA, Help: help}
	return gauge.OnCollect(opts, labels, func(v *metrics.GaugeVec) {
		each(func(n float64, labels ...string) { v.WithLabelValues(labels...).Add(n) })
	})
}

func (k *caches) volumeGauge(name, help string, bound bool) *gauge.Gauge {
	return count(collector, name, help, []string{"storage_class"}, func(add func(float64, ...string)) {
		for v := range k.volumes.All() {
			if (v.Status.Phase == corev1.VolumeBound) == bound {
				add(1, classOfVolume(v))
			}
		}
	})
}

func (k *caches) claimGauge(name, help string, labels []string, bound bool) *gauge.Gauge {
	return count(collector, name, help, labels, func(add func(float64, ...string)) {
		for c := range k.claims.All() {
			if class, _ := classOf(c); (c.Status.Phase == corev1.ClaimBound) == bound {
				add(1, c.Namespace, class, ptr.Deref(c.Spec.VolumeAttributesClassName, ""))
			}
		}
	})
}

// countedAs is the plugin as the gauge of all volumes names it: drivers by that of CSI (MEND-26).
func countedAs(v *corev1.PersistentVolume) string {
	if v.Spec.CSI != nil {
		return inTree + "csi:" + v.Spec.CSI.Driver
	}
	return plugin(v)
}

// plugin is the driver or the plugin that mounts a volume.
func plugin(v *corev1.PersistentVolume) string {
	switch s := v.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		return s.CSI.Driver
	case s.HostPath != nil:
		return inTree + "host-path"
	case s.NFS != nil:
		return inTree + "nfs"
	case s.Local != nil:
		return inTree + "local-volume"
	case s.ISCSI != nil:
		return inTree + "iscsi"
	case s.FC != nil:
		return inTree + "fc"
	}
	name, _ := volumes.MigratedPlugin(v)
	return cmp.Or(name, "N/A")
}

// itself returns the key of a claim. What was begun for one that is gone is forgotten.
func (c *collectors) itself(before, after plan.Object) []plan.Key {
	if after == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, before.GetUID())
	}
	return informers.Itself(before, after)
}

// volumeItself returns the key of a volume, and notes that it has been deleted.
func (c *collectors) volumeItself(before, after plan.Object) []plan.Key {
	if after == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if b, ok := c.deleting[before.GetUID()]; ok {
			delete(c.deleting, before.GetUID())
			c.took.WithLabelValues(b.driver, deletion).Observe(time.Since(b.at).Seconds())
		}
		c.free(before.GetName(), brake.NothingLeft)
	}
	return informers.Itself(before, after)
}

// claimApplied counts what was done for a claim.
func (c *collectors) claimApplied(ctx context.Context, s claimSnapshot, d claimDecision, did, _ plan.Outcome) {
	if s.Claim == nil {
		return
	}
	if d.Bind != "" && errors.Is(did.Err, plan.ErrStale) {
		c.noteLoser(s, d.Bind)
	}
	if d.Default {
		switch {
		case did.Err == nil:
			c.adopted.Inc()
		case !errors.Is(did.Err, plan.ErrStale):
			c.adoptErrors.Inc()
		}
	}
	if did.Err != nil {
		return
	}
	if d.Failed != "" && (s.Memory.UID != s.Claim.UID || s.Memory.Told != d.Told) {
		c.fail(d.Failed, provisioning)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.Ask != "" {
		klog.FromContext(ctx).V(2).Info("Asked a driver for a volume", "claim", klog.KObj(s.Claim), "driver", d.Ask)
	}
	b, waited := c.asked[s.Claim.UID]
	switch {
	case d.Waits != "" && !waited:
		c.asked[s.Claim.UID] = begun{d.Waits, time.Now()}
	case d.Waits == "" && waited:
		delete(c.asked, s.Claim.UID)
	}
	if d.Bind == "" {
		return
	}
	klog.FromContext(ctx).V(2).Info("Bound a claim", "claim", klog.KObj(s.Claim), "volume", d.Bind)
	if waited {
		c.took.WithLabelValues(b.driver, provisioning).Observe(time.Since(b.at).Seconds())
	}
}

// noteLoser has a claim look for another volume when the cache shows that the one it was to have is taken, unless it does so already.
func (c *collectors) noteLoser(s claimSnapshot, volume string) {
	now := c.caches.volumes.Get("", volume)
	if now != nil && (now == s.Volume || slices.Contains(s.Reserved, now) || slices.Contains(s.Free, now)) {
		c.caches.lost.add(now.UID, plan.KeyOf(s.Claim))
	}
}

func (c *collectors) fail(plugin, operation string) {
	c.failures.WithLabelValues(plugin, operation).Inc()
	c.oldFailures.WithLabelValues(plugin, operation).Inc()
}

// heldVolumes is what the brake holds.
const heldVolumes = "volumes whose claims were replaced"

// volumeApplied counts what was done with a volume, and says what is held.
func (c *collectors) volumeApplied(ctx context.Context, s volumeSnapshot, d volumeDecision, did, _ plan.Outcome) {
	v := s.Volume
	if v == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !d.Held.IsZero():
		c.stopped[v.Name] = v.UID
		c.caches.brake.Hold(time.Now(), heldVolumes, "their claims have other uids than those that they were bound to, as after a restore from a backup")
	case d.Freed:
		c.free(v.Name, brake.ByTime)
	default:
		c.free(v.Name, brake.ByProof)
	}
	if did.Err != nil {
		return
	}
	if d.Failed {
		c.fail(plugin(v), deletion)
	}
	if d.Release {
		klog.FromContext(ctx).Info("Released a volume", "volume", klog.KObj(v), "claim", klog.KRef(v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name))
		c.released.Inc()
		if by := v.Annotations[provisionedBy]; by != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			c.deleting[v.UID] = begun{by, time.Now()}
		}
	}
}

// free notes that a volume is not held any more. The lock is held.
func (c *collectors) free(volume string, cause brake.Cause) {
	if _, held := c.stopped[volume]; !held {
		return
	}
	if delete(c.stopped, volume); len(c.stopped) == 0 {
		c.caches.brake.Release(heldVolumes, cause)
	}
}
