package integration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	begin := c.AuditEnd(t)
	var o *observing
	if os.Getenv("OBSERVE") != "" { // beside all of that, with the rights to observe it: too much load for the gate
		o = b.observe()
	}
	b.workForATakeover()
	legacy := b.legacyTokens()
	customKinds(t, c)
	port := freePort(t)
	began := time.Now()
	c.Manager(t, "--controllers=podgc") // by itself, because orphans are only deleted after a while
	m := c.Manager(t, autoscalerPeriod, suite.GatesFlag, "--node-startup-grace-period=5s",
		"--controllers=*,bootstrapsigner,tokencleaner,selinux-warning-controller,-podgc",
		"--legacy-service-account-token-clean-up-period="+suite.LegacyTokenPeriod, "--leader-elect=true", "--leader-elect-on-loss=standby",
		"--leader-elect-lease-duration=4s",
		"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms", "--mirroring-max-endpoints-per-subset=1",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--authentication-kubeconfig="+c.ManagerKubeconfig, "--authorization-kubeconfig="+c.ManagerKubeconfig)
	set := b.work()
	legacy()
	b.scrape(port)
	b.loseTheLease(m)
	m.Stop(t)
	b.namesThatAreTaken(set)
	c.Manager(t, "--controllers=*,-endpoint", "--endpoint-cleanup-when-disabled=true", "--taint-eviction-respect-disruption-budgets=true",
		listing)
	b.tainted("evicted")
	b.wait("the Endpoints of the controller that is off are gone", func() error {
		if b.endpoints("web") != nil {
			return fmt.Errorf("they are there")
		}
		return nil
	})
	cluster.Eventually(t, 2*patience, "PGC-10: the orphan is deleted", func() error {
		if p := b.pod("orphan"); p != nil && p.DeletionTimestamp == nil {
			return fmt.Errorf("it is not, after %v", time.Since(began).Round(time.Second))
		}
		return nil
	})

	requests, _ := c.Requests(t, begin)
	b.refused(requests)
	compareRights(t, c, requests)
	if o != nil {
		o.onlyRead()
		o.remove()
	}
}

// work does all kinds of work at the same time. It returns the ReplicaSet that a Deployment called "taken" has.
func (b *bench) work() (set *appsv1.ReplicaSet) {
	b.Helper()
	here := map[string]func(*bench){ // with what there was before the manager
		"workloads of a former leader": func(b *bench) {
			set = b.workOfDeployments()
			b.workOfEndpoints()
			b.workOfEndpointSlices()
			b.workOfBudgets()
		},
		"ReplicationControllers": (*bench).workOfReplicationControllers,
	}
	elsewhere := map[string]func(*bench){
		"Jobs": (*bench).workOfJobs, "DaemonSets": (*bench).workOfDaemonSets, "StatefulSets": (*bench).workOfStatefulSets,
		"service accounts": (*bench).workOfServiceAccounts, "nodes": (*bench).workOfNodes, "garbage": (*bench).workOfGarbage,
		"attachments": (*bench).workOfAttachments, "namespaces": (*bench).workOfNamespaces,
		"CronJobs": (*bench).workOfCronJobs, "certificates": (*bench).workOfCertificates,
		"bootstrap tokens": (*bench).workOfBootstrapTokens,
		"cluster roles":    (*bench).workOfClusterRoles, "protection": (*bench).workOfProtection, "autoscalers": (*bench).workOfAutoscalers,
		"ephemeral volumes": (*bench).workOfEphemeralVolumes, "growth": (*bench).workOfTheExpander,
		"attributes classes":   (*bench).lifeOfAnAttributesClass,
		"volumes":              (*bench).workOfVolumes,
		"ServiceCIDRs":         (*bench).lifeOfAServiceCIDR,
		"gangs":                (*bench).livesOfGangs,
		"PodGroups":            (*bench).livesOfPodGroups,
		"device pools":         (*bench).answersAboutPools,
		"devices":              (*bench).workOfDeviceClaims,
		"device taints":        (*bench).workOfDeviceTaints,
		"stored objects":       (*bench).workOfMigrations,
		"old requests of pods": (*bench).oldPodCertificateRequests, "trust bundles": (*bench).disturbedTrustBundle,
		"storage versions":   (*bench).endOfAPIServers,
		"admission policies": (*bench).lifeOfAPolicy,
		"SELinux labels":     (*bench).workOfSELinuxWarnings,
	}
	b.Run("work", func(t *testing.T) {
		for name, work := range here {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				work(&bench{t, b.Cluster, b.ns})
			})
		}
		for name, work := range elsewhere {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				work(&bench{t, b.Cluster, b.Namespace(t)})
			})
		}
	})
	if b.Failed() {
		b.FailNow()
	}
	return set
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
	if _, err := b.Client.CoreV1().ReplicationControllers(b.ns).Create(ctx, replicationController("classic", 2),
		metav1.CreateOptions{}); err != nil {
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
	left := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "left",
		Labels: map[string]string{"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}}
	if _, err := b.Client.CoreV1().Endpoints(b.ns).Create(ctx, left, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// patchMetaAfter takes the finalizers off a pod when the test is over.
func (b *bench) patchMetaAfter(pod string) {
	_, err := b.Client.CoreV1().Pods(b.ns).Patch(context.Background(), pod, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		b.Error(err)
	}
}

// loseTheLease gives the lease to somebody who lets it expire: the manager says once more that it leads, and the event is
// counted (LE-21).
func (b *bench) loseTheLease(m *cluster.Manager) {
	b.Helper()
	const document = `{"spec":{"holderIdentity":"somebody-else_1","leaseDurationSeconds":1}}`
	_, err := b.Client.CoordinationV1().Leases(rbac.Home).Patch(b.Context(), "kube-controller-manager", types.MergePatchType,
		[]byte(document), metav1.PatchOptions{})
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
	begin := b.AuditEnd(b.T)
	m := b.Manager(b.T, "--controllers=deployment,endpoint,ephemeral-volume", "--kube-api-qps=2", "--kube-api-burst=1", listing,
		"--concurrent-deployment-syncs=20", "--concurrent-endpoint-syncs=20", "--concurrent-ephemeralvolume-syncs=20")
	b.create(deployment("first", 0))
	b.service("first")
	b.wait("the manager works", func() error {
		if b.endpoints("first") == nil ||
			!slices.ContainsFunc(b.sets(), func(rs appsv1.ReplicaSet) bool { return rs.Labels["app"] == "first" }) {
			return fmt.Errorf("it does not yet")
		}
		return nil
	})
	b.seesWhatIsOld(begin)
	for i := range 6 {
		b.create(deployment(fmt.Sprintf("before-%d", i), 0))
		b.service(fmt.Sprintf("before-%d", i))
		b.withEphemeral(fmt.Sprintf("slow-%d", i), "data")
	}
	b.create(deployment("taken", 1))
	b.withEphemeral("taken", "data")
	b.service("taken")
	copied := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: set.Name, Labels: set.Labels}, Spec: set.Spec}
	if _, err := b.Client.AppsV1().ReplicaSets(b.ns).Create(b.Context(), copied, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	taken := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}
	if _, err := b.Client.CoreV1().Endpoints(b.ns).Create(b.Context(), taken, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.claim("taken-data")
	b.wait("the names were looked at", func() error {
		want := map[string]bool{"endpoints taken": true, "replicasets " + set.Name: true, "persistentvolumeclaims taken-data": true}
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
		want := map[string]bool{"deployments": true, "replicasets": true, "pods": true, "persistentvolumeclaims": true}
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
	b.claim("second")
	b.waitOwned("new-data", b.withEphemeral("new", "data"))
	b.create(deployment("second", 0))
	b.wait("it sees what is new", func() error {
		if !slices.ContainsFunc(b.sets(), func(rs appsv1.ReplicaSet) bool { return rs.Labels["app"] == "second" }) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}
