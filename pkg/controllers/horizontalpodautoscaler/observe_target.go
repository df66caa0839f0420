package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// mapper finds out how objects are addressed. [client.Mapper] does.
type mapper interface {
	Mapping(ctx context.Context, kind schema.GroupVersionKind) (client.Mapping, error)
	Mappings(ctx context.Context, kind schema.GroupKind) ([]client.Mapping, error)
	Refresh(ctx context.Context) error
}

// observeTarget finds the scale of the target. That of a built-in workload is made of what the caches have, which
// costs no request; its resourceVersion is a precondition of the write. Anything else is read live (HPA-12).
func (k *caches) observeTarget(ctx context.Context, r request, s *snapshot) error {
	h := s.Autoscaler
	kind, err := targetKind(h)
	if err != nil {
		s.Unparsable = true
		return err
	}
	found := k.cachedTarget(h.Namespace, kind, h.Spec.ScaleTargetRef.Name)
	if found == nil {
		if found, err = k.liveTarget(ctx, r, kind, h); err != nil {
			return err
		}
		k.namespaces.remember(h, found.Selector)
	}
	s.Target = found
	if _, err := metav1.LabelSelectorAsSelector(found.Selector); err != nil {
		s.SelectorErr = err.Error()
	}
	return nil
}

// targetKind is the kind that the autoscaler names. The version that it names does not matter.
func targetKind(h *autoscalingv2.HorizontalPodAutoscaler) (schema.GroupKind, error) {
	ref := h.Spec.ScaleTargetRef
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupKind{}, fmt.Errorf("invalid API version in scale target reference: %w", err)
	}
	return version.WithKind(ref.Kind).GroupKind(), nil
}

// cachedTarget returns the scale of a workload that is in the caches, as the server would show it; nil if it is not
// there.
func (k *caches) cachedTarget(namespace string, kind schema.GroupKind, name string) *target {
	w, ok := k.workloads.Get(kind, namespace, name)
	if !ok {
		return nil
	}
	of, _ := k.workloads.Kind(kind)
	t := &target{
		Kind: of, UID: w.Object.GetUID(), Version: w.Object.GetResourceVersion(), Replicas: w.Replicas,
		Observed: w.Observed, Selector: w.Selector,
	}
	if parsed, err := metav1.LabelSelectorAsSelector(w.Selector); err == nil && w.Selector != nil {
		t.Labels = parsed.String()
	}
	return t
}

// errClusterScoped is said of targets that have no namespace: whoever may create an autoscaler in a namespace must
// not scale them.
var errClusterScoped = errors.New("an autoscaler cannot scale what has no namespace")

// liveTarget reads the scale of the target. If the server has nothing where the mapper says that the kind is, such as
// after a custom resource has lost a version, it looks anew (HPA-12).
func (k *caches) liveTarget(ctx context.Context, r request, kind schema.GroupKind,
	h *autoscalingv2.HorizontalPodAutoscaler) (*target, error) {
	found, stale, err := k.tryTarget(ctx, r, kind, h)
	if stale && k.mayRefresh(r.Now) && k.mapper.Refresh(ctx) == nil {
		found, _, err = k.tryTarget(ctx, r, kind, h)
	}
	return found, err
}

// refreshAfter is how long the mapper is taken for current. Kinds that never had a scale look like those that have
// gone.
const refreshAfter = 30 * time.Second

// mayRefresh reports whether the mapper may be asked to look anew, and notes that it is.
func (k *caches) mayRefresh(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.refreshed) < refreshAfter {
		return false
	}
	k.refreshed = now
	return true
}

// tryTarget tries all versions of a kind; the first error counts. stale says that the server does not know any of them.
func (k *caches) tryTarget(ctx context.Context, r request, kind schema.GroupKind,
	h *autoscalingv2.HorizontalPodAutoscaler) (found *target, stale bool, err error) {
	mappings, err := k.mappings(ctx, kind)
	if err != nil {
		return nil, false, err
	}
	var first error
	stale = len(mappings) > 0
	for _, m := range mappings {
		err := errClusterScoped
		if m.Namespaced {
			found, failed := scaledTarget(ctx, r, m, plan.Key{Namespace: h.Namespace, Name: h.Spec.ScaleTargetRef.Name})
			if failed == nil {
				return found, false, nil
			}
			err = failed
		}
		stale = stale && unknownPath(err)
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = fmt.Errorf("no resource has the kind %q in group %q", kind.Kind, kind.Group)
	}
	return nil, stale, first
}

// unknownPath reports whether the server has answered that it serves nothing there, rather than that it has no object
// of the name.
func unknownPath(err error) bool {
	return apierrors.IsNotFound(err) &&
		strings.Contains(err.Error(), "the server could not find the requested resource")
}

// mappings returns how objects of a kind may be addressed: that of a built-in workload is known, others may
// have several versions.
func (k *caches) mappings(ctx context.Context, kind schema.GroupKind) (found []client.Mapping, err error) {
	if of, ok := k.workloads.Kind(kind); ok {
		m, err := k.mapper.Mapping(ctx, of)
		return []client.Mapping{m}, err
	}
	return k.mapper.Mappings(ctx, kind)
}

// scaledTarget reads the scale of an object. A scale whose selector cannot be read is none (HPA-13).
func scaledTarget(ctx context.Context, r request, m client.Mapping, key plan.Key) (*target, error) {
	s, err := r.Reader.GetScale(ctx, m, key)
	if err != nil {
		return nil, err
	}
	found, err := targetOfScale(m.GroupVersionKind, s)
	if err != nil {
		return nil,
			fmt.Errorf("received an object from a /scale endpoint which was not convertible to autoscaling Scale: %w",
				err)
	}
	return found, nil
}

// targetOfScale returns what an autoscaler needs of a scale that was read live.
func targetOfScale(kind schema.GroupVersionKind, s *autoscalingv1.Scale) (*target, error) {
	t := &target{
		Kind: kind, UID: s.UID, Version: s.ResourceVersion, Replicas: s.Spec.Replicas, Observed: s.Status.Replicas,
		Labels: s.Status.Selector,
	}
	if t.Labels == "" {
		return t, nil
	}
	selector, err := parseSelector(t.Labels)
	if err != nil {
		return nil, fmt.Errorf("failed to parse target selector: %w", err)
	}
	t.Selector = selector
	return t, nil
}

// parseSelector reads a selector as a scale has it.
func parseSelector(text string) (*metav1.LabelSelector, error) {
	requirements, err := labels.ParseToRequirements(text)
	if err != nil {
		return nil, fmt.Errorf("couldn't parse the selector string %q: %w", text, err)
	}
	found := &metav1.LabelSelector{}
	for _, r := range requirements {
		one := metav1.LabelSelectorRequirement{Key: r.Key(), Values: r.Values().List()}
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			one.Operator = metav1.LabelSelectorOpIn
		case selection.NotIn, selection.NotEquals:
			one.Operator = metav1.LabelSelectorOpNotIn
		case selection.Exists:
			one.Operator = metav1.LabelSelectorOpExists
		case selection.DoesNotExist:
			one.Operator = metav1.LabelSelectorOpDoesNotExist
		default:
			// one that compares numbers
			return nil, fmt.Errorf("%q is not a valid label selector operator", r.Operator())
		}
		found.MatchExpressions = append(found.MatchExpressions, one)
	}
	return found, nil
}
