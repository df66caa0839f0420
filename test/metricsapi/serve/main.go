// Serve gives a local control plane metrics of its pods, until it is ended: "localcluster run --examples=all" starts it, because no
// pod of such a control plane uses anything by itself. What pods use is said by an annotation of theirs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/standalone-kcm/controller-manager/test/metricsapi"
)

// load is the annotation that says how much CPU time all pods of one owner use together. Each that runs has the same part of it.
const load = "localcluster.standalone-kcm.io/load-cpu"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the control plane's administrator")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *kubeconfig)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	s, err := metricsapi.Start(ctx, config, metricsapi.Options{Window: 5 * time.Second})
	if err != nil {
		return err
	}
	s.Usage("", func(p *corev1.Pod, container string, _ time.Time) corev1.ResourceList {
		siblings, _ := s.Pods().Pods(p.Namespace).List(labels.Everything()) // a cache has no errors
		return used(p, container, siblings)
	})
	<-ctx.Done()
	return s.Close()
}

// used is what the container of a pod uses: all in the first one.
func used(p *corev1.Pod, container string, siblings []*corev1.Pod) corev1.ResourceList {
	total, err := resource.ParseQuantity(p.Annotations[load])
	if err != nil || container != p.Spec.Containers[0].Name {
		return corev1.ResourceList{corev1.ResourceCPU: resource.Quantity{}}
	}
	owner, sharing := metav1.GetControllerOfNoCopy(p), int64(0)
	for _, other := range siblings {
		if o := metav1.GetControllerOfNoCopy(other); other.Status.Phase == corev1.PodRunning &&
			(other.Name == p.Name || o != nil && owner != nil && o.UID == owner.UID) {
			sharing++
		}
	}
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(total.MilliValue()/max(sharing, 1), resource.DecimalSI)}
}
