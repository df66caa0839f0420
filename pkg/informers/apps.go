package informers

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// ReplicaSetCache finds ReplicaSets by their controllers.
type ReplicaSetCache struct{ owned[*appsv1.ReplicaSet] }

// DeploymentCache finds Deployments.
type DeploymentCache struct{ store[*appsv1.Deployment] }

// ReplicaSets returns the cache of ReplicaSets, with an index by controller, under the same terms.
func ReplicaSets(f informers.SharedInformerFactory) (ReplicaSetCache, error) {
	informer := informerOf(f, &appsv1.ReplicaSet{}, appsv1.SchemeGroupVersion.WithResource("replicasets"), func(k kubernetes.Interface) kindClient[*appsv1.ReplicaSetList] {
		return k.AppsV1().ReplicaSets(metav1.NamespaceAll)
	})
	s, err := newStore[*appsv1.ReplicaSet](informer, owners())
	return ReplicaSetCache{owned[*appsv1.ReplicaSet]{s}}, err
}

// Deployments returns the cache of Deployments, under the same terms.
func Deployments(f informers.SharedInformerFactory) (DeploymentCache, error) {
	informer := informerOf(f, &appsv1.Deployment{}, appsv1.SchemeGroupVersion.WithResource("deployments"), func(k kubernetes.Interface) kindClient[*appsv1.DeploymentList] {
		return k.AppsV1().Deployments(metav1.NamespaceAll)
	})
	s, err := newStore[*appsv1.Deployment](informer, nil)
	return DeploymentCache{s}, err
}
