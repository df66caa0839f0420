package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/quota"
)

// charge is the admission of quotas: it raises the usage in the status of each quota that an object to be created is charged to, or refuses
// the object. What it has raised stays so if the object is then not stored.
func (s *Server) charge(st *store, o Object) error {
	if st.Cluster || s.dryRun {
		return nil
	}
	of := st.groupResource()
	item := itemOf(of, o)
	store := s.stores["resourcequotas"]
	var raised []*corev1.ResourceQuota
	for _, key := range store.keys() {
		q := store.objects[key].(*corev1.ResourceQuota)
		selector, err := quota.NewSelector(&q.Spec)
		if q.Namespace != o.GetNamespace() || err != nil || !selector.Matches(item.Traits) {
			continue
		}
		next, err := admitted(q, of, o.GetName(), item.Usage)
		if err != nil {
			return err
		}
		if next != nil {
			raised = append(raised, next)
		}
	}
	for _, q := range raised {
		s.commit(store, store.objects[keyOf(q.Namespace, q.Name)], q, false)
	}
	return nil
}

// admitted returns the quota with what an object is charged with, nil if that is nothing. As on a real server the limits of the status
// count: those of the spec do when the controller has seen them.
func admitted(q *corev1.ResourceQuota, of schema.GroupResource, name string, usage corev1.ResourceList) (*corev1.ResourceQuota, error) {
	next := q.DeepCopy()
	charged := false
	for _, limited := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		amount, ok := usage[limited]
		if !ok || amount.IsZero() {
			continue
		}
		hard := q.Status.Hard[limited]
		used, counted := q.Status.Used[limited]
		if !counted {
			return nil, apierrors.NewForbidden(of, name, fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, limited))
		}
		sum := used.DeepCopy()
		if sum.Add(amount); sum.Cmp(hard) > 0 {
			text := func(what string) string { return strings.ReplaceAll(what, "#", string(limited)) }
			return nil, apierrors.NewForbidden(of, name, fmt.Errorf(text("exceeded quota: %s, requested: #=%s, used: #=%s, limited: #=%s"),
				q.Name, amount.String(), used.String(), hard.String()))
		}
		next.Status.Used[limited] = sum
		charged = true
	}
	if !charged {
		return nil, nil
	}
	return next, nil
}

// itemOf returns what an object is charged with.
func itemOf(of schema.GroupResource, o Object) quota.Item {
	switch o := o.(type) {
	case *corev1.Pod:
		return quota.Pod(o, quota.Gates{PodLevelResources: true})
	case *corev1.Service:
		return quota.Service(o)
	case *corev1.PersistentVolumeClaim:
		return quota.Claim(o)
	}
	return quota.Object(of)
}
