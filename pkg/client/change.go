package client

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// Method says how [Change] sends a change.
type Method string

const (
	// MethodPatch sends the difference, with the uid as a precondition. It suits objects of which the caches keep
	// only some fields, and never conflicts over fields that others write.
	MethodPatch Method = "patch"
	// MethodUpdate replaces the object, with the resourceVersion observed as precondition. The object must be whole.
	MethodUpdate Method = "update"
	// MethodApply applies the new object by server-side apply, with the uid as a precondition. It needs a field
	// manager.
	MethodApply Method = "apply"
)

// MethodFor returns how somebody with these rights changes objects, or a subresource of them: by update where they
// may update and not patch, because the bootstrap roles allow nothing else (RB-13); by patch otherwise. A right in
// one namespace counts like one in all.
func MethodFor(rights rbac.Rights, resource schema.GroupResource, subresource string) Method {
	if subresource != "" {
		resource.Resource += "/" + subresource
	}
	all := slices.Concat(append(slices.Collect(maps.Values(rights.In)), rights.Own)...)
	may := func(verb string) bool {
		return slices.ContainsFunc(all, func(r rbac.Rule) bool { return allows(r, resource, subresource, verb) })
	}
	if may("update") && !may("patch") {
		return MethodUpdate
	}
	return MethodPatch
}

// MayGet reports whether somebody with these rights may read any object of a resource.
func MayGet(rights rbac.Rights, resource schema.GroupResource) bool {
	return slices.ContainsFunc(rights.Own, func(r rbac.Rule) bool {
		return len(r.Names) == 0 && allows(r, resource, "", "get")
	})
}

// MayRecordEvents reports whether somebody with these rights may record events of any object, and count those that
// are repeated.
func MayRecordEvents(rights rbac.Rights) bool {
	for _, verb := range []string{"create", "patch"} {
		if !slices.ContainsFunc(rights.Own, func(r rbac.Rule) bool {
			return len(r.Names) == 0 && allows(r, schema.GroupResource{Resource: "events"}, "", verb)
		}) {
			return false
		}
	}
	return true
}

// allows reports whether a rule grants a verb on a resource, or on a subresource of it.
func allows(r rbac.Rule, resource schema.GroupResource, subresource, verb string) bool {
	return (r.Group == resource.Group || r.Group == "*") &&
		(r.Resource == resource.Resource || r.Resource == "*" || subresource != "" && r.Resource == "*/"+subresource) &&
		(slices.Contains(r.Verbs, verb) || slices.Contains(r.Verbs, "*"))
}

// Change brings before, as it was observed, to after. It returns the metadata of what the server made of it, and nil
// if there is no difference: then it makes no request, without Touch. An apply is always sent, as it may change who
// owns the fields.
func Change(ctx context.Context, c Client, m Mapping, before, after plan.Object,
	o WriteOptions) (*metav1.PartialObjectMetadata, error) {
	var patch Patch
	var err error
	switch o.Method {
	case MethodUpdate:
		if equality.Semantic.DeepEqual(before, after) && !o.Touch {
			return nil, nil
		}
		return c.Update(ctx, m, after, o)
	case MethodApply:
		patch, err = m.Applied(after, o)
	case MethodPatch, "":
		patch, err = m.Difference(before, after, o)
	default:
		err = fmt.Errorf("change %s: unknown method %q", m.Kind, o.Method)
	}
	if err != nil || patch.Data == nil {
		return nil, err
	}
	return c.Patch(ctx, m, plan.KeyOf(before), patch, o)
}
