package executor

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// deleteCollection deletes all objects of a kind in a namespace by one request, or one by one where the server has no such request
// (NS-16).
func (w *Writing) deleteCollection(s plan.DeleteCollection) error {
	m, err := w.Mapper.Mapping(w.ctx, s.Kind)
	if err != nil {
		return err
	}
	var options metav1.DeleteOptions
	if s.Propagation != "" {
		options.PropagationPolicy = &s.Propagation
	}
	err = w.send(s.Namespace, func(ctx context.Context) error {
		return w.Client.DeleteCollection(ctx, m, s.Namespace, metav1.ListOptions{}, options)
	})
	w.ended(m, "deletecollection", err)
	if Unsupported(err) {
		err = w.deleteEach(m, s)
	}
	about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace}}
	about.SetGroupVersionKind(s.Kind)
	w.result(plan.Result{Verb: plan.Deleted, Object: about, Err: err})
	if err != nil {
		return fmt.Errorf("delete all %s in namespace %s: %w", m.GroupResource(), s.Namespace, err)
	}
	return nil
}

// deleteEach lists the objects live and deletes one after the other. A resource that cannot be listed either has nothing that
// could be deleted (NS-17).
func (w *Writing) deleteEach(m client.Mapping, s plan.DeleteCollection) error {
	list := &metav1.PartialObjectMetadataList{}
	if err := w.Client.List(w.ctx, m, s.Namespace, metav1.ListOptions{}, list); err != nil {
		if Unsupported(err) {
			return nil
		}
		return err
	}
	step := plan.Delete{Propagation: s.Propagation, Unowned: true}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			continue
		}
		options := w.deleteOptions(step, &list.Items[i])
		err := w.send(s.Namespace, func(ctx context.Context) error { return w.Client.Delete(ctx, m, plan.KeyOf(&list.Items[i]), options) })
		w.ended(m, "delete", err)
		if err != nil && !Unsupported(err) && !apierrors.IsConflict(err) { // another object has the name: the next list shows it
			return err
		}
	}
	return nil
}

// Unsupported reports whether the server has answered that there is no such request, or no such resource (NS-17).
func Unsupported(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
