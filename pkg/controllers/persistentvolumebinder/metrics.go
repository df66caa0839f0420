package persistentvolumebinder

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/gauge"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
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
		return metrics.NewCounterVec(&metrics.CounterOpts{Name: name, StabilityLevel: metrics.ALPHA,
			Help: "Volumes that could not be provisioned or deleted, because nothing does."}, operation)
	}
	claim := []string{"namespace", "storage_class", "volume_attributes_class"}
	c := &collectors{
		caches: k,
		took: metrics.NewHistogramVec(&metrics.HistogramOpts{Name: "volume_operation_total_seconds",
			StabilityLevel: metrics.BETA,
			Help: "Seconds from when a driver was asked for a volume until its claim was bound, and from " +
				"when a volume was released until it was gone.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}}, operation),
		failures: failures("volume_operation_errors_total"), oldFailures: failures("volume_operation_total_errors"),
		adopted: counter("retroactive_storageclass_total",
			"Claims that got the default class after their creation.", metrics.ALPHA),
		adoptErrors: counter("retroactive_storageclass_errors_total",
			"Claims that could not be given the default class.", metrics.ALPHA),
		released: counter("pv_binder_released_volumes_total",
			"Volumes that were released, because their claims are gone.", metrics.ALPHA),
		volumes: gauge.Sum(collector, "total_pv_count", "Volumes.", []string{"plugin_name", "volume_mode"},
			func(add func(float64, ...string)) {
				for v := range k.volumes.All() {
					add(1, countedAs(v), string(volumeMode(v.Spec.VolumeMode)))
				}
			}),
		bound:   k.volumeGauge("bound_pv_count", "Volumes that are bound.", true),
		unbound: k.volumeGauge("unbound_pv_count", "Volumes that are not bound.", false),
		claims:  k.claimGauge("bound_pvc_count", "Claims that are bound.", claim, true),
		waiting: k.claimGauge("unbound_pvc_count", "Claims that are not bound.", claim, false),
	}
	c.oldest = gauge.Sum("pv_binder", "oldest_request_seconds",
		"How long the claim has waited that has waited longest for a volume from the driver.",
		[]string{"driver"}, c.unanswered)
	return c
}

// unanswered has each driver that was asked, with how long the claim has waited that has waited longest.
func (c *collectors) unanswered(set func(float64, ...string)) {
	t, _ := c.caches.claimTerm.Get()
	oldest := map[string]time.Time{}
	for _, b := range t.Asked.All() {
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
	return []metrics.Registerable{c.took, c.failures, c.oldFailures, c.adopted, c.adoptErrors, c.released, c.volumes,
		c.bound, c.unbound, c.claims, c.waiting, c.oldest}
}

func (k *caches) volumeGauge(name, help string, bound bool) *gauge.Gauge {
	return gauge.Sum(collector, name, help, []string{"storage_class"}, func(add func(float64, ...string)) {
		for v := range k.volumes.All() {
			if (v.Status.Phase == corev1.VolumeBound) == bound {
				add(1, classOfVolume(v))
			}
		}
	})
}

func (k *caches) claimGauge(name, help string, labels []string, bound bool) *gauge.Gauge {
	return gauge.Sum(collector, name, help, labels, func(add func(float64, ...string)) {
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

// countDeletions has the watch of volumes count how long drivers took to delete those that are gone.
func (c *collectors) countDeletions(w reconcile.Watch) reconcile.Watch {
	enqueues := w.Enqueues
	w.Enqueues = func(before, after plan.Object) []plan.Key {
		if after == nil {
			t, _ := c.caches.volumeTerm.Get()
			if b, ok := t.Deleting.Get(before.GetUID()); ok {
				c.took.WithLabelValues(b.driver, deletion).Observe(time.Since(b.at).Seconds())
			}
		}
		return enqueues(before, after)
	}
	return w
}

// claimApplied counts what was done for a claim.
func (c *collectors) claimApplied(ctx context.Context, s claimSnapshot, d claimDecision, did plan.Outcome) {
	if s.Claim == nil {
		return
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
	if d.Failed != "" && (s.Memory.UID != s.Claim.UID || s.Memory.LastEvent != d.LastEvent) {
		c.fail(d.Failed, provisioning)
	}
	if d.Ask != "" {
		klog.FromContext(ctx).V(2).Info("Asked a driver for a volume", "claim", klog.KObj(s.Claim), "driver", d.Ask)
	}
	if d.Bind == "" {
		return
	}
	klog.FromContext(ctx).V(2).Info("Bound a claim", "claim", klog.KObj(s.Claim), "volume", d.Bind)
	t, _ := c.caches.claimTerm.Get()
	if b, waited := t.Asked.Get(s.Claim.UID); waited {
		c.took.WithLabelValues(b.driver, provisioning).Observe(time.Since(b.at).Seconds())
	}
}

func (c *collectors) fail(plugin, operation string) {
	c.failures.WithLabelValues(plugin, operation).Inc()
	c.oldFailures.WithLabelValues(plugin, operation).Inc()
}

// volumeApplied counts what was done with a volume.
func (c *collectors) volumeApplied(
	ctx context.Context, v *corev1.PersistentVolume, d volumeDecision, did plan.Outcome,
) {
	if v == nil || did.Err != nil {
		return
	}
	if d.Failed {
		c.fail(plugin(v), deletion)
	}
	if d.Release {
		klog.FromContext(ctx).Info("Released a volume", "volume", klog.KObj(v), "claim",
			klog.KRef(v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name))
		c.released.Inc()
	}
}
