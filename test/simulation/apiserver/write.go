package apiserver

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Verb is what a write does, as authorization and the audit log call it.
type Verb string

// The verbs of writes.
const (
	Create           Verb = "create"
	Update           Verb = "update"
	Patch            Verb = "patch"
	Delete           Verb = "delete"
	DeleteCollection Verb = "deletecollection" // each object that it deletes is a Write of its own
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
	DryRun                bool   // nothing is stored
	Manager               string // of the fields that are applied
	Force                 bool   // fields that others manage are applied nevertheless
	Admitted              bool   // a creation that the namespace took when the request came, whatever it is now
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
			w.Resource = s.storeOf(w.Object).key
		}
		orDefault(&w.Namespace, w.Object.GetNamespace())
		if w.Verb != Create {
			orDefault(&w.Name, w.Object.GetName())
		}
	}
	s.writer, s.dryRun = w.By, w.DryRun
	st := s.stores[w.Resource]
	r := Result{Before: st.objects[keyOf(w.Namespace, w.Name)]}
	r.After, r.Answer, r.Err = s.do(st, w)
	if r.Err != nil {
		r.After, r.Answer = nil, nil
	}
	s.dryRun = false
	if s.Wrote != nil {
		s.Wrote(w, r)
	}
	return r
}

func (s *Server) do(st *store, w Write) (after Object, answer runtime.Object, err error) {
	old := st.objects[keyOf(w.Namespace, w.Name)]
	if w.Subresource != "" {
		return s.doSubresource(st, old, w)
	}
	if w.Verb != Create {
		if err := sameName(w); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case w.Verb == Create:
		after, err = s.create(st, w)
	case old == nil && w.Verb == Update && st.puttable:
		after, err = s.createByUpdate(st, w)
	case old == nil && w.PatchType == types.ApplyPatchType:
		after, err = s.createByApply(st, w)
	case old == nil:
		err = apierrors.NewNotFound(st.groupResource(), w.Name)
	case w.Verb == Delete, w.Verb == DeleteCollection:
		after, err = s.delete(st, old, w)
	default:
		after, err = s.change(st, old, w)
	}
	return after, nil, err
}

// sameName refuses an object whose name is not that of the path.
func sameName(w Write) error {
	if o := w.Object; o != nil && (o.GetName() != w.Name || o.GetNamespace() != "" && o.GetNamespace() != w.Namespace) {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(),
			w.Name))
	}
	return nil
}

func (s *Server) createByUpdate(st *store, w Write) (Object, error) {
	if uid := w.Object.GetUID(); uid != "" {
		return nil, conflict(st, w.Name, errUID(uid, ""))
	}
	w.Name, w.Object = "", w.Object.DeepCopyObject().(Object)
	w.Object.SetResourceVersion("")
	return s.create(st, w)
}

func (s *Server) create(st *store, w Write) (Object, error) {
	o := w.Object.DeepCopyObject().(Object)
	if err := s.checkNamespace(st, w, o); err != nil {
		return nil, err
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(s.generateName(st, o))
	}
	setType(st.Kind, o)
	o.SetResourceVersion("")
	s.beginLife(st, o)
	if errs := st.check(o, nil); len(errs) > 0 {
		return nil, apierrors.NewInvalid(st.GroupVersionKind.GroupKind(), o.GetName(), errs)
	}
	if w.Object.GetResourceVersion() != "" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "resourceVersion should not be set on objects to be created"}}
	}
	if err := s.admit(w, nil, o); err != nil {
		return nil, err
	}
	if err := s.charge(st, o); err != nil {
		return nil, err
	}
	if st.objects[keyOf(w.Namespace, o.GetName())] != nil {
		return nil, apierrors.NewAlreadyExists(st.groupResource(), o.GetName())
	}
	s.commit(st, nil, o, false)
	return o, nil
}

// beginLife sets what the server decides of a new object.
func (s *Server) beginLife(st *store, o Object) {
	if !st.mirrors {
		o.SetUID(s.uid(st, o))
	}
	o.SetCreationTimestamp(now())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetSelfLink("")
	if st.generations {
		o.SetGeneration(1)
	}
	if st.hasStatus() {
		st.copyStatus(o, st.New())
	}
	if st.defaults != nil {
		st.defaults(o)
	}
	if st.rules.create != nil {
		st.rules.create(s, o)
	}
}

// checkNamespace refuses what cannot be created in a namespace: one that is not there, or is being deleted.
func (s *Server) checkNamespace(st *store, w Write, o Object) error {
	namespace := w.Namespace
	if st.Cluster {
		return nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(namespace)
	}
	if o.GetNamespace() != namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if w.Admitted {
		return nil
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

// admit asks the test whether a write may be done.
func (s *Server) admit(w Write, before, after Object) error {
	if s.Admit == nil {
		return nil
	}
	return s.Admit(Admission{w, before, after})
}

// change updates or patches an object.
func (s *Server) change(st *store, old Object, w Write) (Object, error) {
	o, err := s.wanted(st, old, w)
	if err != nil {
		return nil, err
	}
	return s.replace(st, old, o, w)
}

// wanted returns what a write makes of an object, before the server has its say.
func (s *Server) wanted(st *store, old Object, w Write) (Object, error) {
	if w.Verb == Patch {
		if w.PatchType == types.ApplyPatchType {
			return s.applied(st, old, w)
		}
		return patched(old, st.New(), st.groupResource(), w)
	}
	o := w.Object.DeepCopyObject().(Object)
	o.SetNamespace(w.Namespace)
	if err := checkUID(st, old, o.GetUID()); err != nil {
		return nil, err
	}
	if o.GetResourceVersion() == "" && st.versioned {
		return nil, apierrors.NewInvalid(st.GroupVersionKind.GroupKind(), w.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update")})
	}
	return o, nil
}

// checkUID refuses an update of an object that has taken the place of the one that is meant.
func checkUID(st *store, old Object, uid types.UID) error {
	if uid != "" && uid != old.GetUID() {
		return conflict(st, old.GetName(), errUID(uid, old.GetUID()))
	}
	return nil
}

// replace puts a new state in the place of an old one.
func (s *Server) replace(st *store, old, o Object, w Write) (_ Object, err error) {
	if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil,
			conflict(st, old.GetName(),
				fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	o.SetResourceVersion(old.GetResourceVersion())
	setType(st.Kind, o)
	s.keep(st, old, o, w)
	if o, err = s.manage(st, old, o, w); err != nil {
		return nil, err
	}
	if errs := st.check(o, old); len(errs) > 0 {
		return nil, apierrors.NewInvalid(st.GroupVersionKind.GroupKind(), old.GetName(), errs)
	}
	if err := s.admit(w, old, o); err != nil {
		return nil, err
	}
	if o.GetDeletionTimestamp() != nil && !st.mustStay(o) && ptr.Deref(o.GetDeletionGracePeriodSeconds(), 0) == 0 {
		s.commit(st, old, o, true)
		return o, nil
	}
	if equality.Semantic.DeepEqual(old, o) && !st.outdated[keyOf(old.GetNamespace(), old.GetName())] {
		return old, nil // what changes nothing makes no version
	}
	s.commit(st, old, o, false)
	return o, nil
}

// keep sets what a write may not change to what it was.
func (s *Server) keep(st *store, old, o Object, w Write) {
	o.SetGeneration(old.GetGeneration())
	o.SetSelfLink("")
	if w.PatchType != types.ApplyPatchType {
		o.SetManagedFields(old.GetManagedFields())
	}
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
	if sub := st.subs[w.Subresource]; sub.keep != nil {
		sub.keep(st.Kind, o, old)
	} else if st.hasStatus() {
		st.copyStatus(o, old)
	}
	if st.rules.update != nil {
		st.rules.update(o, old, w.Subresource)
	}
	if st.defaults != nil {
		st.defaults(o)
	}
	if st.generations && st.counts(old, o, w.Subresource) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
}

// counts reports whether a change is one that the generation counts.
func (k *Kind) counts(old, o Object, subresource string) bool {
	return !k.sameContent(old, o) ||
		k.annotated && subresource == "" && !maps.Equal(old.GetAnnotations(), o.GetAnnotations()) ||
		k.labelled && !maps.Equal(old.GetLabels(), o.GetLabels())
}

// check is the validation that objects of all kinds go through, and that of the kind.
func (st *store) check(o, old Object) field.ErrorList {
	metadata, name := field.NewPath("metadata"), validation.NameIsDNSSubdomain
	if st.anyName {
		name = func(name string, _ bool) []string { return content.IsPathSegmentName(name) }
	}
	errs := validation.ValidateObjectMetaAccessor(o, !st.Cluster, name, metadata)
	if old != nil {
		errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(o, old, metadata)...)
	}
	if st.validate != nil {
		errs = append(errs, st.validate(o, old)...)
	}
	return errs
}

// uid makes up the uid of an object. It follows from the kind and the name, and from how many objects had that name before: what else
// is created meanwhile makes no difference.
func (s *Server) uid(st *store, o Object) types.UID {
	r := s.random(nameOf(st, o))
	a, b := r.Uint64(), r.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", uint32(a), uint16(a>>32), a>>52, b>>52, b&0xffffffffffff))
}

// generateName makes up a name. It follows from the kind and the beginning of the name, and from how many names began like that before.
func (s *Server) generateName(st *store, o Object) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	r := s.random(generateNameOf(st, o))
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[r.IntN(len(letters))]
	}
	return o.GetGenerateName() + string(suffix)
}

// random returns a generator for a name, as often as it was taken.
func (s *Server) random(name string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", s.taken[name], name)
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// take counts the names of a new object.
func (s *Server) take(st *store, o Object) {
	s.taken[nameOf(st, o)]++
	if o.GetGenerateName() != "" {
		s.taken[generateNameOf(st, o)]++
	}
}

func nameOf(st *store, o Object) string { return st.key + " " + keyOf(o.GetNamespace(), o.GetName()) }

func generateNameOf(st *store, o Object) string {
	return st.key + " " + keyOf(o.GetNamespace(), o.GetGenerateName()) + "*"
}

// now is the time as objects have it: whole seconds.
func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

func conflict(st *store, name string, err error) error {
	return apierrors.NewConflict(st.groupResource(), name, err)
}

// errUID says that an object is not the one that is meant.
func errUID(want, have types.UID) error {
	return fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", want, have)
}
