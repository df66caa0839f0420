package metrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clientmetrics "k8s.io/client-go/tools/metrics"

	"github.com/standalone-kcm/controller-manager/internal/health"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// scrape returns the value of every series that a handler serves, as `name{label="value",...}`. Of a histogram that is its
// count.
func scrape(t *testing.T, h http.Handler) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(labels)
			all[name+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				m.GetUntyped().GetValue() + float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
		}
	}
	return all
}

// emptyServer is an API server without objects, on which nothing happens.
func emptyServer(t *testing.T) *rest.Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := r.URL.Query()
		switch {
		case query.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case query.Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/healthz":
		default:
			kinds := map[string]string{"deployments": "Deployment", "replicasets": "ReplicaSet",
				"replicationcontrollers": "ReplicationController", "pods": "Pod", "services": "Service", "endpoints": "Endpoints",
				"nodes":          "Node",
				"endpointslices": "EndpointSlice", "namespaces": "Namespace", "serviceaccounts": "ServiceAccount", "secrets": "Secret",
				"configmaps":             "ConfigMap",
				"persistentvolumeclaims": "PersistentVolumeClaim", "persistentvolumes": "PersistentVolume",
				"resourcequotas": "ResourceQuota", "jobs": "Job", "cronjobs": "CronJob",
				"daemonsets": "DaemonSet", "statefulsets": "StatefulSet", "controllerrevisions": "ControllerRevision",
				"poddisruptionbudgets":       "PodDisruptionBudget",
				"certificatesigningrequests": "CertificateSigningRequest", "clusterroles": "ClusterRole",
				"horizontalpodautoscalers": "HorizontalPodAutoscaler", "leases": "Lease",
				"volumeattributesclasses": "VolumeAttributesClass"}
			group := strings.TrimPrefix(strings.TrimPrefix(path.Dir(r.URL.Path), "/apis/"), "/api/")
			fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, kinds[path.Base(r.URL.Path)]+"List",
				group)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return &rest.Config{Host: s.URL}
}

// run runs all controllers until the returned function is called.
func run(t *testing.T, measured *Metrics) (m *manager.Manager, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m, err := manager.New(emptyServer(t), manager.Options{
		Component: "kube-controller-manager", Controllers: controllers.Registry(), Hooks: measured.Hooks,
		RegisterMetrics: measured.Register,
	})
	if err != nil {
		t.Fatal(err)
	}
	unfollow := measured.Follow(m)
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	return m, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		unfollow()
	}
}

// waitFor waits until a series has the value.
func waitFor(t *testing.T, series string, value float64) map[string]float64 {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		all := scrape(t, Handler())
		if got, ok := all[series]; ok && got == value {
			return all
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %v, want %v", series, all[series], value)
		}
	}
}

func TestTwoManagersInOneProcess(t *testing.T) {
	const running = `running_managed_controllers{manager="kube-controller-manager",name="replicaset"}`
	_, stop1 := run(t, New(version.Info{GitVersion: "v1.37.2"}))
	waitFor(t, running, 1)
	_, stop2 := run(t, New(version.Info{GitVersion: "v1.37.2"}))
	all := waitFor(t, running, 2)
	for _, series := range []string{
		`controller_manager_keys_failing{controller="deployment-controller"}`,
		`controller_manager_writes_refused{controller="deployment-controller"}`,
		`controller_manager_reports_held{controller="deployment-controller"}`,
		`controller_manager_write_slots_used{controller="pod-garbage-collector-controller"}`,
		`controller_manager_queue_wait_seconds{controller="garbage-collector-controller"}`,
		`controller_manager_cache_objects{resource="endpoints"}`,
		`controller_manager_cache_age_seconds{resource="nodes"}`,
		`workqueue_depth{name="replicationmanager"}`, // RC-1, RC-30
		// Those of the controllers' own, before they do anything (RS-9, MH-29).
		`replicaset_controller_stale_sync_skips_total{group="",resource="pods"}`,
		`replicaset_controller_stale_sync_skips_total{group="apps",resource="replicasets"}`,
		`replicaset_controller_sorting_deletion_age_ratio{}`,
	} {
		if _, ok := all[series]; !ok {
			t.Errorf("no %s", series)
		}
	}
	for series, value := range all { // MH-37: controllers without an alias have series of their own, too
		if strings.HasPrefix(series, "running_managed_controllers{") && (value > 2 || strings.Contains(series, `name=""`)) {
			t.Errorf("%s is %v", series, value)
		}
	}
	for _, queue := range []string{"deployment", "replicaset", "endpoint", "orphaned_pods_nodes"} {
		t.Run("MH-23 the queue "+queue+" is there before it has worked", func(t *testing.T) {
			for _, name := range []string{"depth", "adds_total", "retries_total", "work_duration_seconds", "unfinished_work_seconds"} {
				if _, ok := all["workqueue_"+name+`{name="`+queue+`"}`]; !ok {
					t.Errorf("%s is not there", name)
				}
			}
			waitFor(t, `workqueue_depth{name="`+queue+`"}`, 0) // some have a key from the start on
		})
	}
	stop1()
	waitFor(t, running, 1)
	stop2()
	if _, ok := scrape(t, Handler())[running]; ok {
		t.Error("a manager that has ended is still shown")
	}
}

// A controller's series are there before it does anything.
func TestHooks(t *testing.T) {
	m := New(version.Info{})
	h := m.Hooks("replicaset-controller")
	other := m.Hooks("deployment-controller")
	before := scrape(t, Handler())
	for _, series := range []string{
		`controller_manager_reconciles_total{controller="replicaset-controller",result="wrote"}`,
		`controller_manager_reconciles_total{controller="replicaset-controller",result="unchanged"}`,
		`controller_manager_reconciles_total{controller="replicaset-controller",result="waiting"}`,
		`controller_manager_reconciles_total{controller="replicaset-controller",result="error"}`,
		`controller_manager_reconciles_total{controller="replicaset-controller",result="panic"}`,
		`controller_manager_reconcile_retries_total{controller="replicaset-controller"}`,
		`controller_manager_reconcile_duration_seconds{controller="replicaset-controller"}`,
	} {
		if _, ok := before[series]; !ok {
			t.Errorf("no %s", series)
		}
	}
	pods := schema.GroupResource{Resource: "pods"}
	h.Reconciled(reconcile.Wrote, time.Second)
	h.Retry()
	h.Write("create", "pods", "201")
	h.Stale(pods)
	other.Stale(pods)
	after := scrape(t, Handler())
	for _, series := range []string{
		`controller_manager_reconciles_total{controller="replicaset-controller",result="wrote"}`,
		`controller_manager_reconcile_duration_seconds{controller="replicaset-controller"}`,
		`controller_manager_reconcile_retries_total{controller="replicaset-controller"}`,
		`controller_manager_writes_total{code="201",controller="replicaset-controller",resource="pods",verb="create"}`,
		`controller_manager_stale_sync_skips_total{controller="replicaset-controller",group="",resource="pods"}`,
		`controller_manager_stale_sync_skips_total{controller="deployment-controller",group="",resource="pods"}`,
	} {
		if got := after[series] - before[series]; got != 1 {
			t.Errorf("%s grew by %v", series, got)
		}
	}
}

// TestMEND36Scrape: how long names take to be resolved is shown, and no cache shows a version before it has one.
func TestMEND36Scrape(t *testing.T) {
	New(version.Info{})
	clientmetrics.ResolverLatency.Observe(t.Context(), "api.example.com", 2*time.Second)
	name, err := cache.NewInformerName("test-of-scrapes")
	if err != nil {
		t.Fatal(err)
	}
	endpoints := corev1.SchemeGroupVersion.WithResource("endpoints")
	store := cache.NewStore(cache.MetaNamespaceKeyFunc, cache.WithStoreMetrics(name.WithResource(endpoints), nil))
	const version = `informer_store_resource_version{group="",name="test-of-scrapes",resource="endpoints",version="v1"}`
	all := scrape(t, Handler())
	if all[`rest_client_dns_resolution_duration_seconds{host="api.example.com"}`] != 1 {
		t.Error("the time that a name took is not shown")
	}
	if value, shown := all[version]; shown {
		t.Errorf("a cache that has read nothing has the version %v", value)
	}
	if err := store.Replace(nil, "7"); err != nil {
		t.Fatal(err)
	}
	if got := scrape(t, Handler())[version]; got != 7 {
		t.Errorf("the version of a cache is %v", got)
	}
}

func TestFormats(t *testing.T) { // MH-8
	for accept, want := range map[string]string{
		"":                             "text/plain; version=0.0.4",
		"text/plain":                   "text/plain; version=0.0.4",
		"application/openmetrics-text": "application/openmetrics-text; version=",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s", accept, got)
		}
	}
}

func TestSLIs(t *testing.T) { // MH-9, MH-30
	h := SLIHandler()
	checks := func() []health.Check { return []health.Check{{Name: "a", Err: func() error { return nil }}} }
	health.Handler("healthz", checks).ServeHTTP(httptest.NewRecorder(),
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
	var names []string
	for series := range scrape(t, h) {
		names = append(names, series)
	}
	slices.Sort(names)
	if want := []string{
		`kubernetes_healthchecks_total{name="a",status="success",type="healthz"}`,
		`kubernetes_healthcheck{name="a",type="healthz"}`,
		`process_start_time_seconds{}`,
	}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	for series := range scrape(t, Handler()) {
		if strings.HasPrefix(series, "kubernetes_healthcheck") {
			t.Errorf("%s belongs on /metrics/slis only", series)
		}
	}
}
