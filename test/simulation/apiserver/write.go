package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Verb is what a write does, as authorization and the audit log call it.
type Verb string

// The verbs of writes.
const (
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch"
	Delete Verb = "delete"
)

// Write is a write.
type Write struct {
	By    string // who writes
	Agent string // with which user agent
	Verb  Verb

	Resource, Subresource string // filled in by Do if there is an Object
	Namespace, Name       string // of what exists, or of the request's path; filled in likewise
	Object                Object // to create, or to replace what exists
	PatchType             types.PatchType
	Patch                 []byte
	Options               metav1.DeleteOptions
}

// Do carries out a write. It returns the object as it then is, or was when it was deleted. The caller keeps what it
// passes.
func (s *Server) Do(w Write) (Object, error) {
	r := s.perform(w)
	return r.After, r.Err
}

func (s *Server) perform(w Write) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.Object != nil {
		if w.Resource == "" {
			w.Resource = s.storeOf(w.Object).Resource
		}
		orDefault(&w.Namespace, w.Object.GetNamespace())
		if w.Verb != Create {
			orDefault(&w.Name, w.Object.GetName())
		}
	}
	s.writer = w.By
	st := s.stores[w.Resource]
	r := Result{Before: st.objects[keyOf(w.Namespace, w.Name)]}
	r.After, r.Err = s.do(st, w)
	if r.Err != nil {
		r.After = nil
	}
	if s.Wrote != nil {
		s.Wrote(w, r)
	}
	return r
}

func (s *Server) do(st *store, w Write) (Object, error) {
	if w.Verb == Create {
		return s.create(st, w)
	}
	if o := w.Object; o != nil && (o.GetName() != w.Name || o.GetNamespace() != "" && o.GetNamespace() != w.Namespace) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), w.Name))
	}
	old := st.objects[keyOf(w.Namespace, w.Name)]
	if old == nil && w.Verb == Update && w.Subresource == "" && st.puttable {
		if uid := w.Object.GetUID(); uid != "" {
			return nil, conflict(st, w.Name, fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: ", uid))
		}
		w.Name, w.Object = "", w.Object.DeepCopyObject().(Object)
		w.Object.SetResourceVersion("")
		return s.create(st, w)
	}
	if old == nil {
		return nil, apierrors.NewNotFound(st.groupResource(), w.Name)
	}
	if w.Verb == Delete {
		return s.delete(st, old, w.Options)
	}
	o, err := s.wanted(st, old, w)
	if err != nil {
		return nil, err
	}
	return s.replace(st, old, o, w.Subresource)
}

func (s *Server) create(st *store, w Write) (Object, error) {
	if w.Name != "" { // a subresource that is created: none is known here
		return nil, apierrors.NewMethodNotSupported(st.groupResource(), "create")
	}
	o := w.Object.DeepCopyObject().(Object)
	if err := s.checkNamespace(st, w.Namespace, o); err != nil {
		return nil, err
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(o.GetGenerateName() + s.suffix())
	}
	setType(st, o)
	o.SetResourceVersion("")
	s.beginLife(st, o)
	if errs := st.check(o, nil); len(errs) > 0 {
		return nil, apierrors.NewInvalid(st.GroupVersionKind.GroupKind(), o.GetName(), errs)
	}
	if w.Object.GetResourceVersion() != "" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "resourceVersion should not be set on objects to be created"}}
	}
	if s.Admit != nil {
		if err := s.Admit(o); err != nil {
			return nil, err
		}
	}
	if st.objects[keyOf(w.Namespace, o.GetName())] != nil {
		return nil, apierrors.NewAlreadyExists(st.groupResource(), o.GetName())
	}
	s.commit(st, nil, o, false)
	return o, nil
}

// beginLife sets what the server decides of a new object.
func (s *Server) beginLife(st *store, o Object) {
	o.SetUID(s.uid())
	o.SetCreationTimestamp(now())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetSelfLink("")
	o.SetManagedFields(nil)
	if st.generations {
		o.SetGeneration(1)
	}
	if st.status != nil {
		copyPart(st.status, o, st.New())
	}
	if st.defaults != nil {
		st.defaults(o)
	}
	if st.Kind.create != nil {
		st.Kind.create(s, o)
	}
}

// checkNamespace refuses what cannot be created in a namespace: one that is not there, or is being deleted.
func (s *Server) checkNamespace(st *store, namespace string, o Object) error {
	if st.Cluster {
		return nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(namespace)
	}
	if o.GetNamespace() != namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	n := s.stores["namespaces"].objects[keyOf("", namespace)]
	if n == nil {
		return apierrors.NewNotFound(s.stores["namespaces"].groupResource(), namespace)
	}
	if n.GetDeletionTimestamp() != nil {
		err := apierrors.NewForbidden(st.groupResource(), o.GetName(),
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace",
		})
		return err
	}
	return nil
}

// wanted returns what a write makes of an object, before the server has its say.
func (s *Server) wanted(st *store, old Object, w Write) (Object, error) {
	if w.Subresource != "" && (w.Subresource != "status" || st.status == nil) {
		return nil, apierrors.NewNotFound(st.groupResource(), w.Name)
	}
	if w.Verb == Patch {
		return patched(st, old, w)
	}
	o := w.Object.DeepCopyObject().(Object)
	o.SetNamespace(w.Namespace)
	if o.GetUID() != "" && o.GetUID() != old.GetUID() {
		return nil, conflict(st, w.Name, fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", o.GetUID(), old.GetUID()))
	}
	if o.GetResourceVersion() == "" && st.versioned {
		return nil, apierrors.NewInvalid(st.GroupVersionKind.GroupKind(), w.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update")})
	}
	return o, nil
}

func patched(st *store, old Object, w Write) (Object, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var after []byte
	switch w.PatchType {
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, w.Patch, st.New())
	case types.MergePatchType:
		after, err = mergePatch(before, w.Patch)
	default:
		return nil, apierrors.NewGenericServerResponse(415, string(w.Verb), st.groupResource(), w.Name, "patches of type "+string(w.PatchType), 0, true)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o := st.New()
	if err := json.Unmarshal(after, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

// mergePatch applies a JSON merge patch (RFC 7386).
func mergePatch(document, patch []byte) ([]byte, error) {
	var o, p map[string]any
	if err := errors.Join(json.Unmarshal(document, &o), json.Unmarshal(patch, &p)); err != nil {
		return nil, err
	}
	mergeInto(o, p)
	return json.Marshal(o)
}

func mergeInto(o, patch map[string]any) {
	for key, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(o, key)
		case isObject:
			into, ok := o[key].(map[string]any)
			if !ok {
				into = map[string]any{}
				o[key] = into
			}
			mergeInto(into, inner)
		default:
			o[key] = value
		}
	}
}

// replace puts a new state in the place of an old one.
func (s *Server) replace(st *store, old, o Object, subresource string) (Object, error) {
	if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil, conflict(st, old.GetName(), fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	o.SetResourceVersion(old.GetResourceVersion())
	setType(st, o)
	s.keep(st, old, o, subresource)
	if errs := st.check(o, old); len(errs) > 0 {
		return nil, apierrors.NewInvalid(st.GroupVersionKind.GroupKind(), old.GetName(), errs)
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && ptr.Deref(o.GetDeletionGracePeriodSeconds(), 0) == 0 {
		s.remove(st, old, o)
		return o, nil
	}
	if equality.Semantic.DeepEqual(old, o) {
		return old, nil // what changes nothing makes no version
	}
	s.commit(st, old, o, false)
	return o, nil
}

// keep sets what a write may not change to what it was.
func (s *Server) keep(st *store, old, o Object, subresource string) {
	o.SetGeneration(old.GetGeneration())
	o.SetSelfLink("")
	o.SetManagedFields(nil)
	if o.GetUID() == "" {
		o.SetUID(old.GetUID())
	}
	if at := o.GetCreationTimestamp(); at.IsZero() {
		o.SetCreationTimestamp(old.GetCreationTimestamp())
	}
	if o.GetDeletionTimestamp() == nil {
		o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if o.GetDeletionGracePeriodSeconds() == nil {
		o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	switch {
	case subresource == "status":
		copyPart(st.spec, o, old)
	case st.status != nil:
		copyPart(st.status, o, old)
	}
	if st.Kind.update != nil {
		st.Kind.update(o, old, subresource)
	}
	if st.defaults != nil {
		st.defaults(o)
	}
	if st.generations && (!equality.Semantic.DeepEqual(st.spec(old), st.spec(o)) || st.annotated && subresource == "" &&
		!maps.Equal(old.GetAnnotations(), o.GetAnnotations())) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
}

// check is the validation that objects of all kinds go through, and that of the kind.
func (st *store) check(o, old Object) field.ErrorList {
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(o, !st.Cluster, validation.NameIsDNSSubdomain, path)
	if old != nil {
		errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(o, old, path)...)
	}
	if st.validate != nil {
		errs = append(errs, st.validate(o, old)...)
	}
	return errs
}

func (s *Server) delete(st *store, old Object, opts metav1.DeleteOptions) (Object, error) {
	if p := opts.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() {
			return nil, conflict(st, old.GetName(), fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, old.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return nil, conflict(st, old.GetName(), fmt.Errorf("precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, old.GetResourceVersion()))
		}
	}
	o := old.DeepCopyObject().(Object)
	o.SetFinalizers(finalizersFor(o.GetFinalizers(), opts))
	grace := int64(0)
	if st.graceful != nil {
		grace = st.graceful(o, opts.GracePeriodSeconds)
	}
	if st.doom != nil {
		st.doom(o)
	}
	dying := old.GetDeletionTimestamp() != nil
	if dying && opts.GracePeriodSeconds == nil && ptr.Deref(old.GetDeletionGracePeriodSeconds(), 0) > 0 {
		grace = *old.GetDeletionGracePeriodSeconds() // it is on its way
	}
	if dying {
		grace = min(grace, ptr.Deref(old.GetDeletionGracePeriodSeconds(), 0))
	}
	gone := grace == 0 && len(o.GetFinalizers()) == 0
	if !gone || st.graceful != nil {
		st.beginEnd(o, grace)
	}
	if !equality.Semantic.DeepEqual(old, o) {
		s.commit(st, old, o, false)
		old = o
	}
	if gone {
		last := old.DeepCopyObject().(Object)
		s.remove(st, old, last)
		return last, nil
	}
	return old, nil
}

// remove takes an object out, and with a service the Endpoints of its name.
func (s *Server) remove(st *store, old, last Object) {
	s.commit(st, old, last, true)
	if st.Resource != "services" {
		return
	}
	s.writer = "server"
	endpoints := s.stores["endpoints"]
	if e := endpoints.objects[keyOf(old.GetNamespace(), old.GetName())]; e != nil {
		_, _ = s.delete(endpoints, e, metav1.DeleteOptions{})
	}
}

// beginEnd marks an object as being deleted, or one that is being deleted as having less time.
func (st *store) beginEnd(o Object, grace int64) {
	if end := o.GetDeletionTimestamp(); end != nil {
		if less := ptr.Deref(o.GetDeletionGracePeriodSeconds(), 0) - grace; less > 0 {
			sooner := metav1.NewTime(end.Add(-time.Duration(less) * time.Second))
			o.SetDeletionTimestamp(&sooner)
			o.SetDeletionGracePeriodSeconds(&grace)
		}
		return
	}
	end := metav1.NewTime(now().Add(time.Duration(grace) * time.Second))
	o.SetDeletionTimestamp(&end)
	o.SetDeletionGracePeriodSeconds(&grace)
	if o.GetGeneration() > 0 {
		o.SetGeneration(o.GetGeneration() + 1)
	}
}

// finalizersFor returns what must be done before an object may go, given what is to become of its dependents.
func finalizersFor(has []string, opts metav1.DeleteOptions) []string {
	if opts.PropagationPolicy == nil {
		return has
	}
	kept := slices.DeleteFunc(slices.Clone(has), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch *opts.PropagationPolicy {
	case metav1.DeletePropagationOrphan:
		return append(kept, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		return append(kept, metav1.FinalizerDeleteDependents)
	}
	return kept
}

// setType writes the type into an object, as the encoder would.
func setType(st *store, o Object) { o.GetObjectKind().SetGroupVersionKind(st.GroupVersionKind) }

// uid makes up a uid.
func (s *Server) uid() types.UID {
	a, b := s.random.Uint64(), s.random.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", uint32(a), uint16(a>>32), a>>52, b>>52, b&0xffffffffffff))
}

// suffix makes up the end of a generated name.
func (s *Server) suffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	name := make([]byte, 5)
	for i := range name {
		name[i] = letters[s.random.IntN(len(letters))]
	}
	return string(name)
}

// now is the time as objects have it: whole seconds.
func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

func conflict(st *store, name string, err error) error {
	return apierrors.NewConflict(st.groupResource(), name, err)
}
