package apiserver

import (
	"encoding/json"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// patched returns what a patch makes of a document. It fills an empty object.
func patched(document, empty Object, resource schema.GroupResource, w Write) (Object, error) {
	before, err := json.Marshal(document)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var after []byte
	_, custom := empty.(*unstructured.Unstructured)
	switch {
	case w.PatchType == types.StrategicMergePatchType && !custom:
		after, err = strategicpatch.StrategicMergePatch(before, w.Patch, empty)
	case w.PatchType == types.MergePatchType:
		if err = json.Unmarshal(w.Patch, &map[string]any{}); err == nil {
			after, err = jsonpatch.MergePatch(before, w.Patch)
		}
	case w.PatchType == types.JSONPatchType:
		if after, err = jsonPatched(before, resource, w); err != nil {
			return nil, err
		}
	default:
		return nil,
			apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, string(w.Verb), resource, w.Name,
				"patches of type "+string(w.PatchType), 0, false)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := json.Unmarshal(after, empty); err != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: resource.Group, Kind: resource.Resource}, w.Name, field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(w.Patch), err.Error())})
	}
	return empty, nil
}

// jsonPatched applies a JSON patch (RFC 6902).
func jsonPatched(document []byte, resource schema.GroupResource, w Write) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(w.Patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	after, err := patch.Apply(document)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", resource, w.Name, err.Error(), 0, false)
	}
	return after, nil
}

// decodeApplied reads the object of a server-side apply.
func decodeApplied(st *store, w Write) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSON(w.Patch)
	if err == nil {
		err = json.Unmarshal(text, &o.Object)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: " + err.Error())
	}
	if o.GetName() == "" {
		o.SetName(w.Name)
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(w.Namespace)
	}
	if err := sameName(Write{Object: o, Name: w.Name, Namespace: w.Namespace}); err != nil {
		return nil, err
	}
	if o.GroupVersionKind() != st.GroupVersionKind {
		return nil, apierrors.NewBadRequest("the kind of the applied object does not match that of the URL")
	}
	return o, nil
}
