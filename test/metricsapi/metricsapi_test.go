package metricsapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// served is a server with some pods, and without an API server before it.
func served(t *testing.T) (*Server, *httptest.Server) {
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, p := range []struct {
		namespace, name, app string
		phase                corev1.PodPhase
	}{{"one", "a", "web", corev1.PodRunning}, {"one", "b", "web", corev1.PodPending}, {"one", "c", "db", corev1.PodRunning},
		{"two", "a", "web", corev1.PodRunning}} {
		made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, Labels: map[string]string{"app": p.app}},
			Status: corev1.PodStatus{Phase: p.phase}}
		made.Spec.Containers = []corev1.Container{{Name: "main"}, {Name: "side"}}
		kept, err := slim(made)
		if err != nil {
			t.Fatal(err)
		}
		if err := pods.Add(kept); err != nil {
			t.Fatal(err)
		}
	}
	s := newServer(corelisters.NewPodLister(pods), Options{Window: 3 * time.Second})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server
}

// list is as much of any list, or of a single PodMetrics, as the test looks at.
type list struct {
	APIVersion, Kind string
	Message          string
	Items            []struct {
		Metadata        struct{ Name string }
		DescribedObject struct{ Kind, Name string }
		MetricName      string
		Metric          struct{ Name string }
		MetricLabels    map[string]string
		Value           string
		Containers      []struct {
			Name  string
			Usage map[string]string
		}
	}
}

func (l list) String() string {
	var parts []string
	for _, i := range l.Items {
		part := i.Metadata.Name + i.DescribedObject.Kind + i.DescribedObject.Name
		for _, c := range i.Containers {
			part += " " + c.Name + fmt.Sprint(c.Usage)
		}
		if i.Value != "" {
			part += fmt.Sprint(" ", i.MetricName, i.Metric.Name, "=", i.Value, i.MetricLabels)
		}
		parts = append(parts, strings.TrimSpace(part))
	}
	return fmt.Sprintf("%s %s%s%s", l.APIVersion, l.Kind, l.Message, parts)
}

func ask(t *testing.T, server *httptest.Server, path, accept string) (int, http.Header, []byte) {
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, data
}

func TestAnswers(t *testing.T) {
	s, server := served(t)
	s.Usage("one", func(p *corev1.Pod, container string, now time.Time) corev1.ResourceList {
		if container == "side" && p.Name == "c" {
			return nil
		}
		return EachContainer(corev1.ResourceCPU, Constant("150m"))(p, container, now)
	})
	verb := func(v string) Metric { return Metric{"requests", map[string]string{"verb": v}} }
	s.Object("one", "pods", AllObjects, verb("GET"), Constant("5"))
	s.Object("one", "pods", "c", verb("GET"), Constant("7"))
	s.Object("one", "services", "web", verb("GET"), Constant("1"))
	s.Object("one", "services", "web", verb("GET"), Constant("10")) // in its place
	s.Object("", "namespaces", "one", verb("GET"), Constant("11"))
	s.External("one", verb("GET"), Constant("1"))
	s.External("one", verb("PUT"), Constant("2"))
	s.Refuse(ExternalGroup, "two", http.StatusServiceUnavailable)
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"metrics.k8s.io/v1beta1", 200, "v1 APIResourceList[]"},
		{"custom.metrics.k8s.io/v1beta1", 200, "v1 APIResourceList[]"},
		{"custom.metrics.k8s.io/v1", 404, ""},
		{"apps/v1", 404, ""},
		{"metrics.k8s.io/v1beta1/namespaces/one/pods?labelSelector=app%3Dweb", 200,
			"metrics.k8s.io/v1beta1 PodMetricsList[a mainmap[cpu:150m] sidemap[cpu:150m]]"},
		{"metrics.k8s.io/v1beta1/namespaces/one/pods/c", 200, "metrics.k8s.io/v1beta1 PodMetrics[]"},
		{"metrics.k8s.io/v1beta1/namespaces/one/pods/b", 404, "v1 Statusthere are no metrics of this pod[]"},
		{"metrics.k8s.io/v1beta1/pods", 200,
			"metrics.k8s.io/v1beta1 PodMetricsList[a mainmap[cpu:150m] sidemap[cpu:150m] c mainmap[cpu:150m]]"},
		{"metrics.k8s.io/v1beta1/namespaces/two/pods", 200, "metrics.k8s.io/v1beta1 PodMetricsList[]"},
		{"metrics.k8s.io/v1beta1/namespaces/one/pods?labelSelector=%21%21", 400, ""},
		{"custom.metrics.k8s.io/v1beta2/namespaces/one/pods/*/requests?labelSelector=app", 200,
			"custom.metrics.k8s.io/v1beta2 MetricValueList[Poda requests=5map[] Podc requests=7map[]]"},
		{"custom.metrics.k8s.io/v1beta1/namespaces/one/pods/*/requests?labelSelector=app%3Ddb", 200,
			"custom.metrics.k8s.io/v1beta1 MetricValueList[Podc requests=7map[]]"},
		{"custom.metrics.k8s.io/v1beta2/namespaces/one/pods/*/requests?metricLabelSelector=verb%3DPUT", 200,
			"custom.metrics.k8s.io/v1beta2 MetricValueList[]"},
		{"custom.metrics.k8s.io/v1beta2/namespaces/one/services/web/requests?metricLabelSelector=verb%3DGET", 200,
			"custom.metrics.k8s.io/v1beta2 MetricValueList[servicesweb requests=10map[]]"},
		{"custom.metrics.k8s.io/v1beta2/namespaces/one/services/*/requests", 200,
			"custom.metrics.k8s.io/v1beta2 MetricValueList[servicesweb requests=10map[]]"},
		{"custom.metrics.k8s.io/v1beta2/namespaces/one/services/db/requests", 404,
			"v1 Statusthe metric requests of services db is not known[]"},
		{"custom.metrics.k8s.io/v1beta2/namespaces/one/metrics/requests", 200,
			"custom.metrics.k8s.io/v1beta2 MetricValueList[namespacesone requests=11map[]]"},
		{"external.metrics.k8s.io/v1beta1/namespaces/one/requests?labelSelector=verb", 200,
			"external.metrics.k8s.io/v1beta1 ExternalMetricValueList[requests=1map[verb:GET] requests=2map[verb:PUT]]"},
		{"external.metrics.k8s.io/v1beta1/namespaces/one/requests?labelSelector=verb%3DPUT", 200,
			"external.metrics.k8s.io/v1beta1 ExternalMetricValueList[requests=2map[verb:PUT]]"},
		{"external.metrics.k8s.io/v1beta1/namespaces/two/requests", 503, "v1 Statusexternal.metrics.k8s.io does not work[]"},
	} {
		code, _, data := ask(t, server, "/apis/"+c.path, runtime.ContentTypeJSON)
		var got list
		if c.want != "" {
			if err := json.Unmarshal(data, &got); err != nil {
				t.Errorf("%s: %v", c.path, err)
			}
		}
		if code != c.code || c.want != "" && got.String() != c.want {
			t.Errorf("%s: %d %s", c.path, code, got)
		}
	}
	if got := []int{s.Requests(ResourceGroup, "one"), s.Requests(ExternalGroup, "two"),
		s.AllRequests(ResourceGroup)}; fmt.Sprint(got) != "[4 1 6]" {
		t.Errorf("counted were %v", got)
	}
}

func TestClientsMayHaveProtobuf(t *testing.T) {
	s, server := served(t)
	s.Usage("", EachContainer(corev1.ResourceCPU, Constant("1")))
	_, header, data := ask(t, server, "/apis/metrics.k8s.io/v1beta1/namespaces/one/pods",
		runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON)
	object, kind, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil || header.Get("Content-Type") != runtime.ContentTypeProtobuf || kind.Kind != "PodMetricsList" {
		t.Errorf("%v %v %v %v", object, kind, header, err)
	}
}

func TestSteps(t *testing.T) {
	begin := time.Now()
	s := Steps(begin, Step{time.Second, "1"}, Step{3 * time.Second, ""}, Step{5 * time.Second, "2"})
	got := ""
	for after := range 7 {
		value, ok := s(begin.Add(time.Duration(after) * time.Second))
		got += fmt.Sprint(&value, ok, " ")
	}
	if got != "0 false 1 true 1 true 0 false 0 false 2 true 2 true " {
		t.Error(got)
	}
}
