package clienttest

import (
	"context"
	"encoding/json"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Create creates an object (client.Client). Of subresources it knows the eviction of a pod, which deletes it at once.
func (s *Server) Create(_ context.Context, m client.Mapping, o plan.Object,
	opts client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	w := Write{Verb: "create", Mapping: m, Key: plan.KeyOf(o), Options: opts}
	if w.Key.Name == "" {
		w.Key.Name = o.GetGenerateName() + "*"
	}
	made := &metav1.PartialObjectMetadata{}
	err := s.do(w, func() error {
		switch opts.Subresource {
		case "":
			stored, err := s.create(m, o)
			if err == nil {
				made = metadataOf(stored)
			}
			return err
		case "eviction":
			return s.delete(m, w.Key, ptr.Deref(o.(*policyv1.Eviction).DeleteOptions, metav1.DeleteOptions{}))
		}
		return apierrors.NewMethodNotSupported(m.GroupResource(), "create "+opts.Subresource)
	})
	return answer(made, err)
}

// Update replaces an object, or the number of replicas in its scale (client.Client).
func (s *Server) Update(_ context.Context, m client.Mapping, o plan.Object,
	opts client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	var made *metav1.PartialObjectMetadata
	err := s.do(Write{Verb: "update", Mapping: m, Key: plan.KeyOf(o), Options: opts}, func() error {
		old := s.objects[m.GroupVersionKind][plan.KeyOf(o)]
		if old == nil {
			return notFound(m, plan.KeyOf(o))
		}
		if version := o.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
			return conflict(m, plan.KeyOf(o), "the resourceVersion is %s, not %s", old.GetResourceVersion(), version)
		}
		after, err := updated(m, old, o)
		if err != nil {
			return err
		}
		made, err = s.replace(m, old, after)
		return err
	})
	return answer(made, err)
}

// Patch patches an object (client.Client). To apply a patch is to create the object, or to merge the patch into it:
// no fields are owned, so an apply never takes one away and never conflicts.
func (s *Server) Patch(_ context.Context, m client.Mapping, key plan.Key, patch client.Patch,
	opts client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	var made *metav1.PartialObjectMetadata
	err := s.do(Write{Verb: "patch", Mapping: m, Key: key, Options: opts}, func() error {
		old := s.objects[m.GroupVersionKind][key]
		if patch.Type == types.ApplyPatchType && opts.FieldManager == "" {
			return apierrors.NewBadRequest("an apply needs a field manager")
		}
		if old == nil && patch.Type == types.ApplyPatchType {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(patch.Data); err != nil {
				return apierrors.NewBadRequest(err.Error())
			}
			stored, err := s.create(m, u)
			if err == nil {
				made = metadataOf(stored)
			}
			return err
		}
		if old == nil {
			return notFound(m, key)
		}
		after, err := patched(m, old, patch)
		if err != nil {
			return err
		}
		if after.GetResourceVersion() != old.GetResourceVersion() {
			return conflict(m, key, "the resourceVersion is %s, not %s", old.GetResourceVersion(),
				after.GetResourceVersion())
		}
		made, err = s.replace(m, old, after)
		return err
	})
	return answer(made, err)
}

// Delete deletes an object at once (client.Client).
func (s *Server) Delete(_ context.Context, m client.Mapping, key plan.Key, opts metav1.DeleteOptions) error {
	return s.do(Write{Verb: "delete", Mapping: m, Key: key, DeleteOptions: opts},
		func() error { return s.delete(m, key, opts) })
}

// DeleteCollection deletes what matches at once (client.Client).
func (s *Server) DeleteCollection(_ context.Context, m client.Mapping, namespace string, match metav1.ListOptions,
	opts metav1.DeleteOptions) error {
	w := Write{Verb: "deletecollection", Mapping: m, Key: plan.Key{Namespace: namespace}, DeleteOptions: opts}
	return s.do(w, func() error {
		found, err := s.matching(m, namespace, match)
		for _, o := range found {
			if err = s.delete(m, plan.KeyOf(o), opts); err != nil {
				break
			}
		}
		return err
	})
}

// create stores a new object. The caller has the lock.
func (s *Server) create(m client.Mapping, o plan.Object) (plan.Object, error) {
	if _, ok := o.(*metav1.PartialObjectMetadata); ok {
		return nil, apierrors.NewBadRequest("metadata alone cannot be created")
	}
	o, err := stored(m, o)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if o.GetName() == "" {
		o.SetName(fmt.Sprintf("%s%d", o.GetGenerateName(), s.changes+1))
	}
	if s.objects[m.GroupVersionKind][plan.KeyOf(o)] != nil {
		return nil, apierrors.NewAlreadyExists(m.GroupResource(), o.GetName())
	}
	o.SetUID("")
	o.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	return s.store(m.GroupVersionKind, watch.Added, o), nil
}

// replace stores an object in place of another one, unless it says that it is about one of another uid. The caller
// has the lock.
func (s *Server) replace(m client.Mapping, old, o plan.Object) (*metav1.PartialObjectMetadata, error) {
	if uid := o.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, conflict(m, plan.KeyOf(old), "the uid is %s, not %s", old.GetUID(), uid)
	}
	o.SetUID(old.GetUID())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	return metadataOf(s.store(m.GroupVersionKind, watch.Modified, o)), nil
}

// delete takes an object away. The caller has the lock.
func (s *Server) delete(m client.Mapping, key plan.Key, opts metav1.DeleteOptions) error {
	old := s.objects[m.GroupVersionKind][key]
	if old == nil {
		return notFound(m, key)
	}
	if p := opts.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() {
			return conflict(m, key, "the uid is %s, not %s", old.GetUID(), *p.UID)
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return conflict(m, key, "the resourceVersion is %s, not %s", old.GetResourceVersion(), *p.ResourceVersion)
		}
	}
	s.remove(m.GroupVersionKind, old)
	return nil
}

// updated returns what an update makes of an object.
func updated(m client.Mapping, old, o plan.Object) (plan.Object, error) {
	scale, ok := o.(*autoscalingv1.Scale)
	if !ok {
		return stored(m, o)
	}
	u := &unstructured.Unstructured{}
	if err := copyInto(m, old, u); err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(u.Object, int64(scale.Spec.Replicas), "spec", "replicas"); err != nil {
		return nil, err
	}
	return stored(m, u)
}

// patched returns what a patch makes of an object.
func patched(m client.Mapping, old plan.Object, patch client.Patch) (plan.Object, error) {
	u := &unstructured.Unstructured{}
	if err := copyInto(m, old, u); err != nil {
		return nil, err
	}
	var err error
	switch {
	case patch.Type == types.StrategicMergePatchType && m.BuiltIn, patch.Type == types.ApplyPatchType && m.BuiltIn:
		u.Object, err = strategic(m, u.Object, patch.Data)
	case patch.Type == types.MergePatchType, patch.Type == types.ApplyPatchType:
		fields := map[string]any{}
		if err = utiljson.Unmarshal(patch.Data, &fields); err == nil {
			u.Object = merge(u.Object, fields)
		}
	default:
		return nil,
			apierrors.NewGenericServerResponse(415, "patch", m.GroupResource(), old.GetName(),
				"no such patches: "+string(patch.Type), 0, true)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return stored(m, u)
}

// strategic carries out a strategic merge patch.
func strategic(m client.Mapping, fields map[string]any, patch []byte) (map[string]any, error) {
	example, err := newTyped(m)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if data, err = strategicpatch.StrategicMergePatch(data, patch, example); err != nil {
		return nil, err
	}
	after := map[string]any{}
	return after, utiljson.Unmarshal(data, &after)
}

// merge carries out a JSON merge patch (RFC 7386).
func merge(fields, patch map[string]any) map[string]any {
	if fields == nil {
		fields = map[string]any{}
	}
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(fields, key)
		case map[string]any:
			inner, _ := fields[key].(map[string]any)
			fields[key] = merge(inner, value)
		default:
			fields[key] = value
		}
	}
	return fields
}

// answer is what a client returns of a write.
func answer(made *metav1.PartialObjectMetadata, err error) (*metav1.PartialObjectMetadata, error) {
	if err != nil {
		return nil, err
	}
	return made, nil
}

func conflict(m client.Mapping, key plan.Key, format string, values ...any) error {
	return apierrors.NewConflict(m.GroupResource(), key.Name, fmt.Errorf(format, values...))
}
