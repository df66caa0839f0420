package persistentvolumebinder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/testing/termtest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// registered returns a registry with the metrics: before that they count nothing.
func registered(c *collectors) metrics.KubeRegistry {
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(c.all()...)
	return registry
}

// collected returns the values of the metrics: of histograms the sum.
func collected(t *testing.T, registry metrics.KubeRegistry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			if value != 0 {
				all = append(all, fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, " "), value))
			}
		}
	}
	return strings.Join(all, "\n")
}

func TestPV61MEND26Gauges(t *testing.T) {
	k := emptyCaches(t)
	k.show(volume("a", "csi phase=Bound of=c"))
	k.show(volume("b", "block"))
	k.show(volume("d", "class=slow"))
	k.show(claim("c", "phase=Bound volume=a attributes=gold"))
	k.show(claim("e", "noclass"))
	want := `pv_collector_bound_pv_count{storage_class=fast} 1
pv_collector_bound_pvc_count{namespace=shop storage_class=fast volume_attributes_class=gold} 1
pv_collector_total_pv_count{plugin_name=N/A volume_mode=Block} 1
pv_collector_total_pv_count{plugin_name=N/A volume_mode=Filesystem} 1
pv_collector_total_pv_count{plugin_name=kubernetes.io/csi:csi.example.com volume_mode=Filesystem} 1
pv_collector_unbound_pv_count{storage_class=fast} 1
pv_collector_unbound_pv_count{storage_class=slow} 1
pv_collector_unbound_pvc_count{namespace=shop storage_class= volume_attributes_class=} 1`
	if got := collected(t, registered(newCollectors(k))); got != want {
		t.Errorf("%s", got)
	}
}

func TestPV78Plugins(t *testing.T) {
	for want, source := range map[string]corev1.PersistentVolumeSource{
		"kubernetes.io/host-path":    {HostPath: &corev1.HostPathVolumeSource{}},
		"kubernetes.io/nfs":          {NFS: &corev1.NFSVolumeSource{}},
		"kubernetes.io/local-volume": {Local: &corev1.LocalVolumeSource{}},
		"kubernetes.io/iscsi":        {ISCSI: &corev1.ISCSIPersistentVolumeSource{}},
		"kubernetes.io/fc":           {FC: &corev1.FCVolumeSource{}},
		"kubernetes.io/aws-ebs":      {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}},
		"d":                          {CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}},
		"N/A":                        {},
	} {
		if got := plugin(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPV62Operations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := emptyCaches(t)
		termtest.Begin(t, k.claimTerm)
		termtest.Begin(t, k.volumeTerm)
		c := newCollectors(k)
		registry := registered(c)
		applied := func(s claimSnapshot, d claimDecision, err error) {
			c.claimApplied(t.Context(), s, d, plan.Outcome{Err: err})
			k.claimApplied(s, d, plan.Outcome{Err: err})
		}
		s := claimSnapshot{Claim: claim("data", "")}
		for range 2 { // it is asked again: the first time counts
			applied(s, claimDecision{Ask: "d", Waits: "d", Default: true}, nil)
			time.Sleep(10 * time.Second)
		}
		if got := collected(t, registry); !strings.Contains(got, "pv_binder_oldest_request_seconds{driver=d} 20") {
			t.Errorf("%s", got)
		}
		applied(s, claimDecision{Bind: "v"}, nil)
		applied(s, claimDecision{Failed: "kubernetes.io/odd", LastEvent: "x"}, nil)
		s.Memory = claimMemory{"uid-data", "x"}
		applied(s, claimDecision{Failed: "kubernetes.io/odd", LastEvent: "x"}, nil)
		applied(s, claimDecision{Default: true}, plan.ErrStale)
		applied(s, claimDecision{Default: true}, context.DeadlineExceeded)

		applied(claimSnapshot{Claim: claim("gone", "")}, claimDecision{Ask: "d", Waits: "d"}, nil)
		k.claimTerm.Follow(reconcile.Watch{Enqueues: informers.Itself}).Enqueues(claim("gone", ""), nil)
		applied(claimSnapshot{Claim: claim("gone", "")}, claimDecision{Bind: "v"}, nil)

		v := volume("v", "by=d policy=Delete of=data")
		c.volumeApplied(t.Context(), v, volumeDecision{Release: true}, plan.Outcome{})
		k.volumeApplied(v, volumeDecision{Release: true}, plan.Outcome{})
		time.Sleep(5 * time.Second)
		watch := c.countDeletions(k.volumeTerm.Follow(reconcile.Watch{Enqueues: informers.Itself}))
		watch.Enqueues(v, nil)
		watch.Enqueues(v, nil)
		c.volumeApplied(t.Context(), volume("w", "of=data csi"), volumeDecision{Failed: true}, plan.Outcome{})
		want := `pv_binder_released_volumes_total{} 1
retroactive_storageclass_errors_total{} 1
retroactive_storageclass_total{} 2
volume_operation_errors_total{operation_name=delete plugin_name=csi.example.com} 1
volume_operation_errors_total{operation_name=provision plugin_name=kubernetes.io/odd} 1
volume_operation_total_errors{operation_name=delete plugin_name=csi.example.com} 1
volume_operation_total_errors{operation_name=provision plugin_name=kubernetes.io/odd} 1
volume_operation_total_seconds{operation_name=delete plugin_name=d} 5
volume_operation_total_seconds{operation_name=provision plugin_name=d} 20`
		if got := collected(t, registry); got != want {
			t.Errorf("%s", got)
		}
	})
}
