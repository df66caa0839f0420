package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// randomWork does what users and nodes do, at random. What fails, because the API server is away or
// someone else was faster, is left at that.
type randomWork struct {
	*rand.Rand
	client     kubernetes.Interface
	namespaces []string
	done       int // operations
}

// deployments are how many there may be in a namespace.
const deployments = 6

// run works until ctx ends.
func (w *randomWork) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(30+w.IntN(300)) * time.Millisecond):
		}
		ns := w.namespaces[w.IntN(len(w.namespaces))]
		if w.step(ctx, ns) == nil {
			w.done++
		}
	}
}

func (w *randomWork) step(ctx context.Context, ns string) error {
	name := fmt.Sprintf("d%d", w.IntN(deployments))
	switch n := w.IntN(100); {
	case n < 22:
		return w.create(ctx, ns, name)
	case n < 40:
		return w.patch(ctx, ns, name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, w.IntN(8)))
	case n < 60: // few images, so that some rollouts are rollbacks
		return w.patch(ctx, ns, name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:%d"}]}}}}`, w.IntN(4)))
	case n < 66:
		return w.patch(ctx, ns, name, fmt.Sprintf(`{"spec":{"paused":%t}}`, w.IntN(2) == 0))
	case n < 71:
		return w.patch(ctx, ns, name, `{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`)
	case n < 77:
		return w.patch(ctx, ns, name, fmt.Sprintf(`{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":%d,"maxUnavailable":"%d%%"}}}}`,
			1+w.IntN(3), 25*w.IntN(3)))
	case n < 82:
		return w.client.AppsV1().Deployments(ns).Delete(ctx, name, metav1.DeleteOptions{})
	}
	return w.disturbPod(ctx, ns)
}

func (w *randomWork) patch(ctx context.Context, ns, name, document string) error {
	_, err := w.client.AppsV1().Deployments(ns).Patch(ctx, name, types.StrategicMergePatchType, []byte(document), metav1.PatchOptions{})
	return err
}

func (w *randomWork) create(ctx context.Context, ns, name string) error {
	d := suite.Deployment(name, int32(w.IntN(7)), suite.Rolling(1+w.IntN(2), w.IntN(2)))
	limit := int32(1 + w.IntN(4))
	d.Spec.RevisionHistoryLimit = &limit
	d.Spec.MinReadySeconds = int32(w.IntN(2))
	d.Spec.Template.Annotations = map[string]string{}
	if w.IntN(2) == 0 {
		d.Spec.Template.Annotations[cluster.ReadyAfter] = fmt.Sprintf("%dms", 100+w.IntN(900))
	}
	if w.IntN(2) == 0 {
		d.Spec.Template.Annotations[cluster.TerminateAfter] = fmt.Sprintf("%dms", 100+w.IntN(900))
	}
	if _, err := w.client.AppsV1().Deployments(ns).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return err
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Selector = map[string]string{"app": name}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt(8080)}}
	_, _ = w.client.CoreV1().Services(ns).Create(ctx, s, metav1.CreateOptions{}) // it may be there from before
	return nil
}

// disturbPod does something to one pod.
func (w *randomWork) disturbPod(ctx context.Context, ns string) error {
	list, err := w.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	pods, pod := w.client.CoreV1().Pods(ns), list.Items[w.IntN(len(list.Items))]
	annotate := func(key, value string) error {
		document := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value)
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(document), metav1.PatchOptions{})
		return err
	}
	switch w.IntN(6) {
	case 0:
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{})
	case 1:
		return annotate(cluster.NeverReady, `"true"`)
	case 2, 3:
		return annotate(cluster.NeverReady, "null")
	case 4:
		return annotate(cluster.Fail, `"true"`)
	}
	// Taken out of its ReplicaSet, for somebody to look at.
	_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"looked-at"}}}`), metav1.PatchOptions{})
	return err
}

// settle undoes what would keep Deployments from becoming complete.
func (w *randomWork) settle(ctx context.Context) error {
	for _, ns := range w.namespaces {
		pods, err := w.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		document := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, cluster.NeverReady)
		for _, pod := range pods.Items {
			if pod.Annotations[cluster.NeverReady] != "" {
				_, err := w.client.CoreV1().Pods(ns).Patch(ctx, pod.Name, types.MergePatchType, []byte(document), metav1.PatchOptions{})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
