package attachdetach

import (
	"context"
	"strconv"
	"strings"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/gauge"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller (AD-54, AD-55, AD-56).
type collectors struct {
	controller *nodeController
	forced     *metrics.CounterVec
	operations *metrics.HistogramVec
	total      *gauge.Gauge
	inUse      *gauge.Gauge
}

const (
	attach = "volume_attach"
	detach = "volume_detach"
)

func newCollectors(k *nodeController) *collectors {
	c := &collectors{
		controller: k,
		forced: metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: "attach_detach_controller",
			Name:           "attachdetach_controller_forced_detaches",
			Help:           "Volumes that were detached although their nodes may have had them in use.",
			StabilityLevel: metrics.ALPHA},
			[]string{"reason"}),
		operations: metrics.NewHistogramVec(&metrics.HistogramOpts{Name: "storage_operation_duration_seconds",
			StabilityLevel: metrics.ALPHA,
			Help: "Seconds from when a driver was asked to attach or to detach a volume until it had done so, " +
				"or said that it could not.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}},
			[]string{"volume_plugin", "operation_name", "status", "migrated"}),
	}
	c.total = gauge.Sum("attachdetach_controller", "total_volumes",
		"Volumes that pods need on nodes (desired), and that are attached to nodes (actual).",
		[]string{"plugin_name", "state"}, k.countVolumes)
	c.inUse = gauge.Sum("", "storage_count_attachable_volumes_in_use", "Volumes that pods need on a node.",
		[]string{"node", "volume_plugin"}, k.pods.countUsed)
	return c
}

// all lists the metrics for a registry.
func (c *collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.forced, c.operations, c.total, c.inUse}
}

// plugin is the kind of a volume, as metrics name it.
func plugin(volume string) string {
	if of, ok := strings.CutPrefix(volume, volumes.CSIPrefix); ok {
		driver, _, _ := strings.Cut(of, "^")
		return "kubernetes.io/csi:" + driver
	}
	for _, kind := range []string{volumes.ISCSIPrefix, volumes.FCPrefix} {
		if strings.HasPrefix(volume, kind) {
			return strings.TrimSuffix(kind, "/")
		}
	}
	return volume
}

// appliedVolume counts what drivers have done.
func (c *collectors) appliedVolume(_ context.Context, s volumeSnapshot, d volumeDecision, _, _ plan.Outcome) {
	kind, migrated := plugin(s.Volume.Name), strconv.FormatBool(s.Volume.Migrated)
	for _, took := range d.Attached {
		c.operations.WithLabelValues(kind, attach, "success", migrated).Observe(took.Seconds())
	}
	for _, took := range d.Failed {
		c.operations.WithLabelValues(kind, attach, "fail-unknown", migrated).Observe(took.Seconds())
	}
}

// appliedNode counts and logs what was detached.
func (c *collectors) appliedNode(ctx context.Context, s nodeSnapshot, d nodeDecision, did, _ plan.Outcome) {
	logger, now := klog.FromContext(ctx), time.Now()
	for _, reason := range []string{forcedByTaint, forcedByTime, forcedByEnd} {
		c.forced.WithLabelValues(reason) // from the beginning on
	}
	for _, r := range did.Results {
		reason, deleted := d.Deleted[r.Object.GetName()]
		if r.Verb != plan.Deleted || !deleted || r.Err != nil {
			continue
		}
		if reason == "" {
			logger.V(2).Info("Detaching volume", "volumeAttachment", r.Object.GetName(), "node", s.Name)
			continue
		}
		c.forced.WithLabelValues(reason).Inc()
		logger.Info("Detaching volume by force", "volumeAttachment", r.Object.GetName(), "node", s.Name,
			"reason", reason)
	}
	there := map[string]bool{}
	for _, v := range s.Volumes {
		there[v.id()] = true
	}
	for name, asked := range s.Memory.Asked {
		if !there[name] {
			took := now.Sub(asked.When).Seconds()
			c.operations.WithLabelValues(asked.Plugin, detach, "success", "false").Observe(took)
		}
	}
}

// countUsed counts the volumes of claims that pods need on nodes.
func (k *podView) countUsed(add func(float64, ...string)) {
	for pv := range k.volumes.pvs.All() {
		v, ref := ofPV(pv), pv.Spec.ClaimRef
		if v.Name == "" || ref == nil || !k.volumes.attachable(v) {
			continue
		}
		nodes := map[string]bool{}
		for _, p := range k.byClaim.Naming(ref.Namespace, ref.Name) {
			if node := p.Spec.NodeName; needs(p) && !nodes[node] {
				nodes[node] = true
				add(1, node, plugin(v.Name))
			}
		}
	}
}

func (k *views) countVolumes(add func(float64, ...string)) {
	k.pods.countUsed(func(n float64, labels ...string) { add(n, labels[1], "desired_state_of_world") })
	for a := range k.volumes.attachments.All() {
		if attached(a) {
			add(1, "kubernetes.io/csi:"+a.Spec.Attacher, "actual_state_of_world")
		}
	}
	for n := range k.nodes.All() {
		for _, a := range n.Status.VolumesAttached {
			if kind := plugin(string(a.Name)); kind+"/" == volumes.ISCSIPrefix || kind+"/" == volumes.FCPrefix {
				add(1, kind, "actual_state_of_world")
			}
		}
	}
}
