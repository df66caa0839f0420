// Package upgrade hands one cluster over from kube-controller-manager to ours, and back, across a release of Kubernetes. It needs the
// programs of two releases:
//
//	make upgrade
package upgrade

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/cluster/countproxy"
)

var (
	older = flag.String("older", "", "kube-controller-manager of the release before")
	newer = flag.String("newer", "", "kube-controller-manager of the release of this program")
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// patience is how long a rollout may take.
const patience = 2 * time.Minute

// rollouts are workloads of three kinds, for fmt.Sprintf: the replicas of the Deployment and of the StatefulSet, and the annotations of
// pods.
const rollouts = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %[1]d
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}, annotations: {%[3]s}}, spec: {containers: [{name: main, image: "web:0"}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}, annotations: {%[3]s}}, spec: {containers: [{name: main, image: "agent:0"}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: %[2]d
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}, annotations: {%[3]s}}, spec: {containers: [{name: main, image: "db:0"}]}}
---
`

// resting are workloads on which nobody works. Whoever takes over has nothing to do for them.
var resting = fmt.Sprintf(rollouts, 3, 2, "") + `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: all}
spec: {hard: {pods: "100"}}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 2
  selector: {app: old}
  template: {metadata: {labels: {app: old}}, spec: {containers: [{name: old, image: "old:1"}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: done}
spec:
  completions: 3
  template: {metadata: {labels: {app: done}}, spec: {restartPolicy: Never, containers: [{name: done, image: "done:1"}]}}
`

// working are workloads that are being rolled out, or run, at each change of managers. Each pod takes a while to be ready.
var working = fmt.Sprintf(rollouts, 6, 3, cluster.ReadyAfter+": 2s") + `
apiVersion: batch/v1
kind: CronJob
metadata: {name: minutely}
spec:
  schedule: "* * * * *"
  successfulJobsHistoryLimit: 100
  jobTemplate:
    spec:
      template: {metadata: {labels: {app: minutely}}, spec: {restartPolicy: Never, containers: [{name: main, image: "minutely:1"}]}}
`

// TestUpgrade has managers take turns on one cluster: the original of the release before, ours, the original of this release, and ours
// again. Each is ended in the middle of rollouts, which the next one has to finish. Nothing else is rolled out, and nothing is lost.
func TestUpgrade(t *testing.T) {
	if *older == "" || *newer == "" {
		t.Skip("it needs the flags -older and -newer")
	}
	u := &upgrade{T: t, Cluster: cluster.Start(t)}
	u.resting, u.working = u.Namespace(t), u.Namespace(t)
	var err error
	if u.metadata, err = metadata.NewForConfig(u.RESTConfig); err != nil {
		t.Fatal(err)
	}
	turns := []turn{{"the original of the release before", *older}, {"ours", ""}, {"the original of this release", *newer},
		{"ours again", ""}}
	leader := u.start(turns[0])
	u.Apply(t, u.resting, resting)
	u.Apply(t, u.working, working)
	u.createJob(0)
	u.awaitRollouts(leader)
	for i, next := range turns[1:] {
		u.changeImages(i + 1)
		u.createJob(i + 1)
		cluster.Eventually(t, patience, "the rollout is under way", u.isUnderWay)
		before, revisions := u.objects(u.resting), u.revisions()
		leader.stop()
		leader = u.start(next)
		u.awaitRollouts(leader)
		u.isUnchanged(next, before)
		u.hasRevisions(next, revisions, i+1)
	}
	cluster.Eventually(t, patience, "the CronJob has run twice", func() error {
		if minutes := u.minutes(); len(minutes) < 2 {
			return fmt.Errorf("it has run at %v", minutes)
		}
		return nil
	})
	u.awaitRollouts(leader)
	leader.stop()
	u.nothingIsLost(len(turns))
}

// turn is a manager's time on the cluster.
type turn struct{ name, binary string }

// upgrade is a cluster that managers take turns on.
type upgrade struct {
	*testing.T
	*cluster.Cluster
	metadata         metadata.Interface
	resting, working string // namespaces
}

// leader is a manager that has its turn.
type leader struct {
	*upgrade
	turn
	manager *cluster.Manager
	proxy   *countproxy.Proxy
}

func (u *upgrade) start(next turn) leader {
	proxy, kubeconfig := u.CountingProxy(u.T, u.ManagerKubeconfig)
	return leader{u, next, u.ManagerOf(u.T, next.binary, "--kubeconfig="+kubeconfig), proxy}
}

// stop ends the manager, and logs what it has written.
func (l leader) stop() {
	if code := l.manager.Stop(l.T); l.binary == "" && code != 0 {
		l.Errorf("%s: exit code %d", l.name, code)
	}
	writes := l.proxy.Writes()
	l.Logf("%s: %d writes, %d of them refused, %d without effect\n%v", l.name, writes.Total, writes.Refused, writes.NoOps, writes)
	if l.binary == "" && writes.Refused+writes.NoOps > 0 {
		l.Errorf("%s: %d writes were refused, %d had no effect", l.name, writes.Refused, writes.NoOps)
	}
}

// quiet says whether the manager has written something in the last seconds.
func (l leader) quiet() func() error {
	last, since := -1, time.Now()
	return func() error {
		if n := l.proxy.Writes().Total; n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < 3*time.Second {
			return fmt.Errorf("%d writes", last)
		}
		return nil
	}
}

// changeImages begins the rollout of a version.
func (u *upgrade) changeImages(version int) {
	for _, w := range []string{"deployment/web", "daemonset/agent", "statefulset/db"} {
		_, name, _ := strings.Cut(w, "/")
		u.Kubectl(u.T, "-n", u.working, "set", "image", w, fmt.Sprintf("main=%s:%d", name, version))
	}
}

// createJob creates a Job that takes a while: its pods run one after the other.
func (u *upgrade) createJob(i int) {
	u.Apply(u.T, u.working, fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: sum-%d}, spec: {completions: 6, template: {
		metadata: {labels: {app: sum}}, spec: {restartPolicy: Never, containers: [{name: main, image: "sum:1"}]}}}}`, i))
}

// isUnderWay says why the rollouts have not begun, or that of the Deployment is over.
func (u *upgrade) isUnderWay() error {
	d, err := u.Client.AppsV1().Deployments(u.working).Get(u.Context(), "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas == 0 || d.Status.UpdatedReplicas == *d.Spec.Replicas {
		return fmt.Errorf("Deployment: %+v", d.Status)
	}
	ds, err := u.Client.AppsV1().DaemonSets(u.working).Get(u.Context(), "agent", metav1.GetOptions{})
	if err != nil {
		return err
	}
	s, err := u.Client.AppsV1().StatefulSets(u.working).Get(u.Context(), "db", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if ds.Status.ObservedGeneration < ds.Generation || s.Status.ObservedGeneration < s.Generation {
		return fmt.Errorf("DaemonSet: %+v, StatefulSet: %+v", ds.Status, s.Status)
	}
	return nil
}

// awaitRollouts waits until all workloads are as wanted, and the manager writes nothing more.
func (u *upgrade) awaitRollouts(l leader) {
	u.Helper()
	for _, ns := range []string{u.resting, u.working} {
		cluster.Eventually(u.T, patience, "everything is rolled out", func() error { return u.rolledOut(u.Context(), ns) })
	}
	cluster.Eventually(u.T, patience, "nothing more is written", l.quiet())
}

// rolledOut says what in a namespace is not as wanted.
func (u *upgrade) rolledOut(ctx context.Context, ns string) error {
	d, err := u.Client.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if n := *d.Spec.Replicas; d.Status.ObservedGeneration < d.Generation || d.Status.Replicas != n || d.Status.UpdatedReplicas != n ||
		d.Status.AvailableReplicas != n {
		return fmt.Errorf("Deployment: %+v", d.Status)
	}
	ds, err := u.Client.AppsV1().DaemonSets(ns).Get(ctx, "agent", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if n := ds.Status.DesiredNumberScheduled; ds.Status.ObservedGeneration < ds.Generation || n == 0 ||
		ds.Status.UpdatedNumberScheduled != n || ds.Status.NumberAvailable != n {
		return fmt.Errorf("DaemonSet: %+v", ds.Status)
	}
	s, err := u.Client.AppsV1().StatefulSets(ns).Get(ctx, "db", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s.Status.ObservedGeneration < s.Generation || s.Status.CurrentRevision != s.Status.UpdateRevision ||
		s.Status.ReadyReplicas != *s.Spec.Replicas {
		return fmt.Errorf("StatefulSet: %+v", s.Status)
	}
	jobs, err := u.Client.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, j := range jobs.Items {
		if j.Status.CompletionTime == nil {
			return fmt.Errorf("Job %s: %+v", j.Name, j.Status)
		}
	}
	return nil
}

// resources are those whose objects managers write.
var resources = []schema.GroupVersionResource{
	corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("replicationcontrollers"),
	corev1.SchemeGroupVersion.WithResource("services"),
	corev1.SchemeGroupVersion.WithResource("endpoints"), corev1.SchemeGroupVersion.WithResource("configmaps"),
	corev1.SchemeGroupVersion.WithResource("secrets"),
	corev1.SchemeGroupVersion.WithResource("serviceaccounts"), corev1.SchemeGroupVersion.WithResource("resourcequotas"),
	appsv1.SchemeGroupVersion.WithResource("deployments"), appsv1.SchemeGroupVersion.WithResource("replicasets"),
	appsv1.SchemeGroupVersion.WithResource("daemonsets"),
	appsv1.SchemeGroupVersion.WithResource("statefulsets"), appsv1.SchemeGroupVersion.WithResource("controllerrevisions"),
	batchv1.SchemeGroupVersion.WithResource("jobs"),
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
}

// object is what tells whether an object is the same, and whether it was written.
type object struct {
	uid     types.UID
	version string
}

// objects returns those of a namespace, by resource and name.
func (u *upgrade) objects(ns string) map[string]object {
	u.Helper()
	all := map[string]object{}
	for _, r := range resources {
		list, err := u.metadata.Resource(r).Namespace(ns).List(u.Context(), metav1.ListOptions{})
		if err != nil {
			u.Fatal(err)
		}
		for _, o := range list.Items {
			all[r.Resource+"/"+o.Name] = object{o.UID, o.ResourceVersion}
		}
	}
	return all
}

// isUnchanged compares the workloads at rest with what they were before a manager took over. It may write what its release says in
// another way, but nothing comes or goes.
func (u *upgrade) isUnchanged(by turn, before map[string]object) {
	u.Helper()
	after := u.objects(u.resting)
	var written []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		switch now, ok := after[name]; {
		case !ok:
			u.Errorf("%s: %s is gone", by.name, name)
		case now.uid != before[name].uid:
			u.Errorf("%s: %s is another one", by.name, name)
		case now.version != before[name].version:
			written = append(written, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			u.Errorf("%s: %s is new", by.name, name)
		}
	}
	u.Logf("%s: of %d objects at rest %d were written: %v", by.name, len(before), len(written), written)
	if n := slices.IndexFunc(written, func(name string) bool {
		return strings.HasPrefix(name, "pods/") || strings.HasPrefix(name, "controllerrevisions/")
	}); by.binary == "" && n >= 0 {
		u.Errorf("%s has written %s", by.name, written[n])
	}
}

// revisions returns the ReplicaSets and ControllerRevisions of the workloads that are rolled out.
func (u *upgrade) revisions() (names []string) {
	u.Helper()
	for name := range u.objects(u.working) {
		if strings.HasPrefix(name, "replicasets/") || strings.HasPrefix(name, "controllerrevisions/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// hasRevisions checks that a manager has finished a rollout with the revisions that another one has begun, one for each version of the
// three workloads.
func (u *upgrade) hasRevisions(by turn, before []string, versions int) {
	u.Helper()
	if after := u.revisions(); !slices.Equal(before, after) || len(after) != 3*(versions+1) {
		u.Errorf("%s: the revisions were\n%v\nand are\n%v, want %d of them", by.name, before, after, 3*(versions+1))
	}
}

// minutes are those at which the CronJob was to run, and has.
func (u *upgrade) minutes() (all []time.Time) {
	u.Helper()
	for _, j := range u.jobs() {
		if at := j.Annotations[batchv1.CronJobScheduledTimestampAnnotation]; at != "" {
			minute, err := time.Parse(time.RFC3339, at)
			if err != nil {
				u.Fatal(err)
			}
			all = append(all, minute)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func (u *upgrade) jobs() []batchv1.Job {
	u.Helper()
	list, err := u.Client.BatchV1().Jobs(u.working).List(u.Context(), metav1.ListOptions{})
	if err != nil {
		u.Fatal(err)
	}
	return list.Items
}

// nothingIsLost checks that all Jobs have run, each once, and that no minute is missing.
func (u *upgrade) nothingIsLost(jobs int) {
	u.Helper()
	sums := 0
	for _, j := range u.jobs() {
		if !strings.HasPrefix(j.Name, "sum-") {
			continue
		}
		if sums++; j.Status.Succeeded != *j.Spec.Completions || j.Status.Failed != 0 {
			u.Errorf("Job %s: %d pods have succeeded, %d have failed, want %d and none", j.Name, j.Status.Succeeded, j.Status.Failed,
				*j.Spec.Completions)
		}
	}
	pods, err := u.Client.CoreV1().Pods(u.working).List(u.Context(), metav1.ListOptions{LabelSelector: "app=sum"})
	if err != nil {
		u.Fatal(err)
	}
	if sums != jobs || len(pods.Items) != 6*jobs {
		u.Errorf("%d Jobs with %d pods, want %d with %d", sums, len(pods.Items), jobs, 6*jobs)
	}
	minutes := u.minutes()
	for i, minute := range minutes {
		if i > 0 && minute.Sub(minutes[i-1]) != time.Minute {
			u.Errorf("the CronJob has run at %v and then at %v", minutes[i-1], minute)
		}
	}
	u.Logf("the CronJob has run %d times", len(minutes))
}
