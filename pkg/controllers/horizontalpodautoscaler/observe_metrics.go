package horizontalpodautoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	custommetrics "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalmetrics "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	resourcemetrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
)

// reads are those of the metrics of one autoscaler, in one reconcile. Its methods fill the readings of the
// snapshot.
type reads struct {
	*caches
	request  request
	snapshot *snapshot
	// view says what other autoscalers of the namespace ask for, so that one list may serve several.
	view *view
}

// defaultWindow is that of samples which do not say what time they are of (HPA-26c).
const defaultWindow = time.Minute

// metric reads what one metric needs. A metric that is not well formed needs nothing; the plan says what is wrong
// with it.
func (k *reads) metric(ctx context.Context, m *autoscalingv2.MetricSpec) reading {
	var read reading
	var err error
	api := "custom"
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		api = "resource"
		read.Pods, err = k.resource(ctx, m.Resource.Name, "")
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		api = "resource"
		read.Pods, err = k.resource(ctx, m.ContainerResource.Name, m.ContainerResource.Container)
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		read.Pods, err = k.ofPods(ctx, m.Pods.Metric)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		read.Sum, err = k.ofObject(ctx, m.Object)
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		api = "external"
		read.Sum, err = k.external(ctx, m.External.Metric)
	}
	switch {
	case errors.Is(err, errNoMetrics):
		read.Err = fmt.Sprintf("no metrics returned from %s metrics API", api)
	case err != nil:
		read.Err = fmt.Sprintf("unable to fetch metrics from %s metrics API: %v", api, err)
	}
	return read
}

// errNoMetrics is the error where an API has answered, and knows nothing of the pods.
var errNoMetrics = errors.New("no metrics")

// resource returns how much of a resource each pod uses, or one container of each (HPA-26a, HPA-26b). A pod of which
// that is not known is left out.
func (k *reads) resource(ctx context.Context, name corev1.ResourceName, container string) (map[string]sample, error) {
	const path = "/apis/metrics.k8s.io/v1beta1"
	selector := k.snapshot.Target.Labels
	if k.view.sharesResource() {
		selector = ""
	}
	all, err := ask(ctx, k, resourcemetrics.GroupName, path+"/namespaces/"+k.namespace()+"/pods",
		selecting(selector, ""), "pods.metrics.k8s.io",
		func(l *resourcemetrics.PodMetricsList) map[string]*resourcemetrics.PodMetrics {
			byName := make(map[string]*resourcemetrics.PodMetrics, len(l.Items))
			for i := range l.Items {
				byName[l.Items[i].Name] = &l.Items[i]
			}
			return byName
		})
	if err != nil {
		return nil, err
	}
	found, known := map[string]sample{}, selector != "" && len(all) > 0
	for _, p := range k.snapshot.Pods {
		m := all[p.Name]
		if m == nil {
			continue
		}
		known = true
		if value, ok := usage(m, name, container); ok {
			found[p.Name] = sample{value, m.Timestamp.Time, m.Window.Duration}
		}
	}
	if !known {
		return nil, errNoMetrics
	}
	return found, nil
}

// usage returns how much of a resource a pod uses, or one container if that is named; false if it is not known of all
// its containers.
func usage(m *resourcemetrics.PodMetrics, name corev1.ResourceName, container string) (sum int64, ok bool) {
	for i := range m.Containers {
		c := &m.Containers[i]
		if container != "" && c.Name != container {
			continue
		}
		q, has := c.Usage[name]
		if !has {
			return 0, false
		}
		sum, ok = saturated(sum, milli(q)), true
	}
	return sum, ok
}

// ofPods returns the value of a custom metric of each pod (HPA-26c).
func (k *reads) ofPods(ctx context.Context, m autoscalingv2.MetricIdentifier) (map[string]sample, error) {
	version, err := k.customVersion(ctx)
	if err != nil {
		return nil, err
	}
	metricSelector, err := selectorOf(m.Selector)
	if err != nil {
		return nil, err
	}
	selector := k.snapshot.Target.Labels
	if k.view.sharesCustom(m.Name) {
		selector = ""
	}
	path := "/apis/" + version + "/namespaces/" + k.namespace() + "/pods/*/" + m.Name
	all, err := ask(ctx, k, custommetrics.GroupName, path, selecting(selector, metricSelector),
		"pods.custom.metrics.k8s.io *",
		func(l *custommetrics.MetricValueList) map[string]sample {
			byName := make(map[string]sample, len(l.Items))
			for i := range l.Items {
				v := &l.Items[i]
				window := defaultWindow
				if v.WindowSeconds != nil {
					window = workloads.Seconds(*v.WindowSeconds)
				}
				byName[v.DescribedObject.Name] = sample{milli(v.Value), v.Timestamp.Time, window}
			}
			return byName
		})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errNoMetrics
	}
	found := map[string]sample{}
	for _, p := range k.snapshot.Pods {
		if value, ok := all[p.Name]; ok {
			found[p.Name] = value
		}
	}
	if len(found) == 0 && selector == "" {
		return nil, errNoMetrics
	}
	return found, nil
}

// ofObject returns the value of a custom metric of one object, or of the namespace itself (HPA-26d).
func (k *reads) ofObject(ctx context.Context, m *autoscalingv2.ObjectMetricSource) (int64, error) {
	version, err := k.customVersion(ctx)
	if err != nil {
		return 0, err
	}
	metricSelector, err := selectorOf(m.Metric.Selector)
	if err != nil {
		return 0, err
	}
	group, err := schema.ParseGroupVersion(m.DescribedObject.APIVersion)
	if err != nil {
		return 0, err
	}
	path := "/apis/" + version + "/namespaces/" + k.namespace()
	resource := "metrics"
	if kind := group.WithKind(m.DescribedObject.Kind); kind.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		path += "/metrics/" + m.Metric.Name
	} else {
		mapping, err := k.mapper.Mapping(ctx, kind)
		if meta.IsNoMatchError(err) {
			err = &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
		}
		if err != nil {
			return 0, fmt.Errorf("unable to map kind %s to resource: %w", kind.GroupKind(), err)
		}
		resource = mapping.GroupResource().String()
		path += "/" + resource + "/" + m.DescribedObject.Name + "/" + m.Metric.Name
	}
	values, err := ask(ctx, k, custommetrics.GroupName, path, selecting("", metricSelector),
		resource+".custom.metrics.k8s.io",
		func(l *custommetrics.MetricValueList) []custommetrics.MetricValue { return l.Items })
	switch {
	case err != nil:
		return 0, err
	case len(values) == 0:
		return 0, errNoMetrics
	case len(values) > 1:
		return 0,
			fmt.Errorf("the custom metrics API server returned %d results when we asked for exactly one", len(values))
	}
	return milli(values[0].Value), nil
}

// external returns the sum of all values of an external metric (HPA-26e).
func (k *reads) external(ctx context.Context, m autoscalingv2.MetricIdentifier) (sum int64, err error) {
	selector, err := selectorOf(m.Selector)
	if err != nil {
		return 0, err
	}
	path := "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + k.namespace() + "/" + m.Name
	values, err := ask(ctx, k, externalmetrics.GroupName, path, selecting(selector, ""),
		m.Name+".external.metrics.k8s.io",
		func(l *externalmetrics.ExternalMetricValueList) []externalmetrics.ExternalMetricValue { return l.Items })
	if err != nil {
		return 0, err
	}
	if len(values) == 0 {
		return 0, errNoMetrics
	}
	for i := range values {
		sum = saturated(sum, milli(values[i].Value))
	}
	return sum, nil
}

// customVersion returns the version of the custom metrics API: the one that the server prefers, if it is known, else
// the first known one.
func (k *reads) customVersion(ctx context.Context) (string, error) {
	known := []string{"custom.metrics.k8s.io/v1beta2", "custom.metrics.k8s.io/v1beta1"}
	group, err := ask(ctx, k, custommetrics.GroupName, "/apis/custom.metrics.k8s.io", nil, "",
		func(g *metav1.APIGroup) *metav1.APIGroup { return g })
	if apierrors.IsNotFound(err) {
		return "", errors.New("no custom metrics API (custom.metrics.k8s.io) registered")
	}
	if err != nil {
		return "", err
	}
	for _, v := range slices.Insert(slices.Clone(group.Versions), 0, group.PreferredVersion) {
		if slices.Contains(known, v.GroupVersion) {
			return v.GroupVersion, nil
		}
	}
	return "", errors.New("no known available metric versions found")
}

// atOnce reports whether an autoscaler is not evaluated because its period is over: it is new, its spec has changed, or
// its target has changed under it.
func (k *caches) atOnce(r request) bool {
	return r.Memory == nil || r.Now.Before(r.Memory.Due.Add(-k.schedule.early()))
}

// ask returns what became of the answer to a question that other autoscalers may have asked in the same period. What
// is shared must not be changed.
func ask[L, T any](ctx context.Context, k *reads, group, path string, query url.Values, resource string,
	use func(*L) T) (found T, err error) {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if wrong := content.IsPathSegmentName(part); len(wrong) > 0 || part == "" { // no server accepts such a name
			return found, fmt.Errorf("%q in %s is no name: %s", part, path, strings.Join(wrong, ", "))
		}
	}
	q := question{path, query.Encode(), reflect.TypeFor[T]()}
	if k.atOnce(k.request) {
		k.answers.forget(q, k.request.Now.Add(-promptAge))
	}
	value, err := k.answers.get(ctx, k.request.Now, group, k.namespace(), q, func(ctx context.Context) (any, error) {
		data, err := k.request.Reader.GetRaw(ctx, path, query)
		if err != nil {
			return nil, statusError(err, resource)
		}
		list := new(L)
		if err := json.Unmarshal(data, list); err != nil {
			return nil, fmt.Errorf("the answer cannot be read: %w", err)
		}
		return use(list), nil
	})
	if err != nil {
		return found, err
	}
	return value.(T), nil
}

// statusError returns an error that says what was asked for, where the server has not said that.
func statusError(err error, resource string) error {
	var status apierrors.APIStatus
	if resource == "" || !errors.As(err, &status) || strings.Contains(err.Error(), "(get ") {
		return err
	}
	if generic := status.Status().Details; generic == nil || generic.Kind != "" {
		return err
	}
	return fmt.Errorf("%w (get %s)", err, resource)
}

// selecting returns the query of a list.
func selecting(pods, metric string) url.Values {
	v := url.Values{}
	if pods != "" {
		v.Set("labelSelector", pods)
	}
	if metric != "" {
		v.Set("metricLabelSelector", metric)
	}
	return v
}

// selectorOf returns the selector of a metric as it is asked for.
func selectorOf(s *metav1.LabelSelector) (string, error) {
	if s == nil {
		return "", nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

// namespace is that of the autoscaler.
func (k *reads) namespace() string { return k.snapshot.Autoscaler.Namespace }

// milli returns a quantity in thousandths, or the nearest number that there is (HPA-38).
func milli(q resource.Quantity) int64 {
	const most = math.MaxInt64 / 1000
	switch {
	case q.CmpInt64(most) > 0:
		return math.MaxInt64
	case q.CmpInt64(-most) < 0:
		return math.MinInt64
	}
	return q.MilliValue()
}

// saturated adds numbers without overflow.
func saturated(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
