package metricsapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	customv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
)

// serveCustom answers for custom.metrics.k8s.io: a metric of one object, or of all that a selector wants.
func (s *Server) serveCustom(w http.ResponseWriter, q query) {
	objects, err := q.selector("labelSelector")
	var series labels.Selector
	if err == nil {
		series, err = q.selector("metricLabelSelector")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	o := object{namespace: q.namespace}
	metric := ""
	switch {
	case len(q.path) == 2 && q.namespace != "" && q.path[0] == "metrics": // of the namespace itself
		o, metric = object{resource: "namespaces", name: q.namespace}, q.path[1]
	case len(q.path) == 3:
		o.resource, o.name, metric = q.path[0], q.path[1], q.path[2]
	default:
		refuse(w, http.StatusNotFound, "there is no such resource")
		return
	}
	named := []object{o}
	if o.name == AllObjects {
		if named, err = s.named(o, objects); err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	now := time.Now()
	values := []customv1beta2.MetricValue{}
	for _, o := range named {
		for _, found := range s.of(o, metric, series, now) {
			values = append(values, value(o, metric, found, q.URL.Query().Get("metricLabelSelector"), now))
		}
	}
	if len(values) == 0 && o.name != AllObjects {
		refuse(w, http.StatusNotFound, "the metric "+metric+" of "+o.resource+" "+o.name+" is not known")
		return
	}
	answerCustom(w, q, values)
}

// named are the objects of a resource that a selector wants: of pods those that run, of others all of which the script says something.
func (s *Server) named(all object, wanted labels.Selector) (found []object, err error) {
	if all.resource == "pods" {
		pods, err := s.pods.Pods(all.namespace).List(wanted)
		for _, p := range pods {
			if p.Status.Phase == corev1.PodRunning {
				found = append(found, object{all.namespace, all.resource, p.Name})
			}
		}
		slices.SortFunc(found, func(a, b object) int { return strings.Compare(a.name, b.name) })
		return found, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.objects {
		if o.namespace == all.namespace && o.resource == all.resource && o.name != AllObjects {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b object) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

func value(o object, metric string, found sample, selector string, now time.Time) customv1beta2.MetricValue {
	v := customv1beta2.MetricValue{
		DescribedObject: corev1.ObjectReference{Kind: o.resource, Namespace: o.namespace, Name: o.name},
		Metric:          customv1beta2.MetricIdentifier{Name: metric},
		Timestamp:       metav1.NewTime(now), Value: found.value,
	}
	if o.resource == "pods" {
		v.DescribedObject.Kind, v.DescribedObject.APIVersion = "Pod", "v1"
	}
	if selector != "" {
		v.Metric.Selector, _ = metav1.ParseToLabelSelector(selector) // it was parsed before
	}
	return v
}

// answerCustom writes the values in the version that the client asked for.
func answerCustom(w http.ResponseWriter, q query, values []customv1beta2.MetricValue) {
	if q.version == customv1beta2.SchemeGroupVersion.Version {
		answer(w, q, customv1beta2.SchemeGroupVersion, &customv1beta2.MetricValueList{Items: values})
		return
	}
	old := &customv1beta1.MetricValueList{Items: []customv1beta1.MetricValue{}}
	for _, v := range values {
		old.Items = append(old.Items,
			customv1beta1.MetricValue{DescribedObject: v.DescribedObject, MetricName: v.Metric.Name, Selector: v.Metric.Selector,
				Timestamp: v.Timestamp, Value: v.Value})
	}
	answer(w, q, customv1beta1.SchemeGroupVersion, old)
}
