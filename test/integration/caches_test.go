package integration

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// After creations, changes and deletions on a real server the caches have what the projection of all controllers keeps of what a full
// client lists, in protobuf and in JSON.
func TestCachesEqualAFullList(t *testing.T) {
	t.Parallel() // without a manager
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	kept := must(managertest.Projection(controllers.Registry()...)).(*projection.Projection)
	caches := map[string]informers.PodCache{}
	for _, encoding := range []string{apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeJSON} {
		config := rest.CopyConfig(c.RESTConfig)
		config.ContentType, config.AcceptContentTypes = encoding, encoding+", */*"
		f := informers.NewFactory(must(listwatch.NewClient(config, kept)), 0)
		caches[encoding] = must(informers.Pods(f))
		ctx, cancel := context.WithCancel(t.Context())
		defer f.Shutdown()
		defer cancel()
		f.StartWithContext(ctx)
	}
	pods := c.Client.CoreV1().Pods(namespace)
	for i := range 30 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{corev1.PodDeletionCost: fmt.Sprint(i), "other": "text"}}}
		p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}
		must(pods.Create(t.Context(), p, metav1.CreateOptions{}))
		if i%3 == 0 {
			if err := pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		} else if i%3 == 1 {
			must(pods.Patch(t.Context(), p.Name, types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`),
				metav1.PatchOptions{}))
		}
	}
	cluster.Eventually(t, 30*time.Second, "the caches equal a full list", func() error {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) < 20 {
			return fmt.Errorf("%d pods", len(list.Items))
		}
		for encoding, cached := range caches {
			if n := len(cached.In(namespace)); n != len(list.Items) {
				return errors.Join(err, fmt.Errorf("%s: %d pods in the cache, %d in all", encoding, n, len(list.Items)))
			}
			for i := range list.Items {
				p := &list.Items[i]
				want, got := kept.ProjectPod(p), cached.Get(namespace, p.Name)
				if !reflect.DeepEqual(want, got) {
					return fmt.Errorf("%s: %s (-want +got):\n%s", encoding, p.Name, cmp.Diff(want, got))
				}
			}
		}
		return nil
	})
}

// must returns a value that there is no reason not to get.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
