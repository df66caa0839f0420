package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestLiveOf(t *testing.T) {
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	l := LiveOf("shop", web, pods)
	if l.Kind != corev1.SchemeGroupVersion.WithKind("Pod") || l.Namespace != "shop" || l.Selector.String() != "app=web" || l.Name != "" {
		t.Errorf("%+v", l)
	}
	if len(l.Cached) != 2 || l.Cached[0] != pods[0] || l.Cached[1] != pods[1] {
		t.Errorf("cached: %v", l.Cached)
	}
}
