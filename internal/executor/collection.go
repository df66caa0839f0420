package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// deleteCollection deletes all objects of a kind in a namespace by one request, or one by one where the server has no such request
// (NS-16), or has refused it: one object that may not be deleted keeps no other one.
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
	if Unsupported(err) || refused(err) {
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

// refused reports whether the server has answered that it will not do what was asked for, because of what it is about.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsUnauthorized(err)
}

// mostRefusals is how many deletions in a row are refused before it counts as the answer for all: a right is missing, or a webhook refuses the kind.
const mostRefusals = 20

// listTimeout bounds a list, which a server may continue without end.
const listTimeout = 30 * time.Second

// deleteEach lists the objects live and deletes one after the other, whatever becomes of the others. A resource that cannot be listed either has
// nothing that could be deleted (NS-17).
func (w *Writing) deleteEach(m client.Mapping, s plan.DeleteCollection) error {
	list := &metav1.PartialObjectMetadataList{}
	bounded, cancel := context.WithTimeout(w.ctx, listTimeout)
	defer cancel()
	if err := w.Client.List(bounded, m, s.Namespace, metav1.ListOptions{}, list); err != nil {
		if Unsupported(err) {
			return nil
		}
		return err
	}
	step := plan.Delete{Propagation: s.Propagation, Unowned: true}
	var first error
	refusals := 0 // in a row
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			continue
		}
		options := w.deleteOptions(step, &list.Items[i])
		err := w.send(s.Namespace, func(ctx context.Context) error { return w.Client.Delete(ctx, m, plan.KeyOf(&list.Items[i]), options) })
		w.ended(m, "delete", err)
		switch {
		case err == nil, Unsupported(err), apierrors.IsConflict(err): // another object has the name: the next list shows it
			refusals = 0
			continue
		case !refused(err):
			return err
		case first == nil:
			first = fmt.Errorf("delete %s: %w", list.Items[i].Name, err)
		}
		if refusals++; refusals == mostRefusals {
			return first
		}
	}
	return first
}

// Unsupported reports whether the server has answered that there is no such request, or no such resource (NS-17).
func Unsupported(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
