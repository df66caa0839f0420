package integration

import (
	"errors"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/metricsapi"
)

// autoscalerPeriod is short, so that autoscalers have looked at their metrics before others have done their work.
const autoscalerPeriod = "--horizontal-pod-autoscaler-sync-period=1s"

// workOfAutoscalers has metrics of each API read, scales read and written, and events counted. It needs the kind [gizmos] and a
// short period.
func (b *bench) workOfAutoscalers() {
	b.Helper()
	metrics, err := metricsapi.Start(b.Context(), b.RESTConfig, metricsapi.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := metrics.Close(); err != nil {
			b.Error(err)
		}
	}()
	of := func() *autoscaled {
		return &autoscaled{bench: &bench{b.T, b.Cluster, b.Namespace(b.T)}, metrics: metrics}
	}
	a := of()
	a.setLoad("300m")
	a.metrics.Object(a.ns, "pods", metricsapi.AllObjects, get, a.total)
	a.metrics.External(a.ns, get, metricsapi.Constant("3"))
	a.create(deployment("web", 1, requests))
	a.waitComplete("web")
	a.autoscaler(1, 3, nil, ofResource(average("100m")), ofPods(identified("requests", nil), average("1")),
		ofExternal(identified("requests", nil), average("1")))
	a.waitEvent("SuccessfulRescale: New size: 3; reason: external metric requests(nil) above target")
	a.wait("an event is counted", func() error { // there is no usage yet
		list, err := a.Client.CoreV1().Events(a.ns).List(a.Context(), metav1.ListOptions{FieldSelector: "reason=FailedGetResourceMetric"})
		if err != nil || len(list.Items) == 0 || list.Items[0].Count < 2 {
			return errors.Join(err, errors.New("it is not"))
		}
		return nil
	})

	a = of()
	a.gizmo()
	a.metrics.External(a.ns, metricsapi.Metric{Name: "queue"}, metricsapi.Constant("3"))
	a.autoscaler(1, 5, func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.ScaleTargetRef = gizmo },
		ofExternal(identified("queue", nil), average("1")))
	a.waitSays("AbleToScale", "True SucceededGetScale: ")
}
