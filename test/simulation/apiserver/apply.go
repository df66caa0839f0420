package apiserver

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// typedFields knows the fields of all built-in kinds, and how their lists are merged. It is made when it is first needed,
// as that takes long.
var typedFields = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

// applied returns what a server-side apply makes of an object.
func (s *Server) applied(st *store, old Object, w Write) (Object, error) {
	if w.Manager == "" {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{
			field.Required(field.NewPath("fieldManager"), "is required for apply patch")})
	}
	wanted, err := decodeApplied(st, w)
	if err != nil {
		return nil, err
	}
	m, err := st.managerOf(w.Subresource)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	live, err := st.attributed(old)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	o, err := m.Apply(live, wanted, w.Manager, w.Force)
	if err != nil {
		if _, ok := err.(apierrors.APIStatus); !ok {
			err = apierrors.NewInternalError(err)
		}
		return nil, err
	}
	if o == nil { // the library's word for no change
		return live, nil
	}
	return o.(Object), nil
}

// earlierWriter manages the fields that objects have when they are applied for the first time.
const earlierWriter = "before-first-apply"

// attributed returns a copy of an object of which it is known who manages its fields.
func (st *store) attributed(o Object) (Object, error) {
	live := o.DeepCopyObject().(Object)
	if o.GetUID() == "" || len(o.GetManagedFields()) > 0 {
		return live, nil
	}
	main, err := st.managerOf("")
	if err != nil {
		return nil, err
	}
	empty := st.New()
	setType(st.Kind, empty)
	if !st.hasStatus() {
		return main.UpdateNoErrors(empty, live, earlierWriter).(Object), nil
	}
	status, err := st.managerOf("status")
	if err != nil {
		return nil, err
	}
	without := live.DeepCopyObject().(Object)
	st.copyStatus(without, empty)
	without = main.UpdateNoErrors(empty, without, earlierWriter).(Object)
	live.SetManagedFields(without.GetManagedFields())
	return status.UpdateNoErrors(without, live, earlierWriter).(Object), nil
}

// createByApply creates an object that was applied and is not there.
func (s *Server) createByApply(st *store, w Write) (Object, error) {
	empty := st.New()
	setType(st.Kind, empty)
	o, err := s.applied(st, empty, w)
	if err != nil {
		return nil, err
	}
	if uid := o.GetUID(); uid != "" {
		return nil, conflict(st, w.Name, errUID(uid, ""))
	}
	w.Name, w.Object = "", o
	return s.create(st, w)
}

// manage records who has written the fields of an object. It does so only for objects that have been applied before: of
// others nobody asks, and the first apply takes all fields for those of one earlier writer, as a server does with objects
// from before it recorded them.
func (s *Server) manage(st *store, old, o Object, w Write) (Object, error) {
	if w.PatchType == types.ApplyPatchType || len(old.GetManagedFields()) == 0 {
		return o, nil
	}
	m, err := st.managerOf(w.Subresource)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	managed := m.UpdateNoErrors(old, o, w.Manager)
	return managed.(Object), nil
}

// managerOf returns what keeps the managed fields of objects, written by way of a subresource.
func (st *store) managerOf(subresource string) (*managedfields.FieldManager, error) {
	if m := st.managers[subresource]; m != nil {
		return m, nil
	}
	version := fieldpath.APIVersion(st.GroupVersion().String())
	reset := map[fieldpath.APIVersion]fieldpath.Filter{}
	switch {
	case subresource == "status":
		reset[version] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("spec")))
	case st.hasStatus():
		reset[version] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
	}
	gvk := st.GroupVersionKind
	var m *managedfields.FieldManager
	var err error
	if st.custom() {
		m, err = managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), oneVersion{}, oneVersion{}, oneVersion{},
			gvk, gvk.GroupVersion(), subresource, reset)
	} else {
		m, err = managedfields.NewDefaultFieldManager(typedFields(), scheme.Scheme, oneVersion{}, scheme.Scheme, gvk, gvk.GroupVersion(),
			subresource, reset)
	}
	if err == nil {
		if st.managers == nil {
			st.managers = map[string]*managedfields.FieldManager{}
		}
		st.managers[subresource] = m
	}
	return m, err
}

// oneVersion is for kinds that exist in one version: nothing is converted. The server sets defaults itself, later.
type oneVersion struct{}

func (oneVersion) Default(runtime.Object)    {}
func (oneVersion) Convert(_, _, _ any) error { return nil }
func (oneVersion) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: map[string]any{}}, nil
}
func (oneVersion) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}
func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
