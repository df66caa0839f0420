package apiserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	externalmetrics "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	resourcemetrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// SetLoad sets how much CPU the pods of an app use together, in thousandths: those that run share it evenly. The value of the external
// metric of that name is the same.
func (s *Server) SetLoad(app string, milli int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loads == nil {
		s.loads = map[string]int64{}
	}
	s.loads[app] = milli
}

// Load returns the load of an app; false if it was never set.
func (s *Server) Load(app string) (milli int64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	milli, known = s.loads[app]
	return milli, known
}

const (
	resourceMetricsPath = "apis/" + resourcemetrics.GroupName + "/v1beta1/namespaces/"
	externalMetricsPath = "apis/" + externalmetrics.GroupName + "/v1beta1/namespaces/"
)

// isMetrics reports whether a path is that of a metrics API, as an aggregated server would have it.
func isMetrics(path string) bool {
	path = strings.Trim(path, "/")
	return strings.HasPrefix(path, resourceMetricsPath) && strings.HasSuffix(path, "/pods") || strings.HasPrefix(path, externalMetricsPath)
}

// metrics answers a request to a metrics API.
func (s *Server) metrics(req *http.Request) (*http.Response, error) {
	path := strings.Trim(req.URL.Path, "/")
	var list any
	if rest, ok := strings.CutPrefix(path, resourceMetricsPath); ok {
		selector, err := labels.Parse(req.URL.Query().Get("labelSelector"))
		if err != nil {
			return nil, err
		}
		namespace, _, _ := strings.Cut(rest, "/")
		list = s.podMetrics(namespace, selector)
	} else {
		_, name, _ := strings.Cut(strings.TrimPrefix(path, externalMetricsPath), "/")
		list = s.externalMetrics(name)
	}
	body, err := json.Marshal(list)
	return answer(req, http.StatusOK, "application/json", body), err
}

func (s *Server) podMetrics(namespace string, selector labels.Selector) *resourcemetrics.PodMetricsList {
	list := &resourcemetrics.PodMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"}}
	running := map[string]int64{}
	pods := All[*corev1.Pod](s)
	for _, p := range pods {
		if p.Namespace == namespace && p.Status.Phase == corev1.PodRunning {
			running[p.Labels["app"]]++
		}
	}
	for _, p := range pods {
		if p.Namespace != namespace || p.Status.Phase != corev1.PodRunning || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		app := p.Labels["app"]
		load, _ := s.Load(app)
		m := resourcemetrics.PodMetrics{Timestamp: metav1.Now(), Window: metav1.Duration{Duration: 15 * time.Second}}
		m.Name, m.Namespace, m.Labels = p.Name, p.Namespace, p.Labels
		for i, c := range p.Spec.Containers {
			use := int64(0)
			if i == 0 {
				use = load / running[app]
			}
			m.Containers = append(m.Containers, resourcemetrics.ContainerMetrics{Name: c.Name, Usage: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(use, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("10Mi"),
			}})
		}
		list.Items = append(list.Items, m)
	}
	return list
}

func (s *Server) externalMetrics(name string) *externalmetrics.ExternalMetricValueList {
	list := &externalmetrics.ExternalMetricValueList{TypeMeta: metav1.TypeMeta{APIVersion: "external.metrics.k8s.io/v1beta1",
		Kind: "ExternalMetricValueList"}}
	if load, known := s.Load(name); known {
		list.Items = append(list.Items, externalmetrics.ExternalMetricValue{
			MetricName: name, Timestamp: metav1.Now(), Value: *resource.NewMilliQuantity(load, resource.DecimalSI)})
	}
	return list
}
