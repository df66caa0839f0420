package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

// listing has the caches filled by lists, as before a server that does not stream them (CLI-72).
const listing = "--feature-gates=WatchListClient=false"

// TestEachRightIsUsedAndNoOther brings the manager to do everything that it can do, under exactly the roles of
// deploy/kustomize, and then compares the API server's audit log with what the code declares (RB-12): a request that is
// not declared fails the test, and so does a declared right without a request. So each role is as small as it can be.
func TestEachRightIsUsedAndNoOther(t *testing.T) {
	c := cluster.Start(t)
	if c.CertKubeconfig == "" {
		t.Skip("another manager than ours has its own roles")
	}
	c.StrictLease(t)
	b := &bench{t, c, c.Namespace(t)}
	_, begin := c.Requests(t, 0)

	b.workForATakeover()
	legacy := b.legacyTokens()
	port := freePort(t)
	m := c.Manager(t, "--legacy-service-account-token-clean-up-period="+suite.LegacyTokenPeriod, "--leader-elect=true", "--leader-elect-on-loss=standby", "--leader-elect-lease-duration=4s",
		"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms", "--mirroring-max-endpoints-per-subset=1", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--authentication-kubeconfig="+c.ManagerKubeconfig, "--authorization-kubeconfig="+c.ManagerKubeconfig)
	began := time.Now()
	set := b.workOfDeployments()
	b.workOfReplicationControllers()
	b.workOfJobs()
	b.workOfDaemonSets()
	b.workOfStatefulSets()
	b.workOfEndpoints()
	b.workOfEndpointSlices()
	b.workOfServiceAccounts()
	b.workOfGarbage()
	b.workOfNamespaces()
	b.workOfCronJobs()
	b.workOfBudgets()
	legacy()
	b.scrape(port)
	cluster.Eventually(t, 2*patience, "PGC-10: the orphan is deleted", func() error {
		if p := b.pod("orphan"); p != nil && p.DeletionTimestamp == nil {
			return fmt.Errorf("it is not, after %v", time.Since(began).Round(time.Second))
		}
		return nil
	})
	b.loseTheLease(m)
	m.Stop(t)
	b.namesThatAreTaken(set)
	c.Manager(t, "--controllers=*,-endpoint", "--endpoint-cleanup-when-disabled=true", listing)
	b.wait("the Endpoints of the controller that is off are gone", func() error {
		if b.endpoints("web") != nil {
			return fmt.Errorf("they are there")
		}
		return nil
	})

	requests, _ := c.Requests(t, begin)
	b.refused(requests)
	compareRights(t, requests)
}

// workForATakeover leaves work that a former leader may have begun: keys in doubt are read live. And no lease, an account
// that is missing, nodes that are gone, Endpoints that are left over.
func (b *bench) workForATakeover() {
	b.Helper()
	ctx := b.Context()
	for _, err := range []error{
		b.Client.CoordinationV1().Leases(rbac.Home).Delete(ctx, "kube-controller-manager", metav1.DeleteOptions{}),
		b.Client.CoreV1().ServiceAccounts(rbac.Home).Delete(ctx, "pod-garbage-collector", metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			b.Fatal(err)
		}
	}
	b.create(deployment("web", 2, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](1) }))
	if _, err := b.Client.AppsV1().ReplicaSets(b.ns).Create(ctx, replicaSet("solo", 2), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.orphanOf("solo")
	if _, err := b.Client.CoreV1().ReplicationControllers(b.ns).Create(ctx, replicationController("classic", 2), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.orphanOf("classic")
	b.node("lost")
	b.bound("orphan", "lost", keptBy)
	b.Cleanup(func() { b.patchMetaAfter("orphan") })
	b.Kubectl(b.T, "delete", "node", "lost")
	for _, name := range []string{"more-1", "more-2", "more-3"} { // a cluster of fewer than five has no brake
		b.node(name)
		b.Cleanup(func() {
			if err := b.Client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				b.Error(err)
			}
		})
	}
	left := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "left", Labels: map[string]string{"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}}
	if _, err := b.Client.CoreV1().Endpoints(b.ns).Create(ctx, left, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// patchMetaAfter takes the finalizers off a pod when the test is over.
func (b *bench) patchMetaAfter(pod string) {
	_, err := b.Client.CoreV1().Pods(b.ns).Patch(context.Background(), pod, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		b.Error(err)
	}
}

func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	d := deployment(name, replicas)
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: d.Spec.Template.Labels},
		Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}}
}

func replicationController(name string, replicas int32) *corev1.ReplicationController {
	d := deployment(name, replicas)
	return &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: d.Spec.Template.Labels},
		Spec: corev1.ReplicationControllerSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Template.Labels, Template: &d.Spec.Template}}
}

// orphanOf makes a pod that a ReplicaSet or ReplicationController of that name may adopt.
func (b *bench) orphanOf(name string) {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-orphan", Labels: map[string]string{"app": name}}}
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	if _, err := b.Client.CoreV1().Pods(b.ns).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// workOfDeployments rolls out, scales, rolls back, has history deleted and a ReplicaSet adopted, with so many events that
// they are counted. It returns the ReplicaSet that a Deployment called "taken" has.
func (b *bench) workOfDeployments() *appsv1.ReplicaSet {
	b.Helper()
	b.waitComplete("web")
	for _, image := range []string{"web:2", "web:3"} {
		b.setImage("web", image)
		b.waitComplete("web")
	}
	b.wait("DEP-62: the oldest ReplicaSet is deleted", func() error {
		if n := len(b.sets()); n != 3 { // two of web, and solo
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	b.patchMeta("deployment", "web", `{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"2"}}}`)
	b.wait("DEP-50: it is rolled back", func() error {
		if image := b.get("web").Spec.Template.Spec.Containers[0].Image; image != "web:2" {
			return fmt.Errorf("the image is %s", image)
		}
		return nil
	})
	b.waitComplete("web")
	for range 2 { // the same words twice: an event that is counted
		for _, n := range []int{16, 2} {
			b.patch("web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
			b.waitComplete("web")
		}
	}
	owned := b.sets()[2] // the newest of web; solo has no revision, and comes first
	b.patchMeta("rs", owned.Name, `{"metadata":{"ownerReferences":null}}`)
	b.wait("DEP-7: the orphan is adopted", func() error {
		for _, rs := range b.sets() {
			if rs.Name == owned.Name && len(rs.OwnerReferences) == 1 {
				return nil
			}
		}
		return fmt.Errorf("%s has no owner", owned.Name)
	})

	b.create(deployment("taken", 1))
	b.waitComplete("taken")
	i := slices.IndexFunc(b.sets(), func(rs appsv1.ReplicaSet) bool { return rs.Labels["app"] == "taken" })
	set := b.sets()[i]
	b.Kubectl(b.T, "-n", b.ns, "delete", "deployment", "taken")
	b.wait("its ReplicaSet and pods are gone", func() error {
		if names := b.Kubectl(b.T, "-n", b.ns, "get", "replicaset,pod", "--selector=app=taken", "--output=name"); names != "" {
			return fmt.Errorf("left are %s", names)
		}
		return nil
	})
	return &set
}

// workOfBudgets has statuses written, a scale read live, events counted and a stale condition cleared.
func (b *bench) workOfBudgets() {
	b.Helper()
	b.pdb("none", "nothing", nil)
	b.waitBudget("none", "0 0 0 0 InsufficientPods")
	owner := b.get("web")
	for range 2 { // the same words again: an event that is counted
		b.Kubectl(b.T, "-n", b.ns, "patch", "pdb", "none", "--type=merge", "-p", `{"spec":{"selector":{"matchLabels":{"app":"web"}}}}`)
		b.waitBudget("none", fmt.Sprintf("1 %d %d %d SufficientPods", *owner.Spec.Replicas, *owner.Spec.Replicas-1, *owner.Spec.Replicas))
		b.Kubectl(b.T, "-n", b.ns, "patch", "pdb", "none", "--type=merge", "-p", `{"spec":{"selector":{"matchLabels":{"app":"nothing"}}}}`)
		b.waitBudget("none", "0 0 0 0 InsufficientPods")
	}
	b.loose("direct", "direct", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: owner.Name, UID: owner.UID})
	b.pdb("direct", "direct", nil)
	b.waitBudget("direct", fmt.Sprintf("0 1 %d %d InsufficientPods", *owner.Spec.Replicas-1, *owner.Spec.Replicas))
	document := []byte(`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	if _, err := b.Client.CoreV1().Pods(b.ns).Patch(b.Context(), "direct", types.StrategicMergePatchType, document, metav1.PatchOptions{}, "status"); err != nil {
		b.Fatal(err)
	}
	b.wait("DIS-35: the condition is False", func() error {
		if !strings.Contains(b.Kubectl(b.T, "-n", b.ns, "get", "pod", "direct", "--output=jsonpath={.status.conditions[?(@.type=='DisruptionTarget')].status}"), "False") {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}

// workOfReplicationControllers scales one up and down, with so many events that they are counted.
func (b *bench) workOfReplicationControllers() {
	b.Helper()
	for _, n := range []int32{16, 2, 16, 2} {
		document := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
		_, err := b.Client.CoreV1().ReplicationControllers(b.ns).Patch(b.Context(), "classic", types.MergePatchType, document, metav1.PatchOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.wait(fmt.Sprintf("the ReplicationController has %d pods", n), func() error {
			rc, err := b.Client.CoreV1().ReplicationControllers(b.ns).Get(b.Context(), "classic", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := rc.Status; s.ObservedGeneration < rc.Generation || s.Replicas != n || s.AvailableReplicas != n {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
}

// workOfJobs runs a Job that adopts a pod, and suspends it twice, so that its pods are deleted and the event is counted.
func (b *bench) workOfJobs() {
	b.Helper()
	b.orphanOf("sum")
	b.createJob("sum", 2, func(j *batchv1.Job) {
		labels := map[string]string{"app": "sum"}
		j.Spec.ManualSelector, j.Spec.Selector, j.Spec.Template.Labels = ptr.To(true), &metav1.LabelSelector{MatchLabels: labels}, labels
	})
	suspend := func(value string) {
		if _, err := b.Client.BatchV1().Jobs(b.ns).Patch(b.Context(), "sum", types.MergePatchType, []byte(`{"spec":{"suspend":`+value+`}}`), metav1.PatchOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for range 2 {
		suspend("false")
		b.waitJob("sum", "has its pods", func(s batchv1.JobStatus) bool { return s.Active > 0 && s.Active+s.Succeeded == 2 }) // the adopted one may end
		suspend("true")
		b.waitJob("sum", "is suspended", over(batchv1.JobSuspended))
	}
}

// workOfDaemonSets has pods and revisions of a DaemonSet adopted, created, changed and deleted.
func (b *bench) workOfDaemonSets() {
	b.Helper()
	u := b.daemonUser(2)
	u.CreateDaemonSet("agent", 1)
	u.WaitDaemonSet("agent", 2)
	b.patchDaemonSet("agent", `{"spec":{"revisionHistoryLimit":1}}`)
	// The second is a rollback, the third pushes one out of the history. With the others, so many pods are created that the events are counted.
	for _, image := range []string{"web:2", "web:1", "web:3", "web:4", "web:5"} {
		b.patchDaemonSet("agent", setDaemonImage(image))
		u.WaitDaemonSet("agent", 2)
	}
	b.wait("the history is short", func() error {
		if n := len(b.revisionsOf()); n != 2 {
			return fmt.Errorf("%d revisions", n)
		}
		return nil
	})
	b.patchMeta("pod", b.podsOf(b.daemonSet("agent"))[0].Name, `{"metadata":{"ownerReferences":null}}`)
	b.wait("the orphan is adopted", func() error {
		if n := len(b.podsOf(b.daemonSet("agent"))); n != 2 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
}

// workOfEndpointSlices has slices written, deleted and mirrored, some that quota refuses, and addresses left out, again and again.
func (b *bench) workOfEndpointSlices() {
	b.Helper()
	b.service("sliced")
	b.waitSlices("sliced", b.sliceOfWeb())
	b.Kubectl(b.T, "-n", b.ns, "patch", "service", "sliced", "--type=merge", "-p", `{"spec":{"selector":{"app":"nothing"}}}`)
	b.waitSlices("sliced", "IPv4")
	orphan := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{
		discoveryv1.LabelServiceName: "sliced", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}}}
	if _, err := b.Client.DiscoveryV1().EndpointSlices(b.ns).Create(b.Context(), orphan, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.waitSlices("sliced", "IPv4") // one of them: the other one is deleted
	b.service("hand", func(s *corev1.Service) { s.Spec.Selector = nil })
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "hand"}, Subsets: []corev1.EndpointSubset{{
		Ports: []corev1.EndpointPort{{Port: 8080}}, Addresses: []corev1.EndpointAddress{{IP: "10.9.1.1"}, {IP: "10.9.1.2"}}}}}
	if _, err := b.Client.CoreV1().Endpoints(b.ns).Create(b.Context(), e, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.waitSlices("hand", "IPv4:8080 10.9.1.1")
	for _, port := range []string{"81", "82"} {
		b.Kubectl(b.T, "-n", b.ns, "patch", "endpoints", "hand", "--type=json", "-p", `[{"op":"replace","path":"/subsets/0/ports/0/port","value":`+port+`}]`)
		b.waitSlices("hand", "IPv4:"+port+" 10.9.1.1")
	}
	b.Kubectl(b.T, "-n", b.ns, "label", "endpoints", "hand", "endpointslice.kubernetes.io/skip-mirror=true")
	b.waitSlices("hand")
	poor := &bench{b.T, b.Cluster, b.Namespace(b.T)}
	poor.quotaOf("count/endpointslices.discovery.k8s.io", 0)
	poor.service("sliced")
	for _, told := range []struct {
		at     *bench
		reason string
	}{{poor, "FailedToUpdateEndpointSlices"}, {b, "TooManyAddressesToMirror"}} {
		told.at.wait(told.reason+" is told and counted", func() error {
			list, err := b.Client.CoreV1().Events(told.at.ns).List(b.Context(), metav1.ListOptions{FieldSelector: "reason=" + told.reason})
			if err != nil {
				return err
			}
			// The name that the server makes up is in the error, so that only the events that are combined are counted.
			if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Count > 1 }) {
				return fmt.Errorf("%d events", len(list.Items))
			}
			return nil
		})
	}
}

// workOfGarbage has an owner deleted in the foreground, and an owner in another namespace told of twice.
func (b *bench) workOfGarbage() {
	b.Helper()
	home, elsewhere := newFamily(b.T, b.Cluster), newFamily(b.T, b.Cluster)
	home.make("dependent", home.make("owner"))
	home.delete("owner", metav1.DeletePropagationForeground)
	home.waitFor()
	near, far := home.make("near"), elsewhere.make("far")
	stray := home.make("stray", near, far)
	document, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": stray.OwnerReferences}})
	if err != nil {
		b.Fatal(err)
	}
	for range 2 {
		b.wait("the owner in another namespace is removed", func() error {
			if refs := home.get("stray").OwnerReferences; len(refs) != 1 {
				return fmt.Errorf("%+v", refs)
			}
			return nil
		})
		home.patch("stray", string(document))
	}
	b.wait("it is told and counted", func() error {
		list, err := b.Client.CoreV1().Events(home.ns).List(b.Context(), metav1.ListOptions{FieldSelector: "reason=OwnerRefInvalidNamespace"})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Count > 1 }) {
			return fmt.Errorf("%d events", len(list.Items))
		}
		return nil
	})
}

// workOfNamespaces has a namespace deleted in which something is held for a while.
func (b *bench) workOfNamespaces() {
	b.Helper()
	n := newTenant(b.T, b.Cluster)
	n.configMap("held", "example.com/hold")
	n.delete()
	n.waitSays(corev1.NamespaceFinalizersRemaining, "example.com/hold in 1 resource instances")
	n.release("configmaps", "held")
	n.waitGone()
}

// sliceOfWeb is how the slice of a Service for the pods of web reads.
func (b *bench) sliceOfWeb() string {
	b.Helper()
	var all []string
	for _, a := range b.endpoints("web").Subsets[0].Addresses {
		all = append(all, a.IP)
	}
	slices.Sort(all)
	return "IPv4:8080 " + strings.Join(all, " ")
}

// workOfEndpoints has Endpoints written, and some that quota refuses, again and again.
func (b *bench) workOfEndpoints() {
	b.Helper()
	b.service("web")
	b.wait("the Service has Endpoints", func() error {
		if e := b.endpoints("web"); e == nil || len(e.Subsets) != 1 || len(e.Subsets[0].Addresses) != 2 {
			return fmt.Errorf("%+v", e)
		}
		return nil
	})
	b.patch("web", `{"spec":{"replicas":3}}`)
	b.wait("they are updated", func() error {
		if e := b.endpoints("web"); len(e.Subsets[0].Addresses) != 3 {
			return fmt.Errorf("%+v", e)
		}
		return nil
	})
	b.wait("those that were left over are gone", func() error {
		if b.endpoints("left") != nil {
			return fmt.Errorf("they are there")
		}
		return nil
	})
	poor := &bench{b.T, b.Cluster, b.Namespace(b.T)}
	poor.quotaOf("count/endpoints", 0)
	poor.service("web")
	poor.wait("the refusal is told and counted", func() error {
		list, err := b.Client.CoreV1().Events(poor.ns).List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=web"})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 || list.Items[0].Count < 2 {
			return fmt.Errorf("%d events", len(list.Items))
		}
		return nil
	})
}

// quotaOf lets the namespace have so many of a resource. No quota controller runs here, so its part is played by the test.
func (b *bench) quotaOf(name corev1.ResourceName, n int64) {
	b.Helper()
	hard := corev1.ResourceList{name: *resource.NewQuantity(n, resource.DecimalSI)}
	quota, err := b.Client.CoreV1().ResourceQuotas(b.ns).Create(b.Context(),
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{name: resource.MustParse("0")}}
	if _, err := b.Client.CoreV1().ResourceQuotas(b.ns).UpdateStatus(b.Context(), quota, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// scrape asks the manager's server for metrics, as an account that may have them, and as one that may not (MH-5, RB-11).
func (b *bench) scrape(port int) {
	b.Helper()
	accounts := b.Client.CoreV1().ServiceAccounts(b.ns)
	for _, name := range []string{"scraper", "stranger"} {
		if _, err := accounts.Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: b.ns + "-scraper"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:monitoring"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: b.ns, Name: "scraper"}}}
	if _, err := b.Client.RbacV1().ClusterRoleBindings().Create(b.Context(), binding, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := b.Client.RbacV1().ClusterRoleBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	for name, want := range map[string]int{"scraper": http.StatusOK, "stranger": http.StatusForbidden} {
		token := strings.TrimSpace(b.Kubectl(b.T, "-n", b.ns, "create", "token", name))
		b.wait(fmt.Sprintf("%s gets %d for /metrics", name, want), func() error {
			return answers(b.Context(), fmt.Sprintf("https://127.0.0.1:%d/metrics", port), token, want)
		})
	}
}

// answers says how an answer differs from what is wanted. The server's certificate is its own.
func answers(ctx context.Context, url, token string, want int) error {
	transport, err := rest.TransportFor(&rest.Config{BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		return fmt.Errorf("%s: %s, want %d", url, answer.Status, want)
	}
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// loseTheLease gives the lease to somebody who lets it expire: the manager says once more that it leads, and the event is
// counted (LE-21).
func (b *bench) loseTheLease(m *cluster.Manager) {
	b.Helper()
	const document = `{"spec":{"holderIdentity":"somebody-else_1","leaseDurationSeconds":1}}`
	_, err := b.Client.CoordinationV1().Leases(rbac.Home).Patch(b.Context(), "kube-controller-manager", types.MergePatchType, []byte(document), metav1.PatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.wait("the manager leads again", func() error {
		if n := strings.Count(m.Log(), "Successfully acquired lease"); n != 2 {
			return fmt.Errorf("it has won the lease %d times", n)
		}
		return nil
	})
	b.wait("the event is counted", func() error {
		list, err := b.Client.CoreV1().Events(rbac.Home).List(b.Context(), metav1.ListOptions{FieldSelector: "reason=LeaderElection"})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Count > 1 }) {
			return fmt.Errorf("%d events", len(list.Items))
		}
		return nil
	})
}

// namesThatAreTaken has a manager so slow that others are faster: what it is about to create is there already, and it
// looks who has the name.
func (b *bench) namesThatAreTaken(set *appsv1.ReplicaSet) {
	b.Helper()
	_, begin := b.Requests(b.T, 0)
	m := b.Manager(b.T, "--controllers=deployment,endpoint", "--kube-api-qps=1", "--kube-api-burst=1", listing,
		"--concurrent-deployment-syncs=20", "--concurrent-endpoint-syncs=20")
	b.create(deployment("first", 0))
	b.service("first")
	b.wait("the manager works", func() error {
		if b.endpoints("first") == nil || !slices.ContainsFunc(b.sets(), func(rs appsv1.ReplicaSet) bool { return rs.Labels["app"] == "first" }) {
			return fmt.Errorf("it does not yet")
		}
		return nil
	})
	b.seesWhatIsOld(begin)
	for i := range 4 {
		b.create(deployment(fmt.Sprintf("before-%d", i), 0))
		b.service(fmt.Sprintf("before-%d", i))
	}
	b.create(deployment("taken", 1))
	b.service("taken")
	copied := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: set.Name, Labels: set.Labels}, Spec: set.Spec}
	if _, err := b.Client.AppsV1().ReplicaSets(b.ns).Create(b.Context(), copied, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	taken := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}
	if _, err := b.Client.CoreV1().Endpoints(b.ns).Create(b.Context(), taken, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.wait("both names were looked at", func() error {
		want := map[string]bool{"endpoints taken": true, "replicasets " + set.Name: true}
		requests, _ := b.Requests(b.T, begin)
		for _, r := range requests {
			if r.ByManager() && r.Verb == "get" {
				delete(want, r.ObjectRef.Resource+" "+r.ObjectRef.Name)
			}
		}
		if len(want) > 0 {
			return fmt.Errorf("not %v", slices.Sorted(maps.Keys(want)))
		}
		return nil
	})
	m.Stop(b.T)
}

// seesWhatIsOld waits until the manager knows that its caches show all that was there when it began: before that it would
// read live what others may have written for a new Deployment. begin is where its requests begin in the audit log.
func (b *bench) seesWhatIsOld(begin int64) {
	b.Helper()
	b.wait("the manager knows how far the server was", func() error {
		want := map[string]bool{"deployments": true, "replicasets": true, "pods": true}
		requests, _ := b.Requests(b.T, begin)
		for _, r := range requests {
			if r.ByManager() && r.Verb == "list" && strings.HasSuffix(r.RequestURI, "limit=1") {
				delete(want, r.ObjectRef.Resource)
			}
		}
		if len(want) > 0 {
			return fmt.Errorf("not %v", slices.Sorted(maps.Keys(want)))
		}
		return nil
	})
	b.bound("second", "") // something new of each kind
	b.create(deployment("second", 0))
	b.wait("it sees what is new", func() error {
		if !slices.ContainsFunc(b.sets(), func(rs appsv1.ReplicaSet) bool { return rs.Labels["app"] == "second" }) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

// TestWithoutTheRightOnFinalizers: the two rights that no request shows are needed all the same, where the admission plugin
// OwnerReferencesPermissionEnforcement is on (RB-1c, RB-2c).
func TestWithoutTheRightOnFinalizers(t *testing.T) {
	c := cluster.Start(t)
	if c.CertKubeconfig == "" {
		t.Skip("another manager than ours has its own roles")
	}
	b := &bench{t, c, c.Namespace(t)}
	c.Manager(t, onlyWorkloads)
	b.create(deployment("web", 1))
	b.waitComplete("web")
	for _, row := range []struct{ account, resource, about string }{
		{"deployment-controller", "deployments/finalizers", "a"},
		{"replicaset-controller", "replicasets/finalizers", "b"},
	} {
		without := b.without(cluster.InstalledAccount+":"+row.account, row.resource)
		b.create(deployment(row.about, 1))
		b.wait("the refusal is told", func() error {
			all := b.Kubectl(t, "-n", b.ns, "get", "events", "--output=jsonpath={.items[*].message}")
			if !strings.Contains(all, "cannot set blockOwnerDeletion") {
				return fmt.Errorf("events: %s", all)
			}
			return nil
		})
		without()
		b.waitComplete(row.about)
		b.Kubectl(t, "-n", b.ns, "delete", "events", "--all")
	}
}

// without takes the rules about a resource from a role, and returns what gives them back.
func (b *bench) without(role, resource string) (restore func()) {
	b.Helper()
	roles := b.Client.RbacV1().ClusterRoles()
	before, err := roles.Get(b.Context(), role, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	after := before.DeepCopy()
	after.Rules = slices.DeleteFunc(after.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) })
	if len(after.Rules) == len(before.Rules) {
		b.Fatalf("%s has no rule about %s", role, resource)
	}
	if after, err = roles.Update(b.Context(), after, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	given := false
	restore = func() {
		if given {
			return
		}
		given = true
		before.ResourceVersion = after.ResourceVersion
		if _, err := roles.Update(context.Background(), before, metav1.UpdateOptions{}); err != nil {
			b.Error(err)
		}
	}
	b.Cleanup(restore)
	return restore
}
