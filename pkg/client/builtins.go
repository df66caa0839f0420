package client

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BuiltIns finds the mappings of built-in kinds and of no others. It stands in for a [Mapper] where there is no
// server to ask.
type BuiltIns struct{}

// Mapping returns the mapping of a built-in kind.
func (BuiltIns) Mapping(_ context.Context, kind schema.GroupVersionKind) (Mapping, error) {
	if m, ok := BuiltIn(kind); ok {
		return m, nil
	}
	return Mapping{}, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
}

// MappingFor returns the mapping of an object's kind.
func (b BuiltIns) MappingFor(ctx context.Context, o runtime.Object) (Mapping, error) {
	kind, err := KindOf(o)
	if err != nil {
		return Mapping{}, err
	}
	return b.Mapping(ctx, kind)
}
