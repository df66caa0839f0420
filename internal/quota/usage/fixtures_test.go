package usage

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	epoch   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	someKey = plan.Key{Namespace: "shop", Name: "some"}
)

// amounts makes a list of pairs of names and amounts.
func amounts(pairs ...any) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i].(string))] = resource.MustParse(fmt.Sprint(pairs[i+1]))
	}
	return l
}

func podNamed(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "100m")}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// object is one of which only the metadata counts.
func object(uid string, version int) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: "shop", Name: uid, UID: types.UID(uid), ResourceVersion: fmt.Sprint(version)}
}

// newIndex returns an index without watches.
func newIndex(g quota.Gates) *Index {
	return New(Config{Gates: g, Period: 5 * time.Minute, Arrivals: time.Minute})
}
