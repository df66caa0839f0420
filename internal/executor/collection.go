package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/paging"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// deleteCollection deletes all objects of a kind in a namespace by one request, or one by one where the server has no
// such request (NS-16), or has refused it: one object that may not be deleted keeps no other one.
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
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 &&
		!apierrors.IsTooManyRequests(err) &&
		!apierrors.IsUnauthorized(err)
}

// mostRefusals is how many deletions, or creations, in a row are refused before it counts as the answer for all: a
// right is missing, a webhook refuses the kind, or a quota is used up.
const mostRefusals = 20

// listTimeout bounds the list of a page.
const listTimeout = 30 * time.Second

// deletedAtOnce is of how many objects one page has, so that a server which says that there are very many costs no
// memory.
const deletedAtOnce = 500

// deleteEach lists the objects live and deletes one after the other, whatever becomes of the others. A resource that
// cannot be listed either has nothing that could be deleted (NS-17). What is on a page that the server does not know
// any more is left to the next time.
func (w *Writing) deleteEach(m client.Mapping, s plan.DeleteCollection) error {
	one := deletions{Writing: w, kind: m, step: plan.Delete{Propagation: s.Propagation, Unowned: true}}
	var pages paging.List
	for o := (metav1.ListOptions{Limit: deletedAtOnce}); ; {
		page := &metav1.PartialObjectMetadataList{}
		switch err := one.list(s.Namespace, o, page); {
		case Unsupported(err), o.Continue != "" && apierrors.IsResourceExpired(err):
			return one.first
		case err != nil:
			return err
		}
		for i := range page.Items {
			if goOn, err := one.delete(s.Namespace, &page.Items[i]); !goOn {
				return err
			}
		}
		if err := pages.Next(page.Continue); err != nil {
			return fmt.Errorf("list %s: %w", m.GroupResource(), err)
		}
		if o.Continue = page.Continue; o.Continue == "" {
			return one.first
		}
	}
}

// deletions are those of objects of a kind, one after the other.
type deletions struct {
	*Writing
	kind     client.Mapping
	step     plan.Delete
	first    error // that the server has refused
	refusals int   // in a row
}

// list reads a page of metadata, within a time of its own.
func (d *deletions) list(namespace string, o metav1.ListOptions, into *metav1.PartialObjectMetadataList) error {
	bounded, cancel := context.WithTimeout(d.ctx, listTimeout)
	defer cancel()
	return d.Client.List(bounded, d.kind, namespace, o, into)
}

// delete deletes an object, unless it is being deleted, and says whether to go on with the next one.
func (d *deletions) delete(namespace string, o *metav1.PartialObjectMetadata) (goOn bool, err error) {
	if o.DeletionTimestamp != nil {
		return true, nil
	}
	options := d.deleteOptions(d.step, o)
	err = d.send(namespace,
		func(ctx context.Context) error { return d.Client.Delete(ctx, d.kind, plan.KeyOf(o), options) })
	d.ended(d.kind, "delete", err)
	switch {
	case err == nil, Unsupported(err), isConflict(err): // another object has the name: the next list shows it
		d.refusals = 0
		return true, nil
	case !refused(err):
		return false, err
	case d.first == nil:
		d.first = fmt.Errorf("delete %s: %w", o.Name, err)
	}
	d.refusals++
	return d.refusals < mostRefusals, d.first
}

// Unsupported reports whether the server has answered that there is no such request, or no such resource (NS-17).
func Unsupported(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
