// Package restore puts a control plane back to a backup while a manager runs. It has a control plane of its own, because that goes back
// for all tests that use it.
package restore

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

var restores = flag.Int("restores", 1, "how often each manager sees the control plane go back")

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// resumed is how long after the API server is back work may take to go on.
const resumed = 30 * time.Second

// settled is how long after its work has gone on a manager must leave the volumes of the backup as they are.
const settled = 2 * time.Second

// TestRestoredBackup takes a backup of workloads and volumes at rest. Then some are deleted, others are scaled and made, and in the
// midst of that etcd is put back to the backup. The manager must notice, must delete nothing that the backup has, and must go on to
// work. The claims of the backup stay bound to their volumes, and these attached: a volume that is Released is deleted by its driver,
// with its data.
func TestRestoredBackup(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"without a lease", []string{"--leader-elect=false"}},
		{"with a lease", []string{"--leader-elect=true", "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &restored{T: t, Cluster: cluster.Start(t)}
			r.ns = r.Namespace(t)
			m := r.Manager(t, c.flags...)
			for _, name := range []string{"deleted", "smaller", "larger"} {
				r.deployment(name, 3)
			}
			r.job("done")
			r.drive()
			r.volumes()
			r.rolledOut(time.Minute)
			m.Stop(t)
			kept := r.everything()
			volumes, err := r.stored(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			backup := r.Backup(t)
			m = r.Manager(t, c.flags...)
			for i := range *restores {
				r.work(i, volumes)
				r.Restore(t, backup)
				back := time.Now()
				r.scale("larger", 5)
				r.deployment("new", 2)
				r.claim("made", "new")
				r.rolledOut(resumed)
				r.eventually("a new claim is bound", resumed, func() error { return r.isBound("new") })
				t.Logf("work had gone on %v after the API server was back", time.Since(back).Round(100*time.Millisecond))
				cluster.Always(t, settled, "the volumes of the backup are in use", func() error { return r.inUse(&volumes) })
				if gone := missing(kept, r.everything()); len(gone) > 0 {
					t.Errorf("deleted, although the backup has them: %s", strings.Join(gone, ", "))
				}
				m.WaitForLog(t, resumed, "gone back to an earlier state")
			}
			m.Stop(t)
		})
	}
}

// restored is a namespace of a control plane that is put back to a backup.
type restored struct {
	*testing.T
	*cluster.Cluster
	ns, node string
}

// work begins what the backup does not know, and leaves it when the manager is at work.
func (r *restored) work(i int, backup stored) {
	r.Helper()
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := r.Client.AppsV1().Deployments(r.ns).Delete(r.Context(), "deleted", background); err != nil {
		r.Fatal(err)
	}
	if err := r.Client.BatchV1().Jobs(r.ns).Delete(r.Context(), "done", background); err != nil {
		r.Fatal(err)
	}
	r.eventually("the pods of what was deleted are gone", time.Minute, func() error {
		pods, err := r.Client.CoreV1().Pods(r.ns).List(r.Context(), metav1.ListOptions{LabelSelector: "app=deleted"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d are left", len(pods.Items))
		}
		return err
	})
	r.useUp(backup, i%2 == 0)
	r.deployment("other", 20)
	r.scale("smaller", 1)
	time.Sleep(time.Duration(i%10) * 100 * time.Millisecond) // how far the work gets differs
}

func (r *restored) eventually(what string, within time.Duration, check func() error) {
	r.Helper()
	cluster.Eventually(r.T, within, what, check)
}

func labelled(name string) (map[string]string, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": name}
	return labels, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "image"}}, TerminationGracePeriodSeconds: new(int64),
	}}
}

func (r *restored) deployment(name string, replicas int32) {
	r.Helper()
	labels, template := labelled(name)
	_, err := r.Client.AppsV1().Deployments(r.ns).Create(r.Context(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		}}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *restored) job(name string) {
	r.Helper()
	_, template := labelled(name)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := r.Client.BatchV1().Jobs(r.ns).Create(r.Context(),
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: template}}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *restored) scale(name string, replicas int32) {
	r.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := r.Client.AppsV1().Deployments(r.ns).Patch(r.Context(), name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		r.Fatal(err)
	}
}

// rolledOut waits until all Deployments have the pods that they want. Whether these run is up to kwok, which has nodes of its own to find
// again after a restore.
func (r *restored) rolledOut(within time.Duration) {
	r.Helper()
	r.eventually("all Deployments are rolled out", within, func() error {
		all, err := r.Client.AppsV1().Deployments(r.ns).List(r.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range all.Items {
			if s, want := d.Status, *d.Spec.Replicas; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want ||
				s.Replicas != want {
				return fmt.Errorf("%s wants %d pods: %+v", d.Name, want, s)
			}
		}
		return nil
	})
}

// objects are the objects of the namespace that a manager could delete, by uid.
func (r *restored) objects() map[types.UID]string {
	r.Helper()
	all := map[types.UID]string{}
	add := func(kind string, err error, objects []metav1.Object) {
		if err != nil {
			r.Fatal(err)
		}
		for _, o := range objects {
			all[o.GetUID()] = kind + " " + o.GetName()
		}
	}
	ctx, o := r.Context(), metav1.ListOptions{}
	deployments, err := r.Client.AppsV1().Deployments(r.ns).List(ctx, o)
	add("Deployment", err, objectsOf(deployments.Items))
	sets, err := r.Client.AppsV1().ReplicaSets(r.ns).List(ctx, o)
	add("ReplicaSet", err, objectsOf(sets.Items))
	jobs, err := r.Client.BatchV1().Jobs(r.ns).List(ctx, o)
	add("Job", err, objectsOf(jobs.Items))
	pods, err := r.Client.CoreV1().Pods(r.ns).List(ctx, o)
	add("Pod", err, objectsOf(pods.Items))
	return all
}

func objectsOf[T any, P interface {
	*T
	metav1.Object
}](items []T) (all []metav1.Object) {
	for i := range items {
		all = append(all, P(&items[i]))
	}
	return all
}

// missing are the objects that are not there any more.
func missing(before, after map[types.UID]string) (all []string) {
	for uid, name := range before {
		if _, ok := after[uid]; !ok {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
