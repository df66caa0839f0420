package integration

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// metric is what MH-20..37 and the dashboards say of a metric: its type, its labels and some of its series.
type metric struct {
	fact, name, kind, labels string
	series                   string // "label=value ..." of some that must be there; separated by ";"
	buckets                  string // of a histogram, without +Inf; empty if nothing is said
}

const (
	queues      = "name=deployment;name=replicaset;name=replicationmanager;name=endpoint;name=orphaned_pods_nodes"
	everyone    = "controller=deployment-controller;controller=replicaset-controller;controller=replicationcontroller-controller;controller=endpoints-controller;controller=pod-garbage-collector-controller"
	cached      = "resource=pods;resource=nodes;resource=services;resource=endpoints;resource=deployments.apps;resource=replicasets.apps;resource=replicationcontrollers"
	queueTimes  = "1e-08 1e-07 1e-06 9.999999999999999e-06 9.999999999999999e-05 0.001 0.01 0.1 1 10"
	clientTimes = "0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60"
	clientSizes = "64 256 512 1024 4096 16384 65536 262144 1.048576e+06 4.194304e+06 1.6777216e+07"
)

// scraped lists every metric that applies, on a leader that has worked.
var scraped = []metric{
	{"MH-20", "workqueue_adds_total", "COUNTER", "name", queues, ""},
	{"MH-20", "workqueue_retries_total", "COUNTER", "name", queues, ""},
	{"MH-21", "workqueue_depth", "GAUGE", "name", queues, ""},
	{"MH-21", "workqueue_unfinished_work_seconds", "GAUGE", "name", queues, ""},
	{"MH-21", "workqueue_longest_running_processor_seconds", "GAUGE", "name", queues, ""},
	{"MH-22", "workqueue_queue_duration_seconds", "HISTOGRAM", "name", queues, queueTimes},
	{"MH-22", "workqueue_work_duration_seconds", "HISTOGRAM", "name", queues, queueTimes},
	{"MH-24", "rest_client_requests_total", "COUNTER", "code host method", "code=201 method=POST", ""},
	{"MH-25", "rest_client_request_duration_seconds", "HISTOGRAM", "host verb", "verb=POST", clientTimes},
	{"MH-25", "rest_client_rate_limiter_duration_seconds", "HISTOGRAM", "host verb", "verb=POST", clientTimes},
	{"MH-26", "rest_client_request_size_bytes", "HISTOGRAM", "host verb", "verb=POST", clientSizes},
	{"MH-26", "rest_client_response_size_bytes", "HISTOGRAM", "host verb", "verb=POST", clientSizes},
	{"MH-27", "rest_client_exec_plugin_ttl_seconds", "GAUGE", "", "", ""},
	{"MH-27", "rest_client_transport_cache_entries", "GAUGE", "", "", ""},
	{"MH-27", "rest_client_transport_create_calls_total", "COUNTER", "result", "", ""},
	{"MH-28, LE-23", "leader_election_master_status", "GAUGE", "name", "name=kube-controller-manager", ""},
	{"MH-29", "replicaset_controller_sorting_deletion_age_ratio", "HISTOGRAM", "", "", "0.25 0.5 1 2 4 8"},
	{"MH-29", "replicaset_controller_stale_sync_skips_total", "COUNTER", "group resource",
		"group= resource=pods;group=apps resource=replicasets", ""},
	{"MH-31, PGC-23", "pod_gc_collector_force_delete_pods_total", "COUNTER", "namespace reason", "reason=terminated", ""},
	{"MH-32", "kubernetes_build_info", "GAUGE", "build_date compiler git_commit git_tree_state git_version go_version major minor platform",
		"", ""},
	{"MH-33", "version_info", "GAUGE", "binary component emulation min_compat", "component=kube", ""},
	{"MH-33", "kubernetes_feature_enabled", "GAUGE", "name stage", "name=PodDeletionCost stage=BETA", ""},
	{"MH-34", "go_goroutines", "GAUGE", "", "", ""},
	{"MH-34", "go_info", "GAUGE", "version", "", ""},
	{"MH-34", "go_gc_duration_seconds", "SUMMARY", "", "", ""},
	{"MH-34", "go_memstats_alloc_bytes", "GAUGE", "", "", ""},
	{"MH-34", "process_cpu_seconds_total", "COUNTER", "", "", ""},
	{"MH-34", "process_resident_memory_bytes", "GAUGE", "", "", ""},
	{"MH-34", "process_virtual_memory_bytes", "GAUGE", "", "", ""},
	{"MH-34", "process_open_fds", "GAUGE", "", "", ""},
	{"MH-34", "process_max_fds", "GAUGE", "", "", ""},
	{"MH-34", "process_start_time_seconds", "GAUGE", "", "", ""},
	{"MH-35", "informer_store_resource_version", "GAUGE", "group name resource version",
		"group=apps name=kube-controller-manager resource=replicasets version=v1", ""},
	{"MH-35", "informer_queued_items", "GAUGE", "group name resource version",
		"group=apps name=kube-controller-manager resource=replicasets version=v1", ""},
	{"MH-35", "informer_processing_latency_seconds", "HISTOGRAM", "group name resource version", "resource=pods", ""},
	{"MH-37", "running_managed_controllers", "GAUGE", "manager name", "manager=kube-controller-manager name=deployment;" +
		"manager=kube-controller-manager name=taint-eviction-controller", ""},
	{"NL-60", "node_collector_evictions_total", "COUNTER", "zone", "zone=", ""},
	{"NL-61", "node_collector_zone_health", "GAUGE", "zone", "zone=", ""},
	{"NL-61", "node_collector_zone_size", "GAUGE", "zone", "zone=", ""},
	{"NL-61", "node_collector_unhealthy_nodes_in_zone", "GAUGE", "zone", "zone=", ""},
	{"AD-54", "attach_detach_controller_attachdetach_controller_forced_detaches", "COUNTER", "reason",
		"reason=timeout;reason=out-of-service", ""},
	{"TE-33", "taint_eviction_controller_pod_deletions_total", "COUNTER", "", "", ""},
	{"TE-34", "taint_eviction_controller_pod_deletion_duration_seconds", "HISTOGRAM", "", "", ""},
	{"ST-26", "ephemeral_volume_controller_create_total", "COUNTER", "", "", ""},
	{"ST-26", "ephemeral_volume_controller_create_failures_total", "COUNTER", "", "", ""},
	{"IPAM-52", "node_ipam_controller_cidrset_cidrs_allocations_total", "COUNTER", "clusterCIDR",
		"clusterCIDR=10.0.0.0/8;clusterCIDR=fd00:64::/48", ""},
	{"IPAM-52", "node_ipam_controller_cidrset_cidrs_releases_total", "COUNTER", "clusterCIDR",
		"clusterCIDR=10.0.0.0/8;clusterCIDR=fd00:64::/48", ""},
	{"IPAM-53", "node_ipam_controller_cirdset_max_cidrs", "GAUGE", "clusterCIDR", "clusterCIDR=10.0.0.0/8;clusterCIDR=fd00:64::/48", ""},
	{"IPAM-54", "node_ipam_controller_cidrset_usage_cidrs", "GAUGE", "clusterCIDR", "clusterCIDR=10.0.0.0/8;clusterCIDR=fd00:64::/48", ""},
	{"IPAM-76", "node_ipam_controller_nodes_waiting", "GAUGE", "", "", ""},
	{"IPAM-76", "node_ipam_controller_nodes_with_wrong_ranges", "GAUGE", "", "", ""},
	{"PV-61", "pv_collector_total_pv_count", "GAUGE", "plugin_name volume_mode", "", ""},
	{"PV-61", "pv_collector_bound_pv_count", "GAUGE", "storage_class", "", ""},
	{"PV-61", "pv_collector_unbound_pv_count", "GAUGE", "storage_class", "", ""},
	{"PV-61", "pv_collector_bound_pvc_count", "GAUGE", "namespace storage_class volume_attributes_class", "", ""},
	{"PV-61", "pv_collector_unbound_pvc_count", "GAUGE", "namespace storage_class volume_attributes_class", "", ""},
	{"PV-62", "volume_operation_total_seconds", "HISTOGRAM", "operation_name plugin_name", "",
		"0.1 0.25 0.5 1 2.5 5 10 15 25 50 120 300 600"},
	{"PV-62", "volume_operation_errors_total", "COUNTER", "operation_name plugin_name", "", ""},
	{"PV-62", "volume_operation_total_errors", "COUNTER", "operation_name plugin_name", "", ""},
	{"PV-63", "retroactive_storageclass_total", "COUNTER", "", "", ""},
	{"PV-63", "retroactive_storageclass_errors_total", "COUNTER", "", "", ""},
	{"PV-92", "pv_binder_oldest_request_seconds", "GAUGE", "driver", "", ""},
	{"PV-37", "pv_binder_released_volumes_total", "COUNTER", "", "", ""},
	{"runtime", "controller_manager_reconcile_duration_seconds", "HISTOGRAM", "controller", everyone, ""},
	{"runtime", "controller_manager_reconciles_total", "COUNTER", "controller result",
		"controller=deployment-controller result=wrote;controller=endpoints-controller result=unchanged;controller=replicaset-controller " +
			"result=panic", ""},
	{"runtime", "controller_manager_reconcile_retries_total", "COUNTER", "controller", everyone, ""},
	{"runtime", "controller_manager_writes_total", "COUNTER", "code controller resource verb",
		"code=201 controller=replicaset-controller resource=pods verb=create;code=200 controller=deployment-controller " +
			"resource=deployments verb=update;" +
			"code=200 controller=pod-garbage-collector-controller resource=pods verb=delete", ""},
	{"runtime", "controller_manager_cache_age_seconds", "GAUGE", "resource", cached, ""},
	{"runtime", "controller_manager_cache_objects", "GAUGE", "resource", cached, ""},
	{"runtime", "controller_manager_keys_failing", "GAUGE", "controller", everyone, ""},
	{"runtime", "controller_manager_brake_held", "GAUGE", "controller", everyone, ""},
	{"runtime", "controller_manager_brake_released", "GAUGE", "controller", everyone, ""},
	{"runtime", "controller_manager_writes_refused", "GAUGE", "controller", everyone, ""},
	{"REG-101", "controller_manager_controller_off", "GAUGE", "controller reason", "controller=evictionrequest-controller", ""},
	{"runtime", "controller_manager_reports_held", "GAUGE", "controller", everyone, ""},
	{"runtime", "controller_manager_write_slots_used", "GAUGE", "controller", everyone, ""},
	{"runtime", "controller_manager_queue_wait_seconds", "GAUGE", "controller", everyone, ""},
}

// served is a manager's HTTPS port.
type served struct {
	*testing.T
	url    string
	client http.Client
}

// serve runs the manager with a port on which everybody may look at health and metrics.
func serve(t *testing.T, c *cluster.Cluster, args ...string) *served {
	t.Helper()
	port := fmt.Sprint(freePort(t))
	c.Manager(t, append(args, "--bind-address=127.0.0.1", "--secure-port="+port, openPaths)...)
	return ask(t, port)
}

// askShared asks the manager that tests share.
func askShared(t *testing.T) *served { return ask(t, fmt.Sprint(shared.port)) }

func ask(t *testing.T, port string) *served {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // its certificate is its own
	t.Cleanup(transport.CloseIdleConnections)
	return &served{t, "https://127.0.0.1:" + port, http.Client{Transport: transport}}
}

func (s *served) get(path string) (string, error) {
	resp, err := s.client.Get(s.url + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return string(text), err
}

func (s *served) scrape(path string) map[string]*dto.MetricFamily {
	s.Helper()
	text, err := s.get(path)
	if err != nil {
		s.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		s.Fatal(err)
	}
	return families
}

func TestMetricsOfALeader(t *testing.T) {
	c := cluster.Start(t)
	b := &bench{t, c, c.Namespace(t)}
	for i := range 3 {
		p := pod(fmt.Sprintf("failed-%d", i))
		p.Annotations = map[string]string{cluster.Fail: "true"}
		if _, err := c.Client.CoreV1().Pods(b.ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.wait("they have failed before the first cycle of podgc", func() error {
		if left := b.pods(); len(left) > 0 {
			return fmt.Errorf("%d have not", len(left))
		}
		return nil
	})
	// MH-25: a limiter
	s := serve(t, c, "--leader-elect=true", "--terminated-pod-gc-threshold=1", "--kube-api-qps=50", "--kube-api-burst=100")
	cluster.Eventually(t, patience, "it is ready", func() error { _, err := s.get("/readyz"); return err })
	cluster.Eventually(t, patience, "MH-23: the queues are there", func() error {
		if n := len(s.scrape("/metrics")["workqueue_depth"].GetMetric()); n < 4 {
			return fmt.Errorf("%d queues", n)
		}
		return nil
	})
	t.Run("the dashboard and the alerts name what there is", func(t *testing.T) { s.hasAllThatIsNamed(t) })
	b.workload("web")
	b.volumesForMetrics()
	b.wait("finished pods are collected", func() error {
		if s.scrape("/metrics")["pod_gc_collector_force_delete_pods_total"] == nil {
			return fmt.Errorf("none was")
		}
		return nil
	})
	families := s.scrape("/metrics")
	for _, m := range scraped {
		if err := m.check(families[m.name]); err != nil {
			t.Errorf("%s, %s: %v", m.fact, m.name, err)
		}
	}
	skips := metric{"runtime", "controller_manager_stale_sync_skips_total", "COUNTER", "controller group resource", "", ""}
	if f := families[skips.name]; f != nil && skips.check(f) != nil { // the caches may always have been quick enough
		t.Errorf("%s: %v", skips.name, skips.check(f))
	}
	if _, err := s.get("/healthz"); err != nil {
		t.Error(err)
	}
	slis := s.scrape("/metrics/slis")
	if names := slices.Sorted(maps.Keys(slis)); !slices.Equal(names,
		[]string{"kubernetes_healthcheck", "kubernetes_healthchecks_total", "process_start_time_seconds"}) {
		t.Errorf("MH-9: %v", names)
	}
	for _, m := range []metric{
		{"MH-30", "kubernetes_healthcheck", "GAUGE", "name type",
			"name=leaderElection type=healthz;name=deployment-controller type=healthz", ""},
		{"MH-30", "kubernetes_healthchecks_total", "COUNTER", "name status type", "name=leaderElection status=success type=healthz", ""},
	} {
		if err := m.check(slis[m.name]); err != nil {
			t.Errorf("%s, %s: %v", m.fact, m.name, err)
		}
	}
}

// workload rolls out a Deployment behind a Service and scales it down again.
func (b *bench) workload(name string) {
	b.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	service.Spec.Selector = map[string]string{"app": name}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	if _, err := b.Client.CoreV1().Services(b.ns).Create(b.Context(), service, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.create(deployment(name, 3))
	b.waitComplete(name)
	b.patch(name, `{"spec":{"replicas":1}}`)
	b.waitComplete(name)
}

// check says what is wrong with a metric.
func (m metric) check(f *dto.MetricFamily) error {
	if f == nil {
		return fmt.Errorf("it is not served")
	}
	if got := f.GetType().String(); got != m.kind {
		return fmt.Errorf("it is a %s", got)
	}
	var found []map[string]string
	for _, series := range f.GetMetric() {
		labels := labelsOf(series)
		found = append(found, labels)
		if names := strings.Join(slices.Sorted(maps.Keys(labels)), " "); names != m.labels {
			return fmt.Errorf("labels are %q, want %q", names, m.labels)
		}
		if m.buckets != "" && bucketsOf(series) != m.buckets {
			return fmt.Errorf("buckets are %s, want %s", bucketsOf(series), m.buckets)
		}
	}
	for want := range strings.SplitSeq(m.series, ";") {
		if !slices.ContainsFunc(found, func(labels map[string]string) bool { return matches(labels, want) }) {
			return fmt.Errorf("no series with %s in %v", want, found)
		}
	}
	return nil
}

func matches(labels map[string]string, want string) bool {
	for pair := range strings.FieldsSeq(want) {
		name, value, _ := strings.Cut(pair, "=")
		if got, ok := labels[name]; !ok || got != value {
			return false
		}
	}
	return true
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

func bucketsOf(m *dto.Metric) string {
	var all []string
	for _, b := range m.GetHistogram().GetBucket() {
		if bound := fmt.Sprint(b.GetUpperBound()); bound != "+Inf" {
			all = append(all, bound)
		}
	}
	return strings.Join(all, " ")
}

// byFirstUse are the metrics whose series appear one by one, when something happens for the first time, and why there are never many: what
// their labels may say is known.
var byFirstUse = map[string]string{
	"controller_manager_writes_total":              "controllers, resources, verbs and codes",
	"controller_manager_stale_sync_skips_total":    "controllers and the kinds in caches",
	"replicaset_controller_stale_sync_skips_total": "the kinds in caches",
	"rest_client_requests_total":                   "codes, methods and one host",
	"volume_operation_total_seconds":               "the drivers of volumes, and two operations",
	"pv_collector_bound_pv_count":                  "the classes of volumes, which other tests have (PV-61)",
	"pv_collector_bound_pvc_count":                 "the same, and namespaces with claims, of which there are none here",
	"pv_collector_unbound_pv_count":                "the classes of volumes, which other tests have",
	"pv_collector_unbound_pvc_count":               "the same, and namespaces with claims, of which there are none here",
	"pod_gc_collector_force_delete_pods_total":     "the contract has the namespace as a label (MH-31), and no pod is deleted here",
}

// TestMetricsDoNotGrowWithTheCluster: more namespaces and objects add no series.
func TestMetricsDoNotGrowWithTheCluster(t *testing.T) {
	c := cluster.Start(t)
	s := serve(t, c)
	var spaces []string
	work := func(round string) {
		t.Run(round, func(t *testing.T) {
			for range 4 {
				b := &bench{t, c, c.Namespace(t)}
				spaces = append(spaces, b.ns)
				t.Run(b.ns, func(t *testing.T) {
					t.Parallel()
					(&bench{t, c, b.ns}).workload("grows-" + b.ns)
				})
			}
		})
	}
	work("first")
	before := seriesOf(s.scrape("/metrics"))
	work("second")
	after := seriesOf(s.scrape("/metrics"))
	for series, name := range after {
		if slices.ContainsFunc(append(spaces, "grows-"), func(name string) bool { return strings.Contains(series, name) }) {
			t.Errorf("%s has the name of an object", series)
		}
		if before[series] == "" && byFirstUse[name] == "" {
			t.Errorf("%s was added", series)
		}
	}
	if len(after) < 500 {
		t.Errorf("there are only %d series", len(after))
	}
}

// seriesOf returns all series, with the names of their metrics.
func seriesOf(families map[string]*dto.MetricFamily) map[string]string {
	all := map[string]string{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			all[fmt.Sprint(name, labelsOf(m))] = name
		}
	}
	return all
}
