package informers

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/podcache"
)

// podInformer returns the factory's informer of pods, the one that f.Core().V1().Pods() has, too. With a client made by
// [listwatch.NewClient] it projects pods while it decodes them.
func podInformer(f informers.SharedInformerFactory) (cache.SharedIndexInformer, error) {
	own, ok := f.(*factory)
	if !ok || own.client == nil || own.selector != "" {
		return informerOf[*corev1.Pod](f)
	}
	informer, err := podcache.Informer(own.client)
	if err != nil {
		return nil, err
	}
	return f.InformerFor(&corev1.Pod{}, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return informer(f.InformerName().WithResource(corev1.SchemeGroupVersion.WithResource("pods")), resync)
	}), nil
}
