package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Data returns the strategic merge patch that gives an object this template (STS-30, DS-50). Equal templates have
// equal bytes: compact JSON, with sorted keys, in which <, > and & are escaped.
func Data(template *corev1.PodTemplateSpec) ([]byte, error) {
	encoded, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encode the template: %w", err)
	}
	fields := map[string]any{}
	if err := utiljson.Unmarshal(encoded, &fields); err != nil { // in a map, keys are encoded in order
		return nil, fmt.Errorf("decode the template: %w", err)
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// Template returns the template that a revision keeps.
func Template(r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var kept struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := utiljson.Unmarshal(r.Data.Raw, &kept); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s: decode its data: %w", r.Name, err)
	}
	if kept.Spec.Template == nil {
		return nil, fmt.Errorf("ControllerRevision %s: its data has no template", r.Name)
	}
	return kept.Spec.Template, nil
}

// New returns a revision that keeps the template of owner, which is of the given kind. The caller adds its name and
// the label with its hash (see [Name]); the labels are a map of their own.
func New(owner plan.Object, kind schema.GroupVersionKind, template *corev1.PodTemplateSpec,
	number int64) (*appsv1.ControllerRevision, error) {
	data, err := Data(template)
	if err != nil {
		return nil, err
	}
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(),
			Labels:    map[string]string{},
			// among them kubernetes.io/change-cause, which kubectl rollout history shows
			Annotations:     maps.Clone(owner.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
	maps.Copy(r.Labels, template.Labels)
	return r, nil
}

// Equal reports whether a revision has exactly this data.
func Equal(r *appsv1.ControllerRevision, data []byte) bool { return bytes.Equal(r.Data.Raw, data) }

// Same reports whether a revision keeps the template, whatever its encoding: nil equals empty, and quantities are
// compared by value. Data that cannot be read is not the same.
func Same(r *appsv1.ControllerRevision, template *corev1.PodTemplateSpec) bool {
	kept, err := Template(r)
	return err == nil && equality.Semantic.DeepEqual(kept, template)
}

// Compare orders revisions: by number, then by age, then by name (STS-32).
func Compare(a, b *appsv1.ControllerRevision) int {
	return cmp.Or(
		cmp.Compare(a.Revision, b.Revision),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// Sorted returns the revisions from the oldest to the newest.
func Sorted(revisions []*appsv1.ControllerRevision) []*appsv1.ControllerRevision {
	return slices.SortedFunc(slices.Values(revisions), Compare)
}

// Next returns the number after that of all revisions: 1 if there is none (STS-33, DS-53).
func Next(revisions []*appsv1.ControllerRevision) int64 {
	var highest int64
	for _, r := range revisions {
		highest = max(highest, r.Revision)
	}
	if highest == math.MaxInt64 {
		return highest
	}
	return highest + 1
}

// Numbered returns a copy of a revision with another number.
func Numbered(r *appsv1.ControllerRevision, number int64) *appsv1.ControllerRevision {
	raised := r.DeepCopy()
	raised.Revision = number
	return raised
}

// DefaultLimit is how many revisions are kept if the owner does not say (STS-37, DS-58).
const DefaultLimit int32 = 10

// Surplus returns the oldest of the revisions that are more than the limit, the oldest first, without those that are
// used. Revisions that are being deleted already do not count (STS-37, DS-58).
func Surplus(revisions []*appsv1.ControllerRevision, limit int32,
	used func(*appsv1.ControllerRevision) bool) (surplus []plan.Object) {
	kept := slices.DeleteFunc(Sorted(revisions),
		func(r *appsv1.ControllerRevision) bool { return r.DeletionTimestamp != nil })
	for _, r := range kept {
		if len(surplus) < len(kept)-int(limit) && !used(r) {
			surplus = append(surplus, r)
		}
	}
	return surplus
}
