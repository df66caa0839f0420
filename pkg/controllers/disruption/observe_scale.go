package disruption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/scale"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// rememberedFor is how long the scale of an owner that was read live is remembered, unless the owner gains or loses
// pods before.
const rememberedFor = 5 * time.Second

// mapper finds out how owners are addressed. [client.Mapper] does.
type mapper interface {
	Mapping(ctx context.Context, kind schema.GroupVersionKind) (client.Mapping, error)
	HasSubresource(ctx context.Context, of client.Mapping, name string) (bool, error)
}

// liveScale is what the API server has answered about an owner that no cache has. The memory keeps it for a
// few seconds.
type liveScale struct {
	// Replicas is how many pods the owner is meant to have.
	Replicas int32
	Error    string // of an owner that has no scale; empty if it has one
	// Read is when the server has answered. The answer counts for a few seconds.
	Read time.Time
	Pods int // that the owner had then
}

// errNoController is said of pods whose owner is gone, or is another object of the same name (DIS-20i).
var errNoController = errors.New("owner not found")

// scaling finds the scale of the owners of a budget's pods.
type scaling struct {
	*caches
	// request is that of the reconcile: its time and its reader.
	request   request
	namespace string
	memory    map[types.UID]liveScale // of owners that were read live before
	read      map[types.UID]liveScale // what to remember
}

// observe adds up the scales of the owners, each of which counts once (DIS-19).
func (k *scaling) observe(ctx context.Context, pods *selection) (s ownersScale) {
	seen := make(map[types.UID]int32, len(pods.Counts.Owners))
	failed := map[types.UID]error{}
	for uid, o := range pods.Counts.Owners {
		by, replicas, err := k.scaleOf(ctx, o)
		if err != nil {
			failed[uid] = err
			continue
		}
		seen[by] = replicas
	}
	if len(failed) > 0 {
		s.Error = firstFailure(pods, failed)
	}
	for _, replicas := range seen {
		s.Replicas += int64(replicas)
	}
	s.Owners = len(seen)
	for _, l := range k.read {
		if age := k.request.Now.Sub(l.Read); age > 0 {
			s.Stale = plan.Sooner(s.Stale, max(rememberedFor-age, time.Millisecond))
		}
	}
	return s
}

// firstFailure returns the failure of the first pod by name, so that what is said does not change from one reconcile
// to the next. There is at least one.
func firstFailure(pods *selection, failed map[types.UID]error) string {
	names := map[types.UID]string{}
	for name, p := range pods.Pods.All() {
		if first, ok := names[p.Owner]; failed[p.Owner] != nil && (!ok || name < first) {
			names[p.Owner] = name
		}
	}
	owners := slices.Collect(maps.Keys(names))
	if len(owners) == 0 { // no pod of theirs is known
		owners = slices.Collect(maps.Keys(failed))
	}
	of := slices.MinFunc(owners, func(a, b types.UID) int {
		return cmp.Or(cmp.Compare(names[a], names[b]), cmp.Compare(a, b))
	})
	if errors.Is(failed[of], errNoController) {
		return fmt.Sprintf("found no controllers for pod %q", names[of])
	}
	return failed[of].Error()
}

// scaleOf returns what an owner is meant to have, and the uid of who decides that: the Deployment of a ReplicaSet,
// and otherwise the owner itself.
func (k *scaling) scaleOf(ctx context.Context, o owner) (by types.UID, replicas int32, err error) {
	w, ok := k.cached(&o.Ref)
	if set, is := w.Object.(*appsv1.ReplicaSet); is {
		if above := metav1.GetControllerOfNoCopy(set); isDeployment(above) {
			w, ok = k.cached(above)
		}
	}
	if ok && !isDeployment(&o.Ref) {
		return w.Object.GetUID(), w.Replicas, nil
	}
	replicas, err = k.liveScaleOf(ctx, o)
	return o.Ref.UID, replicas, err
}

// cached returns the workload that a reference means, if it is in the caches.
func (k *scaling) cached(ref *metav1.OwnerReference) (scale.Workload, bool) {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	switch kind.String() {
	case "ReplicaSet.extensions", "Deployment.extensions":
		kind.Group = appsv1.GroupName
	}
	w, ok := k.workloads.Get(kind, k.namespace, ref.Name)
	if !ok || w.Object.GetUID() != ref.UID {
		return scale.Workload{}, false
	}
	return w, true
}

// isDeployment reports whether a reference is to a Deployment, of the present group or of an earlier one. The
// reference may be nil.
func isDeployment(ref *metav1.OwnerReference) bool {
	if ref == nil {
		return false
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind().String()
	return kind == "Deployment.apps" || kind == "Deployment.extensions"
}

// liveScaleOf returns the scale of an owner that is not in the caches (DIS-20e). What the server has answered is
// remembered for a while, but not when the owner has more or fewer pods than then: its scale may have changed.
func (k *scaling) liveScaleOf(ctx context.Context, o owner) (int32, error) {
	l, known := k.memory[o.Ref.UID]
	if !known || l.Pods != o.Pods || k.request.Now.Sub(l.Read) >= rememberedFor {
		replicas, err := k.readScale(ctx, o.Ref)
		l = liveScale{Replicas: replicas, Read: k.request.Now, Pods: o.Pods}
		var lacking noScaleError
		switch {
		case errors.As(err, &lacking):
			l.Error = err.Error()
		case err != nil:
			return 0, err
		}
	}
	k.read[o.Ref.UID] = l
	if l.Error != "" {
		return 0, errors.New(l.Error)
	}
	return l.Replicas, nil
}

// noScaleError is that of a kind whose objects have no scale, whatever becomes of them.
type noScaleError struct{ error }

// readScale reads the scale of an owner from the API server.
func (k *scaling) readScale(ctx context.Context, ref metav1.OwnerReference) (int32, error) {
	m, err := k.mapper.Mapping(ctx, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	if meta.IsNoMatchError(err) {
		return 0, noScaleError{fmt.Errorf("no matches for kind %q in version %q", ref.Kind, ref.APIVersion)}
	}
	if err != nil {
		return 0, fmt.Errorf("kind %s in version %s: %w", ref.Kind, ref.APIVersion, err)
	}
	key := plan.Key{Name: ref.Name}
	if m.Namespaced {
		key.Namespace = k.namespace
	}
	found, err := k.request.Reader.GetScale(ctx, m, key)
	switch {
	case apierrors.IsNotFound(err): // the owner is gone, or its kind has no scale
		has, failed := k.mapper.HasSubresource(ctx, m, "scale")
		if failed != nil {
			return 0, fmt.Errorf("subresources of %s: %w", m.GroupResource(), failed)
		}
		if !has {
			return 0, noScaleError{fmt.Errorf("%s does not implement the scale subresource", m.GroupResource())}
		}
		return 0, errNoController
	case err != nil:
		return 0, fmt.Errorf("scale of %s %s: %w", m.GroupResource(), ref.Name, err)
	case found.UID != ref.UID:
		return 0, errNoController
	}
	return found.Spec.Replicas, nil
}

// workload is what budgets look at in the owners that are cached.
type workload struct {
	replicas int32
	labels   map[string]string // of the pods that it makes
	by       types.UID         // of its controller
}

// workloadOf returns what budgets look at in a workload.
func workloadOf(o plan.Object) workload {
	w := workload{by: controllerOf(o)}
	of, _ := scale.Of(o)
	if w.replicas = of.Replicas; of.Template != nil {
		w.labels = of.Template.Labels
	}
	return w
}
