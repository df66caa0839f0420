package record_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/oracle/record"
)

func TestMain(m *testing.M) { record.Main(m) }

const (
	lead  = "--leader-elect=true"
	quick = "--leader-elect-lease-duration=8s"
	renew = "--leader-elect-renew-deadline=6s"
	retry = "--leader-elect-retry-period=1s"
)

// TestRandomWorkload records what a manager makes of a random workload, with restarts and takeovers, and asks all oracles.
//
//	ORACLE_TIME     how long the workload lasts, by default 20s; from a minute on a node is lost too
//	ORACLE_SEED     makes the same choices again, though not at the same moments
//	ORACLE_HISTORY  a file to save the history in; one that violates something is saved in any case
//	MANAGER_BINARY  judges another manager (see test/cluster); its violations are shown and do not fail the test
func TestRandomWorkload(t *testing.T) {
	c := cluster.Start(t)
	duration := 20 * time.Second
	if text := os.Getenv("ORACLE_TIME"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ORACLE_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ORACLE_SEED=%d", seed)
	recording := record.OnCluster(t, c)
	start := func() *cluster.Manager {
		return c.Manager(t, "--controllers=deployment,replicaset,endpoint,podgc", "--kubeconfig="+record.Kubeconfig(t, c), lead, quick, renew, retry)
	}
	w := &workload{T: t, c: c, ns: c.Namespace(t), rand: rand.New(rand.NewPCG(seed, 1)), manager: start(), start: start}
	w.run(duration)
	w.collectGarbage()
	const quiet = 35 * time.Second // more than reports are held back for
	t.Logf("%d operations; waiting until it is settled", w.n)
	w.settle(quiet)
	h := recording.Stop(t)
	judge(t, h, oracle.Options{Settled: true, Quiet: quiet - 15*time.Second, Identity: oracle.ByCredential(h), Outages: w.outages})
}

func judge(t *testing.T, h *oracle.History, o oracle.Options) {
	t.Helper()
	began := time.Now()
	found := oracle.Check(h, o, oracle.All()...)
	took := time.Since(began)
	count := map[string]int{}
	for _, v := range found {
		count[v.Oracle]++
	}
	var table strings.Builder
	for _, each := range oracle.All() {
		fmt.Fprintf(&table, "\n%-4s %3d  %s", each.ID, count[each.ID], each.Claim)
	}
	t.Logf("%d revisions and %d requests judged in %v; violations:%s", len(h.Revisions), len(h.Requests), took, &table)
	file := os.Getenv("ORACLE_HISTORY")
	if file == "" && len(found) > 0 {
		file = filepath.Join(os.TempDir(), fmt.Sprintf("oracle-%d.jsonl.gz", os.Getpid()))
	}
	if file != "" {
		if err := h.Save(file); err != nil {
			t.Fatal(err)
		}
		t.Logf("the history is in %s", file)
	}
	shown := map[string]bool{}
	for _, v := range found {
		switch {
		case os.Getenv("MANAGER_BINARY") == "":
			t.Error(v)
		case !shown[v.Oracle]:
			t.Logf("the first of %s: %v", v.Oracle, v)
			shown[v.Oracle] = true
		}
	}
	covered := oracle.Cover(h, o)
	t.Logf("revisions of the manager: %v, of others: %v", covered.Manager, covered.Others)
	for _, kind := range []string{oracle.Pod, oracle.ReplicaSet, oracle.Deployment, oracle.Lease} {
		if covered.Manager[kind] == 0 || kind != oracle.Lease && covered.Others[kind] == 0 {
			t.Errorf("of kind %s nothing is known to be the manager's, or all is", kind)
		}
	}
	if len(covered.Lost) > 0 {
		t.Errorf("%d writes of the manager match no revision, the first: %+v", len(covered.Lost), covered.Lost[0])
	}
}

// workload changes objects at random.
type workload struct {
	*testing.T
	c       *cluster.Cluster
	ns      string
	rand    *rand.Rand
	manager *cluster.Manager
	start   func() *cluster.Manager
	outages []oracle.Outage
	n       int
}

const names = 6

func (w *workload) run(duration time.Duration) {
	end := time.Now().Add(duration)
	restarts := []time.Time{time.Now().Add(duration / 3), time.Now().Add(duration * 2 / 3)}
	for time.Now().Before(end) {
		w.step(fmt.Sprintf("d%d", w.rand.IntN(names)))
		w.n++
		select {
		case <-w.Context().Done():
			return
		case <-time.After(time.Duration(w.rand.IntN(150)) * time.Millisecond):
		}
		if len(restarts) > 0 && time.Now().After(restarts[0]) {
			w.restart(len(restarts) == 1)
			restarts = restarts[1:]
		}
		if duration >= time.Minute && w.n == 20 {
			w.loseNode()
		}
	}
}

// restart ends the manager, by SIGKILL or SIGTERM, and starts another.
func (w *workload) restart(kill bool) {
	began := time.Now()
	if kill {
		w.manager.Kill(w.T)
	} else {
		w.manager.Stop(w.T)
	}
	w.step("d0") // unseen by any manager
	w.step("d1")
	w.manager = w.start()
	cluster.Eventually(w.T, time.Minute, "the next manager leads", func() error {
		lease, err := w.c.Client.CoordinationV1().Leases("kube-system").Get(w.Context(), "kube-controller-manager", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.AcquireTime == nil || lease.Spec.AcquireTime.Time.Before(began) || *lease.Spec.HolderIdentity == "" {
			return fmt.Errorf("%+v", lease.Spec)
		}
		return nil
	})
	w.outages = append(w.outages, oracle.Blackout(began, time.Now().Add(5*time.Second))) // with time to begin
}

// step does something to a Deployment or to what belongs to it.
func (w *workload) step(name string) {
	ctx := w.Context()
	deployments := w.c.Client.AppsV1().Deployments(w.ns)
	d, err := deployments.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = deployments.Create(ctx, w.deployment(name), metav1.CreateOptions{})
		w.check(err)
		return
	}
	w.check(err)
	switch w.rand.IntN(20) {
	case 0, 1, 2:
		w.patch(name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, w.rand.IntN(9)))
	case 3, 4, 5:
		w.patch(name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:%d"}]}}}}`, w.rand.IntN(4)))
	case 6:
		w.patch(name, fmt.Sprintf(`{"spec":{"paused":%v}}`, !d.Spec.Paused))
	case 7:
		w.patch(name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%s}}}}}`, cluster.NeverReady, []string{`"true"`, "null"}[w.rand.IntN(2)]))
	case 8:
		w.patch(name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%s}}}}}`, cluster.ReadyAfter, []string{`"1s"`, "null"}[w.rand.IntN(2)]))
	case 9:
		surge := w.rand.IntN(3)
		w.patch(name, fmt.Sprintf(`{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":%d,"maxUnavailable":%d}}}}`, surge, max(w.rand.IntN(3), 1-surge)))
	case 10:
		w.patch(name, `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`)
	case 11:
		w.toPod(name, func(p *corev1.Pod) error {
			return w.c.Client.CoreV1().Pods(w.ns).Delete(ctx, p.Name, metav1.DeleteOptions{})
		})
	case 12:
		w.toPod(name, func(p *corev1.Pod) error { return w.patchPod(p.Name, `{"metadata":{"labels":{"app":"quarantine"}}}`) })
	case 13:
		w.toPod(name, func(p *corev1.Pod) error {
			return w.patchPod(p.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, []string{cluster.NeverReady, cluster.Fail}[w.rand.IntN(2)]))
		})
	case 14:
		w.service(name)
	case 15:
		w.patch(name, `{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"0"}}}`)
	case 16:
		w.toPod(name, func(p *corev1.Pod) error { return w.patchPod(p.Name, `{"metadata":{"ownerReferences":null}}`) })
	case 17:
		w.toSet(name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, w.rand.IntN(5)))
	case 18:
		w.toSet(name, `{"metadata":{"ownerReferences":null}}`)
	case 19:
		w.check(deployments.Delete(ctx, name, metav1.DeleteOptions{}))
		w.collectGarbage()
	}
}

// check ends the test on errors but for those of racing with the manager.
func (w *workload) check(err error) {
	w.Helper()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
}

func (w *workload) deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	replicas, limit, deadline := int32(w.rand.IntN(8)), int32(w.rand.IntN(3)), int32(5)
	surge, unavailable := intstr.FromInt32(1), intstr.FromString("25%")
	d.Spec = appsv1.DeploymentSpec{Replicas: &replicas, RevisionHistoryLimit: &limit, ProgressDeadlineSeconds: &deadline,
		MinReadySeconds: int32(w.rand.IntN(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}}}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Annotations = map[string]string{cluster.TerminateAfter: []string{"0s", "1s", "2s"}[w.rand.IntN(3)]}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:0", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}
	return d
}

func (w *workload) patch(name, document string) {
	w.Helper()
	_, err := w.c.Client.AppsV1().Deployments(w.ns).Patch(w.Context(), name, types.StrategicMergePatchType, []byte(document), metav1.PatchOptions{})
	w.check(err)
}

func (w *workload) patchPod(name, document string) error {
	_, err := w.c.Client.CoreV1().Pods(w.ns).Patch(w.Context(), name, types.MergePatchType, []byte(document), metav1.PatchOptions{})
	return err
}

// toPod does something to one of a Deployment's pods.
func (w *workload) toPod(name string, do func(*corev1.Pod) error) {
	list, err := w.c.Client.CoreV1().Pods(w.ns).List(w.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	w.check(err)
	if len(list.Items) > 0 {
		w.check(do(&list.Items[w.rand.IntN(len(list.Items))]))
	}
}

// toSet patches one of a Deployment's ReplicaSets.
func (w *workload) toSet(name, document string) {
	sets := w.c.Client.AppsV1().ReplicaSets(w.ns)
	list, err := sets.List(w.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	w.check(err)
	if len(list.Items) > 0 {
		_, err := sets.Patch(w.Context(), list.Items[w.rand.IntN(len(list.Items))].Name, types.MergePatchType, []byte(document), metav1.PatchOptions{})
		w.check(err)
	}
}

// service makes, changes or deletes a Service for a Deployment's pods.
func (w *workload) service(name string) {
	services := w.c.Client.CoreV1().Services(w.ns)
	old, err := services.Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = services.Create(w.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}}}, metav1.CreateOptions{})
		w.check(err)
		return
	}
	w.check(err)
	if w.rand.IntN(3) == 0 {
		w.check(services.Delete(w.Context(), name, metav1.DeleteOptions{}))
		return
	}
	old.Spec.Selector = map[string]string{"app": fmt.Sprintf("d%d", w.rand.IntN(names))}
	_, err = services.Update(w.Context(), old, metav1.UpdateOptions{})
	w.check(err)
}

// loseNode binds pods to a node that is then gone.
func (w *workload) loseNode() {
	name := fmt.Sprintf("lost-%d", w.n)
	_, err := w.c.Client.CoreV1().Nodes().Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.check(err)
	for i := range 3 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bare-%d", i), Labels: map[string]string{"bare": "true"}}}
		p.Spec.NodeName, p.Spec.Containers = name, []corev1.Container{{Name: "web", Image: "web"}}
		_, err := w.c.Client.CoreV1().Pods(w.ns).Create(w.Context(), p, metav1.CreateOptions{})
		w.check(err)
	}
	w.check(w.c.Client.CoreV1().Nodes().Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// collectGarbage deletes what has lost its owner: no garbage collector runs.
func (w *workload) collectGarbage() {
	ctx := w.Context()
	owners := map[types.UID]bool{}
	deployments, err := w.c.Client.AppsV1().Deployments(w.ns).List(ctx, metav1.ListOptions{})
	w.check(err)
	for _, d := range deployments.Items {
		owners[d.UID] = true
	}
	sets, err := w.c.Client.AppsV1().ReplicaSets(w.ns).List(ctx, metav1.ListOptions{})
	w.check(err)
	for _, s := range sets.Items {
		if ref := metav1.GetControllerOf(&s); ref != nil && !owners[ref.UID] {
			w.check(w.c.Client.AppsV1().ReplicaSets(w.ns).Delete(ctx, s.Name, metav1.DeleteOptions{}))
		} else {
			owners[s.UID] = true
		}
	}
	pods, err := w.c.Client.CoreV1().Pods(w.ns).List(ctx, metav1.ListOptions{})
	w.check(err)
	for _, p := range pods.Items {
		if ref := metav1.GetControllerOf(&p); ref != nil && !owners[ref.UID] {
			w.check(w.c.Client.CoreV1().Pods(w.ns).Delete(ctx, p.Name, metav1.DeleteOptions{}))
		}
	}
}

// settle waits until nothing has changed for a while, leases and nodes aside.
func (w *workload) settle(quiet time.Duration) {
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
	defer cancel()
	last, since := "", time.Now()
	for time.Since(since) < quiet {
		var now strings.Builder
		pods, err := w.c.Client.CoreV1().Pods(w.ns).List(ctx, metav1.ListOptions{})
		w.check(err)
		sets, err := w.c.Client.AppsV1().ReplicaSets(w.ns).List(ctx, metav1.ListOptions{})
		w.check(err)
		deployments, err := w.c.Client.AppsV1().Deployments(w.ns).List(ctx, metav1.ListOptions{})
		w.check(err)
		for _, p := range pods.Items {
			fmt.Fprintln(&now, p.Name, p.ResourceVersion)
			if strings.HasPrefix(p.Name, "bare-") {
				since = time.Now() // podgc has yet to find it
			}
		}
		for _, s := range sets.Items {
			fmt.Fprintln(&now, s.Name, s.ResourceVersion)
		}
		for _, d := range deployments.Items {
			fmt.Fprintln(&now, d.Name, d.ResourceVersion)
		}
		if now.String() != last {
			last, since = now.String(), time.Now()
		}
		select {
		case <-ctx.Done():
			w.Fatal("it does not settle")
		case <-time.After(200 * time.Millisecond):
		}
	}
}
