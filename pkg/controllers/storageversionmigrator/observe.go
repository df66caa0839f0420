package storageversionmigrator

import (
	"context"
	"errors"
	"net/http"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/discovery"

	"github.com/standalone-kcm/controller-manager/internal/paging"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// finder is [client.Mapper.PreferredResources].
type finder = func(ctx context.Context, verbs ...string) ([]client.Mapping, error)

// caches are what the controller reads besides what it reads live.
type caches struct {
	migrations informers.IndexedStore[*migrationv1.StorageVersionMigration] // by resource
	resources  finder
}

type (
	request     = reconcile.Request[memory]
	observation = reconcile.Observation[snapshot, memory]
)

// enqueued returns a migration that has changed. When it is out of the way of others of its resource, it returns these,
// and the CustomResourceDefinition, which may still say that it is being migrated.
func (k *caches) enqueued(before, after plan.Object) []plan.Key {
	keys := informers.Itself(before, after)
	old, _ := before.(*migrationv1.StorageVersionMigration)
	now, _ := after.(*migrationv1.StorageVersionMigration)
	if old == nil || !blocks(old) || now != nil && blocks(now) {
		return keys
	}
	for _, m := range k.migrations.By(resourceName(old)) {
		if key := plan.KeyOf(m); key != keys[0] {
			keys = append(keys, key)
		}
	}
	if definition := definitionOf(old); definition != "" { // which says so before the migration does
		keys = append(keys, definitionKey(definition))
	}
	return keys
}

// observe finds a migration, whose turn it is, and of one that begins, runs or ends what that takes.
func (k *caches) observe(ctx context.Context, r request) (o observation, err error) {
	if r.Key.Namespace == definitions {
		return observeDefinition(ctx, r, r.Key.Name)
	}
	m := k.migrations.Get("", r.Key.Name)
	if m == nil { // it may have been deleted while it was about to begin
		if r.Memory != nil && r.Memory.Definition != "" {
			o, err = observeDefinition(ctx, r, r.Memory.Definition)
			o.Memory = r.Memory
		}
		return o, err
	}
	seen := memory{UID: m.UID, Definition: definitionOf(m), Limit: smallestPage}
	if r.Memory != nil && r.Memory.UID == m.UID {
		seen = *r.Memory
	}
	o.Exists, o.Memory = true, &seen
	s := &o.Snapshot
	s.Migration, s.Failures = m, r.Failures
	switch s.Stage, s.Before = stageOf(m, k.migrations.By(resourceName(m))); s.Stage {
	case starts:
		err = k.observeStart(ctx, r, s, &seen)
	case runs:
		err = k.observeRun(ctx, r, s, &seen)
	case ends:
		s.CRD, err = readDefinition(ctx, r, definitionOf(m))
	}
	return o, err
}

// observeStart finds the resource, its version now, and its CustomResourceDefinition, which is read first: the version
// is not older.
func (k *caches) observeStart(ctx context.Context, r request, s *snapshot, seen *memory) (err error) {
	if s.CRD, err = readDefinition(ctx, r, definitionOf(s.Migration)); err != nil {
		return err
	}
	if err := k.find(ctx, s, seen); err != nil || !s.Resource.Rewrites {
		return err
	}
	generation := int64(0)
	if s.CRD != nil {
		generation = s.CRD.Generation
	}
	if seen.Version != "" && seen.Generation == generation { // the status that says so was undone, or refused
		s.Version = seen.Version
		return nil
	}
	s.Version, s.Unlisted, err = versionOf(ctx, r, *seen)
	seen.Version, seen.Generation = s.Version, generation
	return err
}

// observeRun reads a page.
func (k *caches) observeRun(ctx context.Context, r request, s *snapshot, seen *memory) error {
	if err := k.find(ctx, s, seen); err != nil || !s.Resource.Rewrites {
		return err
	}
	if s.Migration.Status.ResourceVersion == "" { // the original says in two steps that it has begun
		var err error
		s.Version, s.Unlisted, err = versionOf(ctx, r, *seen)
		return err
	}
	s.Progress = progressOf(s.Migration)
	list := &metav1.PartialObjectMetadataList{}
	options := metav1.ListOptions{Limit: seen.Limit, Continue: s.Progress.Next}
	err := r.Reader.List(ctx, seen.mapping(), "", options, list)
	if options.Continue != "" && apierrors.IsResourceExpired(err) {
		// The server says how to go on with what there is now. If it does not, all begins anew.
		if options.Continue = continueOf(err); options.Continue == "" {
			s.Progress = progress{}
		}
		list = &metav1.PartialObjectMetadataList{}
		err = r.Reader.List(ctx, seen.mapping(), "", options, list)
	}
	if s.Unlisted, err = lasts(err); err != nil || s.Unlisted != "" {
		return err
	}
	if endless := follow(options.Continue, list.Continue, s.Progress); endless != nil {
		s.Unlisted = endless.Error()
		return nil
	}
	s.Page = pageOf(list, s.Migration.Status.ResourceVersion, *seen)
	return nil
}

// mostObjects is of how many objects a migration is at most, as a server may make a list go on without an end.
const mostObjects = paging.MostPages * largestPage

// follow returns an error if the next page is the present one again, or there have been too many.
func follow(token, next string, p progress) error {
	var pages paging.List
	if p.Verified+p.Refused > mostObjects {
		return paging.ErrEndless
	}
	if err := pages.Next(token); err != nil {
		return err
	}
	return pages.Next(next)
}

// pageOf is what is kept of a page: the objects that are as old as the migration, and not done.
func pageOf(list *metav1.PartialObjectMetadataList, since string, seen memory) page {
	p := page{Next: list.Continue}
	if list.RemainingItemCount != nil {
		left := *list.RemainingItemCount
		p.Left = &left
	}
	for i := range list.Items {
		o := &list.Items[i]
		refused, done := seen.Done[o.UID]
		if done {
			p.Done = append(p.Done, o.UID)
		}
		switch order, err := resourceversion.CompareResourceVersion(o.ResourceVersion, since); {
		case refused != "":
			if p.Refused++; p.First == "" {
				p.First = refused
			}
		case done, err == nil && order > 0:
			p.Verified++
		default:
			p.Objects = append(p.Objects, object{o.Namespace, o.Name, o.UID, o.ResourceVersion})
		}
	}
	return p
}

// find asks discovery what the resource is, once for each migration.
func (k *caches) find(ctx context.Context, s *snapshot, seen *memory) error {
	if !seen.Resource.Kind.Empty() {
		s.Resource = seen.Resource
		return nil
	}
	wanted := schema.GroupResource{Group: s.Migration.Spec.Resource.Group, Resource: s.Migration.Spec.Resource.Resource}
	m, err := k.served(ctx, wanted)
	if err != nil || m == nil {
		return err
	}
	able, err := k.served(ctx, wanted, "list", "patch", "update")
	if err != nil {
		return err
	}
	s.Resource = resource{Kind: m.GroupVersionKind, Rewrites: able != nil}
	seen.Resource, seen.Plural, seen.Namespaced, seen.BuiltIn = s.Resource, m.Resource, m.Namespaced, m.BuiltIn
	return nil
}

// served returns how a resource is addressed that can do all of this; nil if nobody serves it. That the discovery of
// other groups has failed does not matter.
func (k *caches) served(ctx context.Context, wanted schema.GroupResource, verbs ...string) (*client.Mapping, error) {
	all, err := k.resources(ctx, verbs...)
	for _, m := range all {
		if m.GroupResource() == wanted {
			return &m, nil
		}
	}
	if failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err); partial {
		err = nil
		for version, cause := range failed {
			if version.Group == wanted.Group {
				err = cause
			}
		}
	}
	return nil, err
}

// mapping says how the objects are addressed.
func (m memory) mapping() client.Mapping {
	return client.Mapping{GroupVersionKind: m.Resource.Kind, Resource: m.Plural, Namespaced: m.Namespaced,
		BuiltIn: m.BuiltIn}
}

// versionOf returns the version of the resource now (SVM-3), or why that cannot be said.
func versionOf(ctx context.Context, r request, seen memory) (version, unlisted string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	err = r.Reader.List(ctx, seen.mapping(), "", metav1.ListOptions{Limit: 1}, list)
	unlisted, err = lasts(err)
	return list.ResourceVersion, unlisted, err
}

// lasts distinguishes errors that pass, which it returns, from those that last, of which it returns the text (SVM-5).
func lasts(err error) (text string, passing error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", err
	}
	switch code := status.Status().Code; {
	case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests,
		code == http.StatusRequestTimeout, code == http.StatusUnauthorized:
		return "", err
	}
	return clipped(err.Error()), nil
}

// continueOf returns how to go on with a list of which the version is forgotten; empty if the server does not say.
func continueOf(expired error) string {
	var status apierrors.APIStatus
	if !errors.As(expired, &status) {
		return ""
	}
	return status.Status().Continue
}
