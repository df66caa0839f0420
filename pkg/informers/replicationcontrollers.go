package informers

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// ReplicationControllerCache finds ReplicationControllers.
type ReplicationControllerCache struct {
	store[*corev1.ReplicationController]
}

// ReplicationControllers returns the cache of ReplicationControllers, under the terms of [Pods].
func ReplicationControllers(f informers.SharedInformerFactory) (ReplicationControllerCache, error) {
	informer := informerOf(f, &corev1.ReplicationController{}, corev1.SchemeGroupVersion.WithResource("replicationcontrollers"), func(k kubernetes.Interface) kindClient[*corev1.ReplicationControllerList] {
		return k.CoreV1().ReplicationControllers(metav1.NamespaceAll)
	})
	s, err := newStore[*corev1.ReplicationController](informer, nil)
	return ReplicationControllerCache{s}, err
}
