package clusterroleaggregation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// aggregating is the value under which the index has all ClusterRoles with an aggregation rule.
const aggregating = "yes"

// caches are what the controller reads: one cache, with two indexes.
type caches struct {
	roles, rules informers.IndexedStore[*rbacv1.ClusterRole] // by labels; with an aggregation rule
}

// newCaches asks for one cache of ClusterRoles with two indexes: by each label, to find what a selector may
// match, and of the roles that have an aggregation rule.
func newCaches(f *informers.Factory) (*caches, error) {
	byLabels, err1 := informers.IndexedObjects(f, "label", func(role *rbacv1.ClusterRole) (values []string) {
		for label, value := range role.Labels {
			values = append(values, term(label, value))
		}
		return values
	}, fields()...)
	byRule, err2 := informers.IndexedObjects(f, "aggregationRule", func(role *rbacv1.ClusterRole) []string {
		if role.AggregationRule == nil {
			return nil
		}
		return []string{aggregating}
	}, fields()...)
	return &caches{roles: byLabels, rules: byRule}, errors.Join(err1, err2)
}

// fields are those that the controller reads.
func fields() []string { return []string{"rules", "aggregationRule"} }

// term is a label with its value, as the index has them.
func term(label, value string) string { return label + "=" + value }

// observe finds the ClusterRole and those whose rules it is to have. One without an aggregation rule is as good as
// gone (SM-9).
func (k *caches) observe(ctx context.Context,
	r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}], err error) {
	role := k.roles.Get("", r.Key.Name)
	if role == nil || role.AggregationRule == nil {
		return o, nil
	}
	o.Exists, o.Snapshot.Role = true, role
	o.Snapshot.Sources, err = sources(role, k.candidates)
	if err != nil || len(role.Rules) == 0 || slices.ContainsFunc(o.Snapshot.Sources, supplies) {
		return o, err
	}
	o.Exists, o.Snapshot.OwnsRules, err = readOwner(ctx, r.Reader, role)
	return o, err
}

// readOwner asks the server whether this controller owns the rules of a role, because no cache has managedFields. The
// role may be gone, or may have been replaced by another one of its name: then the event of that is on the way.
func readOwner(ctx context.Context, reader client.Reader, role *rbacv1.ClusterRole) (exists, owns bool, err error) {
	roles := client.MappingFor[*rbacv1.ClusterRole]()
	live := &metav1.PartialObjectMetadata{}
	err = reader.Get(ctx, roles, plan.KeyOf(role), live)
	switch {
	case client.IsAbsent(err), err == nil && live.UID != role.UID:
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("who owns the rules: %w", err)
	}
	return true, ownsRules(live.ManagedFields), nil
}

// ownsRules reports whether this controller owns the rules of a ClusterRole: it has applied them, and nobody has
// written others since (SM-5).
func ownsRules(fields []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(fields, func(f metav1.ManagedFieldsEntry) bool {
		if f.Manager != fieldManager || f.Operation != metav1.ManagedFieldsOperationApply || f.FieldsV1 == nil {
			return false
		}
		var owned struct {
			Rules json.RawMessage `json:"f:rules"`
		}
		return json.Unmarshal(f.FieldsV1.GetRawBytes(), &owned) == nil && owned.Rules != nil
	})
}

// candidates is a lookup: the ClusterRoles that may match a selector are those that have one of its labels, or all if
// it names none.
func (k *caches) candidates(selector *metav1.LabelSelector) []*rbacv1.ClusterRole {
	if len(selector.MatchLabels) == 0 {
		return k.roles.In("")
	}
	label := slices.Min(slices.Collect(maps.Keys(selector.MatchLabels)))
	return k.roles.By(term(label, selector.MatchLabels[label]))
}

// enqueuedByRole returns the keys of the ClusterRoles whose rules a change of one of them may change.
func (k *caches) enqueuedByRole(before, after plan.Object) (keys []plan.Key) {
	old, _ := before.(*rbacv1.ClusterRole)
	role, _ := after.(*rbacv1.ClusterRole)
	if old == nil && role == nil {
		return nil
	}
	if itself(old, role) {
		keys = append(keys, plan.KeyOf(cmp.Or(role, old)))
	}
	return append(keys, concerned(k.rules.By(aggregating), old, role)...)
}
