package metricsapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	customv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	for _, add := range []func(*runtime.Scheme) error{metricsv1beta1.AddToScheme, customv1beta1.AddToScheme, customv1beta2.AddToScheme,
		externalv1beta1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
}

// query is a request to one of the groups, and what its path says.
type query struct {
	*http.Request
	group, version, namespace string
	path                      []string // what follows the namespace
}

// selector reads a label selector from a parameter. Without one it selects all.
func (q query) selector(parameter string) (labels.Selector, error) {
	return labels.Parse(q.URL.Query().Get(parameter))
}

// answer writes an object in protobuf if the client accepts that and the group knows it, and else in JSON.
func answer(w http.ResponseWriter, q query, version schema.GroupVersion, object runtime.Object) {
	mediaType := runtime.ContentTypeJSON
	if strings.Contains(q.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		mediaType = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	w.Header().Set("Content-Type", mediaType)
	// the client sees it, too
	_ = runtime.WithVersionEncoder{Version: version, Encoder: info.Serializer, ObjectTyper: scheme}.Encode(object, w)
}

func refuse(w http.ResponseWriter, code int, message string) {
	status := &metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: message, Reason: reason(code)}
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	_ = runtime.WithVersionEncoder{Version: schema.GroupVersion{Version: "v1"}, Encoder: info.Serializer,
		ObjectTyper: scheme}.Encode(status, w)
}

func reason(code int) metav1.StatusReason {
	switch code {
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	}
	return metav1.StatusReasonInternalError
}

// discover says which resources a version of a group has. The names of custom and external metrics are left out: clients do
// not need them there, and adapters do not all have them.
func (s *Server) discover(w http.ResponseWriter, q query) {
	if !slices.Contains(s.versions(), schema.GroupVersion{Group: q.group, Version: q.version}) {
		http.NotFound(w, q.Request)
		return
	}
	list := &metav1.APIResourceList{GroupVersion: q.group + "/" + q.version, APIResources: []metav1.APIResource{}}
	if q.group == ResourceGroup {
		list.APIResources = append(list.APIResources,
			metav1.APIResource{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}})
	}
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	_ = runtime.WithVersionEncoder{Version: schema.GroupVersion{Version: "v1"}, Encoder: info.Serializer, ObjectTyper: scheme}.Encode(list,
		w)
}

// serveResource answers for metrics.k8s.io: a list of pods, or one of them.
func (s *Server) serveResource(w http.ResponseWriter, q query) {
	wanted, err := q.selector("labelSelector")
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if q.path[0] != "pods" || len(q.path) > 2 {
		refuse(w, http.StatusNotFound, "there is no such resource")
		return
	}
	pods, err := s.pods.Pods(q.namespace).List(wanted)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	list := &metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{}}
	now := time.Now()
	for _, p := range pods {
		if len(q.path) == 2 && p.Name != q.path[1] {
			continue
		}
		if m := s.measured(p, now); m != nil {
			list.Items = append(list.Items, *m)
		}
	}
	switch {
	case len(q.path) == 1:
		answer(w, q, metricsv1beta1.SchemeGroupVersion, list)
	case len(list.Items) == 1:
		answer(w, q, metricsv1beta1.SchemeGroupVersion, &list.Items[0])
	default:
		refuse(w, http.StatusNotFound, "there are no metrics of this pod")
	}
}

// measured are the metrics of a pod, if it has any: only pods that run use something.
func (s *Server) measured(p *corev1.Pod, now time.Time) *metricsv1beta1.PodMetrics {
	usage := s.usageIn(p.Namespace)
	if usage == nil || p.Status.Phase != corev1.PodRunning {
		return nil
	}
	m := &metricsv1beta1.PodMetrics{Timestamp: metav1.NewTime(now), Window: metav1.Duration{Duration: s.options.Window}}
	m.ObjectMeta = metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, CreationTimestamp: metav1.NewTime(now)}
	for _, c := range p.Spec.Containers {
		if used := usage(p, c.Name, now); used != nil {
			m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: used})
		}
	}
	if len(m.Containers) == 0 {
		return nil
	}
	return m
}

// serveExternal answers for external.metrics.k8s.io: all series of a metric.
func (s *Server) serveExternal(w http.ResponseWriter, q query) {
	wanted, err := q.selector("labelSelector")
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	list := &externalv1beta1.ExternalMetricValueList{Items: []externalv1beta1.ExternalMetricValue{}}
	now := time.Now()
	for _, found := range s.externalOf(q.namespace, q.path[0], wanted, now) {
		list.Items = append(list.Items,
			externalv1beta1.ExternalMetricValue{MetricName: q.path[0], MetricLabels: found.labels, Timestamp: metav1.NewTime(now),
				Value: found.value})
	}
	answer(w, q, externalv1beta1.SchemeGroupVersion, list)
}
